package desk_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

const (
	site  = "https://maple.example/"
	rates = "https://maple.example/rates"
	apply = "https://maple.example/apply"

	getSheet  = "GET /reviews/records/maple"
	submitted = "POST /reviews/records/maple"
	lease     = "PUT /reviews/records/maple/lease"
)

// sheet is the review sheet of a record with two known facts and two sources.
func sheet() api.ReviewSheet {
	f := api.UnknownFacts()
	f.Remote = new(true)
	f.Pay = &api.Pay{Minimum: 17.5, Maximum: 20, Currency: "CAD", Unit: api.PerHour, SourceURL: rates}
	return api.ReviewSheet{
		GeneratedAt: time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC), LastEventID: "event-1", Visibility: "published",
		Status: api.Stale, ReviewedFacts: &f, Events: []api.RecordedEvent{},
		Record: api.Opportunity{ID: "maple", Sources: []api.Source{{URL: site}, {URL: rates}},
			Platform: api.Platform{Company: api.Company{Name: "Maple Scribe", Website: site}, Category: api.Online}},
		Reasons: []api.DueReason{{Why: api.DueStale, At: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}},
	}
}

// reviewing is a desk with the sheet of maple, and birch next in the queue. change changes the
// sheet.
func reviewing(t *testing.T, change ...func(*api.ReviewSheet)) (*server, browser) {
	t.Helper()
	s, shown := newServer(t), sheet()
	for _, c := range change {
		c(&shown)
	}
	s.api.respond(getSheet, shown)
	s.api.respond("GET /reviews/queue", queue("birch"))
	s.api.respond("GET /reviews/second-opinions", api.OpinionList{})
	return s, s.signedIn()
}

func queue(ids ...string) (q api.ReviewQueue) {
	for _, id := range ids {
		q.Records = append(q.Records, api.QueueRecord{DueRecord: api.DueRecord{ID: id}})
	}
	return q
}

func recorded(outcome api.Outcome) api.ReviewReport {
	return api.ReviewReport{AppendReport: api.AppendReport{Applied: true, Appended: 1}, EventID: "event-2",
		Outcome: outcome}
}

// submission is a request that submits a review.
type submission struct {
	SecondOpinionOf string
	SameTexts       map[string]bool
	Review          struct {
		CheckedAt   time.Time
		SourceURLs  []string
		Facts       api.GivenFacts
		LastEventID string
		Evidence    api.GivenEvidence
	}
}

func (s *server) submission(n int) (sent submission) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.api.sent(submitted)[n]), &sent))
	return sent
}

// input returns what a browser submits from a page: hidden and text fields, text areas, and what is
// checked or selected.
func (r response) input(t testing.TB, class string) url.Values {
	t.Helper()
	_, form, found := strings.Cut(r.body, `class="`+class+`"`)
	require.True(t, found, r.body)
	form = form[:strings.Index(form, "</form>")]
	values := url.Values{}
	attribute := func(tag, name string) string {
		if m := regexp.MustCompile(`\b` + name + `="([^"]*)"`).FindStringSubmatch(tag); m != nil {
			return html.UnescapeString(m[1])
		}
		return ""
	}
	for _, tag := range regexp.MustCompile(`<input [^>]*>`).FindAllString(form, -1) {
		kind := attribute(tag, "type")
		if kind != "radio" && kind != "checkbox" || strings.Contains(tag, " checked") {
			values.Add(attribute(tag, "name"), attribute(tag, "value"))
		}
	}
	for _, m := range regexp.MustCompile(`(?s)<textarea ([^>]*)>(.*?)</textarea>`).FindAllStringSubmatch(form, -1) {
		values.Add(attribute(m[1], "name"), html.UnescapeString(m[2]))
	}
	for _, m := range regexp.MustCompile(`(?s)<select ([^>]*)>(.*?)</select>`).FindAllStringSubmatch(form, -1) {
		chosen := ""
		for i, o := range regexp.MustCompile(`<option([^>]*)>([^<]*)`).FindAllStringSubmatch(m[2], -1) {
			if strings.HasSuffix(o[1], " selected") || i == 0 {
				if chosen = html.UnescapeString(o[2]); strings.Contains(o[1], "value=") {
					chosen = attribute(o[1], "value")
				}
			}
		}
		values.Add(attribute(m[1], "name"), chosen)
	}
	return values
}

