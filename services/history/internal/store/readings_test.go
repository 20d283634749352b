package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/services/history/internal/store"
)

const (
	payPage = "https://maple.works/pay"
	faqPage = "https://maple.works/faq"
)

// list publishes a listing, or makes it private, with pages.
func (s testStore) list(t testing.TB, sequence int64, slug string, published bool, pages ...string) {
	t.Helper()
	require.NoError(t, store.NewListings(s.db).Save(t.Context(), feed.Cursor{}, []api.ListingState{{
		Sequence: sequence, ID: slug, Published: published, ApplicationURL: pages[0], Pages: pages,
	}}, feed.Cursor{}))
}

// quoted returns a verified review of slug at a time with a quote for each of its sources.
func quoted(slug string, at time.Time, quotes ...api.Quote) eventfile.Line {
	e := apitest.Verified(slug, at)
	e.SourceURLs = nil
	for i := range quotes {
		quotes[i].Fact = "remote"
		e.SourceURLs = append(e.SourceURLs, quotes[i].SourceURL)
	}
	l := eventfile.Line{Number: 1, Event: e}
	l.Evidence.Quotes = quotes
	l.Evidence.Complete()
	return l
}

func (s testStore) appendLine(t testing.TB, now time.Time, l eventfile.Line) {
	t.Helper()
	_, _, err := s.Append(t.Context(), "ada", now, fileOf([]eventfile.Line{l}))
	require.NoError(t, err)
}

// read stores the text of a page, or the failure to read it if outcome is not reachable.
func (s testStore) read(t testing.TB, at time.Time, url string, outcome api.Outcome, text string) {
	t.Helper()
	r := store.Reading{URL: url, ReadAt: at, Outcome: outcome}
	if outcome == api.OutcomeReachable {
		r.Text = &text
	} else {
		r.Note = text
	}
	require.NoError(t, s.SavePage(t.Context(), r))
}

func (s testStore) find(t testing.TB, since time.Time) map[api.Finding]int {
	t.Helper()
	found, err := s.FindQuotes(t.Context(), since)
	require.NoError(t, err)
	return found
}

func (s testStore) findings(t testing.TB) api.ListingFindings {
	t.Helper()
	findings, err := s.ListingFindings(t.Context())
	require.NoError(t, err)
	return findings
}

func TestPagesToRead(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		pages := func() map[string]time.Time {
			t.Helper()
			all, err := s.PagesToRead(t.Context())
			require.NoError(t, err)
			found := map[string]time.Time{}
			for _, p := range all {
				require.NotContains(t, found, p.URL, "a page is read once for all listings that cite it")
				found[p.URL] = time.UnixMicro(p.ReadAt).UTC()
			}
			return found
		}
		s.list(t, 1, "reviewed", true, "https://maple.works/apply", "https://maple.works")
		s.list(t, 2, "again", true, "https://birch.works/apply", faqPage)
		s.list(t, 3, "candidate", false, "https://oak.works/apply", "https://oak.works")
		s.appendLine(t, recorded, quoted("reviewed", recorded.Add(-time.Hour),
			api.Quote{SourceURL: faqPage, Exact: "a"}, api.Quote{SourceURL: "https://maple.works/apply", Exact: "b"}))
		epoch := time.Unix(0, 0).UTC()
		never := map[string]time.Time{faqPage: epoch, "https://oak.works/apply": epoch, "https://oak.works": epoch}
		require.Equal(t, never, pages(), "the link check reads application pages of published listings")

		s.read(t, recorded, faqPage, api.OutcomeReachable, "text")
		s.read(t, recorded, "https://oak.works/apply", api.OutcomeBlocked, "Answered 403.")
		s.read(t, recorded, "https://oak.works", api.OutcomeUnreachable, "Not reached.")
		require.Equal(t, map[string]time.Time{faqPage: recorded, "https://oak.works": recorded}, pages(),
			"pages of candidates are read until they respond")
		s.list(t, 4, "candidate", true, "https://oak.works/apply", "https://oak.works")
		s.read(t, recorded, "https://oak.works", api.OutcomeReachable, "text")
		require.Equal(t, map[string]time.Time{faqPage: recorded}, pages())
	})
}