// with sets fields of the input.
func with(v url.Values, pairs ...string) url.Values {
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

func unchanged(v url.Values) url.Values {
	return with(v, "state.0", "still", "state.1", "still", "rest", "keep", "outcome", "verified")
}

func (b browser) form(path string) url.Values {
	b.s.t.Helper()
	return b.get(path).input(b.s.t, "review")
}

func TestUnchangedReviewIsSubmittedAndTheNextOneOpens(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond(submitted, recorded(api.OutcomeVerified))
	resp := b.post("/reviews/maple", unchanged(b.form("/reviews/maple")))
	require.Equal(t, "/reviews/birch", resp.to(), resp.body)

	sent := s.submission(0).Review
	require.Equal(t, *sheet().ReviewedFacts, sent.Facts.Facts)
	require.Empty(t, sent.Facts.Missing)
	require.Equal(t, []string{site, rates}, sent.SourceURLs)
	require.Equal(t, "event-1", sent.LastEventID)
	require.Equal(t, sheet().GeneratedAt, sent.CheckedAt)

	s.api.respond("GET /reviews/records/birch", sheet())
	b.get("/reviews/birch").requireAll(t, "Review of Maple Scribe recorded: verified.", `action="/reviews/maple/undo"`)
	require.NotContains(t, b.get("/reviews/birch").body, "recorded: verified.", "it is said once")
}

// The review is recorded, whatever happens to the queue afterwards.
func TestRecordedReviewIsSaidDuringAnOutageOfTheQueue(t *testing.T) {
	s, b := reviewing(t)
	input := unchanged(b.form("/reviews/maple"))
	s.api.respond(submitted, recorded(api.OutcomeVerified))
	s.api.respondWith("GET /reviews/queue", http.StatusServiceUnavailable, nil)
	require.Equal(t, "/queue", b.post("/reviews/maple", input).to())
	page := b.get("/queue")
	require.Equal(t, http.StatusServiceUnavailable, page.StatusCode)
	page.requireAll(t, "Review of Maple Scribe recorded: verified.", "Temporarily unavailable")
}

func TestReviewWithProblemsKeepsItsInput(t *testing.T) {
	s, b := reviewing(t)
	resp := b.post("/reviews/maple",
		with(b.form("/reviews/maple"), "note", "half <done>", "fact.remote", "false", "state.1", "gone"))
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	resp.requireAll(t, `<a href="#outcome">Choose an outcome</a>`)
	again := resp.input(t, "review")
	require.Equal(t, []string{"half <done>", "false", "gone"},
		[]string{again.Get("note"), again.Get("fact.remote"), again.Get("state.1")})
	require.Empty(t, s.api.sent(submitted))

	s.api.respond(submitted, api.ReviewReport{AppendReport: api.AppendReport{Rejected: []api.RejectedLine{
		{Problems: apitest.Problems("facts.pay.minimum: -1 must not be negative")},
		{Problems: api.Problems{{Path: "startingCost", Message: "was changed"}, {Path: "sourceUrls[0]", Message: "is wrong"}}},
	}}})
	resp = b.post("/reviews/maple", with(unchanged(again), "listing.startingCost", "10 CAD"))
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, s.api.sent(submitted)[0], `"changes":[{"field":"startingCost","old":"","new":"10 CAD"}]`)
	resp.requireAll(t, `<a href="#fact.pay">Pay, From: `, `<a href="#sources">`+site+`: is wrong</a>`,
		`<a href="#listing.startingCost">Starting cost: was changed</a>`)
	require.Equal(t, "10 CAD", resp.input(t, "review").Get("listing.startingCost"))
}

func TestReviewAgainstNewerEventsShowsThemAndKeepsTheInput(t *testing.T) {
	s, b := reviewing(t)
	input := with(unchanged(b.form("/reviews/maple")), "note", "mine")
	newer := sheet()
	newer.LastEventID, newer.ReviewedFacts.Remote = "event-2", new(false)
	s.api.respond(getSheet, newer)
	s.api.respondWith(submitted, http.StatusConflict, api.ReviewReport{AppendReport: api.AppendReport{
		Newer: []api.RecordedEvent{{VerificationEvent: api.VerificationEvent{Note: "Office only now."}}}}})
	resp := b.post("/reviews/maple", input)
	require.Equal(t, http.StatusConflict, resp.StatusCode)
	resp.requireAll(t, "New value, recorded after you opened this record. Before: Yes", "Office only now.")
	again := resp.input(t, "review")
	require.Empty(t, again.Get("fact.remote"), "the curator kept another value")
	require.Equal(t, []string{"mine", "keep", "event-2"},
		[]string{again.Get("note"), again.Get("fact.pay"), again.Get("seen")})
}