func TestQuotesAreFoundOnLatestTexts(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		day := func(n int) time.Time { return recorded.Add(time.Duration(n) * 24 * time.Hour) }
		s.list(t, 1, "a", true, "https://maple.works/apply", payPage)
		s.read(t, recorded.Add(-time.Hour), payPage, api.OutcomeReachable,
			"We pay $20 per hour. You must be 18 or older.")
		pay := api.Quote{SourceURL: payPage, Exact: "$20 per hour", Prefix: "We pay ", Suffix: ". You must"}
		s.appendLine(t, recorded, quoted("a", recorded, pay))
		finding := func() (api.Finding, string) {
			t.Helper()
			pay.Fact = "remote"
			found, err := s.Readings(t.Context(), []api.Quote{pay})
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, pay, found[0].Quote)
			return found[0].Finding, found[0].Note
		}
		none := api.ListingFindings{Missing: []string{}, Present: []string{}}
		present, missing := none, none
		present.Present, missing.Missing = []string{"a"}, []string{"a"}
		for i, c := range []struct {
			outcome  api.Outcome
			text     string
			want     api.Finding
			findings api.ListingFindings
		}{
			{api.OutcomeReachable, "We pay $20 per hour. You must be 18 or older.", api.QuotePresent, present},
			{api.OutcomeReachable, "New: we pay up to $20 per hour.", api.QuoteMoved, none},
			{api.OutcomeReachable, "We pay $200 per hour. You must be 18 or older.", api.QuoteMissing, missing},
			{api.OutcomeBlocked, "Answered 403.", api.QuoteUnknown, none},
			{api.OutcomeClosed, "Answered 404.", api.QuoteMissing, missing},
		} {
			s.read(t, day(i), payPage, c.outcome, c.text)
			require.Equal(t, map[api.Finding]int{c.want: 1}, s.find(t, day(i)), c.text)
			got, note := finding()
			require.Equal(t, c.want, got, c.text)
			require.Equal(t, c.outcome != api.OutcomeReachable, note != "")
			require.Equal(t, c.findings, s.findings(t), c.text)
			require.Empty(t, s.find(t, day(i).Add(time.Second)), "nothing was read since then")
		}
		require.Len(t, s.events(t, "a"), 1, "reading records no event")

		texts, err := s.PageTexts(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, []api.PageText{{URL: "https://maple.works/apply"}, {
			URL: payPage, ReadAt: day(4), Note: "Answered 404.", Text: "We pay $200 per hour. You must be 18 or older.",
			ReviewedText: "We pay $20 per hour. You must be 18 or older.", ReviewedAt: recorded.Add(-time.Hour),
		}}, texts.Pages)

		s.appendLine(t, day(4), quoted("a", day(4), api.Quote{SourceURL: payPage, Exact: "$200"}))
		require.Empty(t, s.findings(t).Missing, "a review deletes the finding")
		s.appendLine(t, day(5), eventfile.Line{Number: 1, Event: apitest.Verified("a", day(5))})
		s.read(t, day(5), payPage, api.OutcomeReachable, "We pay $200 per hour.")
		require.Equal(t, map[api.Finding]int{api.QuotePresent: 1}, s.find(t, day(5)),
			"the quotes of a review without any stay")
	})
}

func TestPresentFindingNeedsQuoteOfEveryFact(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.list(t, 1, "a", true, "https://maple.works/apply")
		l := quoted("a", recorded, api.Quote{SourceURL: payPage, Exact: "work from home"})
		l.Event.Facts.DegreeRequired = new(false)
		s.appendLine(t, recorded, l)
		s.read(t, recorded, payPage, api.OutcomeReachable, "You work from home.")
		require.Equal(t, map[api.Finding]int{api.QuotePresent: 1}, s.find(t, recorded))
		require.Empty(t, s.findings(t).Present)

		never := quoted("a", recorded.Add(time.Hour), api.Quote{SourceURL: payPage, Exact: "work from home"},
			api.Quote{SourceURL: faqPage, Exact: "never read"})
		s.appendLine(t, recorded.Add(time.Hour), never)
		require.Equal(t, map[api.Finding]int{api.QuotePresent: 1}, s.find(t, recorded))
		require.Empty(t, s.findings(t).Present, "a quote on a page that was never read is not present")
	})
}

func TestReviewCapturesTextsOfTheLastDays(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.list(t, 1, "a", true, "https://maple.works/apply")
		s.read(t, recorded.Add(-8*24*time.Hour), payPage, api.OutcomeReachable, "old")
		s.read(t, recorded.Add(-6*24*time.Hour), faqPage, api.OutcomeReachable, "recent")
		s.read(t, recorded.Add(-time.Hour), faqPage, api.OutcomeBlocked, "Answered 403.")
		s.appendLine(t, recorded, quoted("a", recorded.Add(-10*24*time.Hour),
			api.Quote{SourceURL: faqPage, Exact: "b"}))
		s.appendLine(t, recorded, quoted("a", recorded, api.Quote{SourceURL: payPage, Exact: "a"},
			api.Quote{SourceURL: faqPage, Exact: "b"}))
		records, _, err := s.RecordHistory(t.Context(), "a", "")
		require.NoError(t, err)
		private, err := records[0].Private()
		require.NoError(t, err)
		require.Equal(t, []api.Capture{{
			SourceURL: faqPage, ReadAt: recorded.Add(-6 * 24 * time.Hour),
			SHA256: "034a7e52c5c9534b709dc1dba403868399b0949f7c1933a67325c22077ffc221",
		}}, private.Captures)
		require.NotNil(t, records[0].Leaf(), "the hash covers the captures")
		private, err = records[1].Private()
		require.NoError(t, err)
		require.Empty(t, private.Captures, "the curator of an older review did not see this text")
	})
}