func TestDraftIsSavedAndRestored(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("PUT /reviews/records/maple/draft", api.Draft{})
	input := with(b.form("/reviews/maple"), "note", "to be continued", "state.0", "still")
	require.Equal(t, "/reviews/maple", b.post("/reviews/maple/draft", input).to())
	r := b.request("POST", "/reviews/maple/draft", input)
	r.Header.Set("Sec-Fetch-Dest", "empty") // the script
	require.Equal(t, http.StatusNoContent, b.do(r).StatusCode)

	stored := sheet()
	stored.Draft = &api.Draft{Content: json.RawMessage(s.api.sent("PUT /reviews/records/maple/draft")[0])}
	s.api.respond(getSheet, stored)
	page := b.get("/reviews/maple")
	require.Equal(t, "still", page.input(t, "review").Get("state.0"))

	stored.LastEventID, stored.ReviewedFacts.Remote = "event-2", new(false) // something was recorded since
	stored.Draft.SavedAt = time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	s.api.respond(getSheet, stored)
	page = b.get("/reviews/maple")
	page.requireAll(t, "Your draft of", "New value")
	require.Equal(t, []string{"event-2", "to be continued"},
		[]string{page.input(t, "review").Get("seen"), page.input(t, "review").Get("note")})
}

func TestRecordInWorkCanBeTakenOver(t *testing.T) {
	s, b := reviewing(t)
	s.api.respondWith(lease, http.StatusConflict, api.Lease{Holder: "bob", TakenAt: s.Now()})
	b.get("/reviews/maple").requireAll(t, "<strong>bob</strong> has been working on this record")
	require.Equal(t, http.StatusConflict, b.post("/reviews/maple/lease", nil).StatusCode)
	s.api.respond(lease, api.Lease{Holder: "ann"})
	require.Equal(t, http.StatusNoContent, b.post("/reviews/maple/lease", url.Values{}).StatusCode)
	require.NotContains(t, b.get("/reviews/maple").body, "has been working")
}

func TestNextReviewPassesOverLeasesOfOthers(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("GET /reviews/queue", queue("birch", "cedar"))
	s.api.respondWith("PUT /reviews/records/birch/lease", http.StatusConflict, api.Lease{Holder: "bob"})
	require.Equal(t, "/reviews/cedar", b.get("/next").to())
	s.api.respond("GET /reviews/queue", api.ReviewQueue{})
	require.Equal(t, "/queue", b.get("/next").to())
	b.get("/queue").requireAll(t, "nothing left for you today")
}

// A programme that has ended stays public until a publisher withdraws it. A paused one is left
// alone.
func TestClosedReviewHasAReason(t *testing.T) {
	for reason, public := range map[string]bool{"ended": true, "paused": false} {
		s, b := reviewing(t)
		s.api.respond(submitted, recorded(api.OutcomeClosed))
		require.Equal(t, "/reviews/birch",
			b.post("/reviews/maple", with(b.form("/reviews/maple"), "outcome", "closed."+reason)).to())
		require.Equal(t, reason, s.submission(0).Review.Evidence.Closed)
		page := b.get("/help").body
		require.Equal(t, public, strings.Contains(page, "It stays public until a publisher withdraws it."), reason)
	}
}

// The link to a source leads through the desk, which records that the curator opened it, to the
// quote. A page with a fragment keeps it.
func TestLinksToSourcesAreRecordedAndRevealNothing(t *testing.T) {
	const opened = "PUT /reviews/records/maple/opened"
	s, b := reviewing(t, func(s *api.ReviewSheet) {
		s.Evidence.Quotes = []api.Quote{
			{Fact: "pay", SourceURL: rates + "#top", Exact: "17.50 – 20,  CAD & tips"},
			{Fact: "pay", SourceURL: rates, Exact: "from 17-18"}}
		s.Record.Sources = append(s.Record.Sources, api.Source{URL: rates + "#top"})
	})
	s.api.respond(opened, nil)
	page := b.get("/reviews/maple").body
	links := regexp.MustCompile(`href="(/reviews/maple/open[^"]*)"[^>]* data-quote`).FindAllStringSubmatch(page, -1)
	require.Equal(t, rates+"#top:~:text=17.50%20%E2%80%93%2020%2C%20CAD%20%26%20tips", b.get(links[0][1]).to())
	require.Equal(t, rates+"#:~:text=from%2017%2D18", b.get(links[1][1]).to())
	require.JSONEq(t, `{"sourceUrl":"`+rates+`","lastEventId":"event-1"}`, s.api.sent(opened)[1])
	require.Equal(t, http.StatusNotFound, b.get("/reviews/maple/open?page=https://evil.example").StatusCode)
	s.api.respondWith(opened, http.StatusServiceUnavailable, nil)
	require.Equal(t, rates+"#:~:text=from%2017%2D18", b.get(links[1][1]).to(), "the page opens during an outage")
	for _, link := range regexp.MustCompile(`<a [^>]*href="https?://[^>]*>`).FindAllString(page, -1) {
		require.Contains(t, link, `rel="noopener noreferrer"`)
	}
}

func TestQueueSaysWhatIsDueAndDone(t *testing.T) {
	s, b := reviewing(t)
	sunday := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	s.api.respond("GET /reviews/queue", api.ReviewQueue{GeneratedAt: sunday, Due: 7, Today: api.Workday{Done: 2}})
	b.get("/queue").requireAll(t, "Link checks are off here.",
		"<strong>2</strong> reviews recorded today. 7 due now. There is no target on weekends.")
	s.api.respond("GET /reviews/queue", api.ReviewQueue{
		GeneratedAt: sunday.AddDate(0, 0, 1), Due: 7, Records: []api.QueueRecord{{Quotes: "missing"}},
		Today: api.Workday{Done: 3, Target: 9, DoneBy: map[string]int{"ann": 2, "bob": 3}}})
	b.get("/queue").requireAll(t, `<span class="badge bad">quote missing</span>`,
		"<strong>5</strong> reviews recorded today, 2 by you; the target is 9. 7 due now.</p>")
}

func TestErrorsOfTheAPI(t *testing.T) {
	s, b := reviewing(t)
	for status, want := range map[int]string{
		http.StatusForbidden: "Your role, admin, does not allow this", http.StatusNotFound: "Not found",
		http.StatusBadRequest: "This request was rejected", http.StatusServiceUnavailable: "Temporarily unavailable",
	} {
		s.api.respondWith("GET /reviews/queue", status, api.Error{Error: api.ErrorDetail{Code: "x", Message: "The cause."}})
		page := b.get("/queue")
		require.Equal(t, status, page.StatusCode)
		page.requireAll(t, want)
		require.Equal(t, status < 500, strings.Contains(page.body, "The cause."), "of a driver, perhaps")
	}
	require.Equal(t, http.StatusOK, b.get("/help").StatusCode, "an outage ended the session")
}

func TestSheetShowsAllThatTheReviewCovers(t *testing.T) {
	kept, lost := api.Quote{Fact: "pay", SourceURL: rates, Exact: "from 17.50"}, api.Quote{Fact: "remote",
		SourceURL: site, Exact: "from home"}
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	edit := func(before, after string) api.ListingEdit {
		return api.ListingEdit{Actor: "bob", Fields: []string{"applicationUrl"}, Changes: []api.FieldChange{
			{Field: "applicationUrl", Old: json.RawMessage(`"` + before + `"`), New: json.RawMessage(`"` + after + `"`)}}}
	}
	_, b := reviewing(t, func(s *api.ReviewSheet) {
		s.Record.ApplicationURL, s.Record.WorkModel = apply, "Contractor"
		s.Edits = []api.ListingEdit{edit("https://old.example/", "https://mid.example/"), edit("https://mid.example/", apply)}
		s.Evidence = api.Evidence{Quotes: []api.Quote{kept, lost}, Gone: []string{"https://gone.example/"},
			Unopened: []string{site}}
		s.Readings = []api.QuoteReading{{Quote: kept, Finding: api.QuotePresent, ReadAt: at},
			{Quote: lost, Finding: api.QuoteMissing, ReadAt: at}}
		s.Suggestions = []api.Quote{{Fact: "degreeRequired", SourceURL: site, Exact: "no degree needed"},
			{Fact: "languages", SourceURL: apply, Exact: "in English"}}
		s.Events = []api.RecordedEvent{{Actor: "bob", Evidence: &s.Evidence,
			VerificationEvent: api.VerificationEvent{CheckType: api.FactualReview, CheckedAt: at, Outcome: api.OutcomeVerified,
				SourceURLs: []string{rates}}}}
	})
	page := b.get("/reviews/maple")
	page.requireAll(t,
		`data-open="https://maple.example/apply" data-page="a"`,
		"Changed since the latest review. Before: https://old.example/",
		`name="listing.workModel" value="Contractor"`, `name="listing.startingCost" value="" placeholder="not recorded"`,
		"7 unknown, and they stay unknown",
		"still says so, <time", "missing: a machine did not find the words, <time",
		"<bdi>bob</bdi> could not open it on <time",
		"https://gone.example/: gone, says <bdi>bob</bdi>, <time",
		`Use <kbd>q</kbd><span class="visually-hidden"> this quote</span>`, "Every quote found again",
		`Open maple.example/apply<span class="visually-hidden"> at the quote</span>`, " this quote and its page as a source",
		"No outcome yet: 1 fact kept, 9 unknown, 1 quote. 1 fact needs a decision.",
		`aria-describedby="recorded.fact.remote"`,
	)
	require.NotContains(t, page.body, `aria-describedby="recorded.fact.degreeRequired"`, "there is nothing to keep")
	require.Less(t, strings.Index(page.body, `name="source" value="`+rates+`"`),
		strings.Index(page.body, `name="source" value="`+site+`"`), "the source of the latest review is first")
	require.Equal(t, "Closed, and the application status becomes closed: 2 facts kept, 1 changed, 8 unknown, 1 quote.\n"+
		"Application status: unknown → Closed",
		b.post("/reviews/maple/summary", with(page.input(t, "review"), "outcome", "closed")).body)
}