func TestQuotesAreFoundOnTextsOfAnyAge(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.read(t, recorded, payPage, api.OutcomeReachable, "We pay \"$20\" per hour.")
		s.read(t, recorded.Add(time.Hour), payPage, api.OutcomeBlocked, "Answered 403.")
		s.read(t, recorded, faqPage, api.OutcomeBlocked, "Answered 403.")
		quotes := []api.Quote{
			{SourceURL: payPage, Exact: "pay “$20”"}, {SourceURL: payPage, Exact: "Bananas are blue"},
			{SourceURL: faqPage, Exact: "pay"}, {SourceURL: "https://never.works/", Exact: "pay"},
		}
		found, err := s.FindOnTexts(t.Context(), quotes)
		require.NoError(t, err)
		require.Equal(t, []api.QuoteReading{
			{Quote: quotes[0], Finding: api.QuotePresent, ReadAt: recorded, Note: "Answered 403."},
			{Quote: quotes[1], Finding: api.QuoteMissing, ReadAt: recorded, Note: "Answered 403."},
			{Quote: quotes[2], Finding: api.QuoteUnknown, Note: "Answered 403."},
			{Quote: quotes[3], Finding: api.QuoteUnknown},
		}, found)
	})
}

func TestNearestSentenceIsSuggestedForAMissingQuote(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.list(t, 1, "a", false, "https://maple.works/apply")
		s.read(t, recorded, payPage, api.OutcomeReachable, "Sellers earn $18 per hour. Everything is fine.")
		s.read(t, recorded, "https://maple.works/apply", api.OutcomeReachable, "Contributors earn $15 per hour.")
		missing := api.Quote{Fact: "pay", SourceURL: payPage, Exact: "Sellers earn $20 per hour."}
		exact := func(quotes ...api.Quote) (all []string) {
			t.Helper()
			found, err := s.Suggestions(t.Context(), "a", quotes, []api.Quote{missing})
			require.NoError(t, err)
			for _, q := range found {
				require.Equal(t, "pay", q.Fact)
				all = append(all, q.Exact)
			}
			return all
		}
		require.Equal(t, []string{"Sellers earn $18 per hour.", "Contributors earn $15 per hour."}, exact(),
			"the nearest comes first")
		other := api.Quote{Fact: "pay", SourceURL: faqPage, Exact: "$18"}
		require.Equal(t, []string{"Sellers earn $18 per hour."}, exact(other), "the fact has another quote")
		require.Empty(t, exact(api.Quote{Fact: "pay", SourceURL: payPage, Exact: "Sellers earn $18 per hour."}),
			"it is quoted already")
	})
}

func TestOldTextsAreDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		count := func(table string) (n int) {
			t.Helper()
			require.NoError(t, s.db.Raw("SELECT count(*) FROM "+table).Scan(&n).Error)
			return n
		}
		s.read(t, recorded, payPage, api.OutcomeReachable, "first")
		s.read(t, recorded, faqPage, api.OutcomeReachable, "first")
		require.Equal(t, 1, count("page_texts"), "equal texts are stored once")
		s.read(t, recorded.Add(time.Hour), payPage, api.OutcomeReachable, "second")
		s.read(t, recorded.Add(2*time.Hour), payPage, api.OutcomeBlocked, "Answered 403.")
		require.Equal(t, 2, count("page_texts"), "the text of an earlier review stays")
		prune := func(before time.Time) {
			t.Helper()
			require.NoError(t, s.PrunePages(t.Context(), before))
		}
		prune(recorded)
		require.Equal(t, []int{2, 2}, []int{count("page_texts"), count("pages")})
		prune(recorded.Add(time.Hour))
		require.Equal(t, []int{1, 1}, []int{count("page_texts"), count("pages")})
		prune(recorded.Add(3 * time.Hour))
		require.Equal(t, []int{0, 0}, []int{count("page_texts"), count("pages")})
	})
}

// 10,000 pages of 50 KB fit in 200 MB. The texts are parts of the documentation, each with another
// start.
func TestTenThousandPagesFitInTwoHundredMegabytes(t *testing.T) {
	files, err := filepath.Glob("../../../../docs/*/*.md")
	require.NoError(t, err)
	var all string
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		all += strings.Join(strings.Fields(string(text)), " ") + " "
	}
	const pages, size = 100, 50_000
	s := open(t, schema.SQLite(t))
	bytes := func() (n int64) {
		t.Helper()
		require.NoError(t, s.db.Raw("SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM "+
			"pragma_page_size)").Scan(&n).Error)
		return n
	}
	before := bytes()
	for i := range pages {
		start := (len(all) - size) / pages * i
		s.read(t, recorded, fmt.Sprintf("https://site-%d.works/faq", i), api.OutcomeReachable,
			strings.ToValidUTF8(all[start:start+size], ""))
	}
	each := (bytes() - before) / pages
	t.Logf("a page of %d bytes takes %d bytes: %.0f MB for 10,000", size, each, float64(each)*10_000/1e6)
	require.Less(t, each*10_000, int64(200e6))
}