func TestPastedQuoteIsComparedWithTheStoredText(t *testing.T) {
	s, b := reviewing(t, func(s *api.ReviewSheet) { s.Record.ApplicationURL = apply })
	s.api.respond(submitted, recorded(api.OutcomeVerified))
	page := b.get("/reviews/maple")
	page.requireAll(t, `<option value="https://maple.example/apply">maple.example/apply</option>`)
	input := unchanged(page.input(t, "review"))
	input["quote.remote"], input["quotefrom.remote"] = []string{"Bananas\r\nare blue", "From home"}, []string{site, apply}
	quotes := []api.Quote{{Fact: "remote", SourceURL: site, Exact: "Bananas are blue"},
		{Fact: "remote", SourceURL: apply, Exact: "From home"}}
	s.api.respond("POST /reviews/quotes", api.QuoteFindings{Readings: []api.QuoteReading{
		{Quote: quotes[0], Finding: api.QuoteMissing, ReadAt: s.Now()}, {Quote: quotes[1], Finding: api.QuoteUnknown}}})

	resp := b.post("/reviews/maple", input)
	require.Contains(t, html.UnescapeString(resp.body),
		`does not have "Bananas are blue"; correct the quote, or submit again to record it`)
	require.Empty(t, s.api.sent(submitted))
	var asked api.QuoteSearch
	require.NoError(t, json.Unmarshal([]byte(s.api.sent("POST /reviews/quotes")[0]), &asked))
	require.Equal(t, quotes, asked.Quotes)
	again := resp.input(t, "review")
	require.Equal(t, []string{"Bananas are blue", "From home", "", ""}, again["quote.remote"])
	require.Equal(t, []string{site, apply, "", ""}, again["quotefrom.remote"])
	require.Contains(t, again["source"], apply)

	require.Equal(t, "/reviews/birch", b.post("/reviews/maple", again).to(), "submitted again")
	require.Equal(t, quotes, s.submission(0).Review.Evidence.Quotes)
	b.get("/help").requireAll(t,
		"A quote was not compared with its page, because no text of the page is stored: Remote.")
}

func TestTextsOfASecondOpinionAreCompared(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond(submitted, api.ReviewReport{Texts: []api.ComparedTexts{{Fact: "requirements",
		First: []string{"18 years or older"}, Second: []string{"At least 18 years old"}}}})
	resp := b.post("/reviews/maple", with(unchanged(b.form("/reviews/maple?opinion=event-0")), "fact.requirements", "change",
		"requirements", "At least 18 years old"))
	resp.requireAll(t, `<a href="#texts.requirements">Requirements: choose whether your words mean the same`,
		"First review: 18 years or older")
	report := recorded(api.OutcomeVerified)
	for _, said := range []string{"Your opinion on Maple Scribe agrees with the first review.",
		"Your opinion differs in: Pay."} {
		s.api.respond(submitted, report)
		require.Equal(t, "/reviews/birch",
			b.post("/reviews/maple", with(resp.input(t, "review"), "texts.requirements", "same")).to())
		b.get("/help").requireAll(t, said)
		report.Disagree = []string{"pay"}
	}
	require.Equal(t, map[string]bool{"requirements": true}, s.submission(1).SameTexts)
	require.Equal(t, "event-0", s.submission(1).SecondOpinionOf)
}
