package catalog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/listingtest"
)

func (s *service) queue(query string) api.ReviewQueue {
	s.t.Helper()
	return operated[api.ReviewQueue](s, 200, "ann", "GET", "reviews/queue"+query, "")
}

// queued returns the ids of all pages.
func (s *service) queued(query string) (ids []string) {
	s.t.Helper()
	for after := ""; ; {
		page := s.queue(query + after)
		for _, r := range page.Records {
			ids = append(ids, r.ID)
		}
		if page.Next == "" {
			return ids
		}
		after = "&after=" + page.Next
	}
}

// The queue has the records, reasons and order of the list of due records.
func TestQueueHasTheDueRecords(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.load(listingtest.Records(43, 150, startTime))
		s.curate("import", listingLine("candidate", ""))
		due := s.due("").Records
		var want []string
		for _, r := range due {
			want = append(want, r.ID)
		}
		require.Equal(t, want, s.queued("?within=0d&limit=7"))
		queue := s.queue("?within=0d&limit=1000")
		require.Equal(t, len(due), queue.Due)
		for i, r := range queue.Records {
			require.Equal(t, due[i], r.DueRecord)
		}
		week := s.due("?within=7d").Records
		require.Len(t, s.queued("?within=7d&limit=1000"), len(week))
		require.Len(t, s.queued("?scope=all&limit=11"),
			len(listingtest.Published(listingtest.Records(43, 150, startTime), startTime)))

		counts := map[string]int{}
		for _, r := range due {
			counts["&status="+string(r.Status)]++
			counts["&category="+string(r.Category)]++
			whys := map[string]bool{}
			for _, reason := range r.Reasons {
				whys[reason.Why] = true
			}
			for why := range whys {
				counts["&why="+why]++
			}
		}
		delete(counts, "&why=stale") // the index has it for the first reason only
		require.Greater(t, len(counts), 6)
		for query, n := range counts {
			require.Len(t, s.queued("?within=0d&limit=1000"+query), n, query)
		}
		for _, r := range due[:5] {
			require.Contains(t, s.queued("?within=0d&text="+r.ID), r.ID)
		}
		require.Empty(t, s.queued("?within=0d&text=%25"), "a wildcard must be plain text")
		for _, wrong := range []string{"?scope=week", "?scope=all&within=1d", "?why=bored", "?after=x", "?limit=0",
			"?available=yes", "?text=%ff", "?who=ann"} {
			require.Equal(t, 400, s.operate("ann", "GET", "reviews/queue"+wrong, "").Status, wrong)
		}
	})
}

func TestQueueOfTodayIsLevelled(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		s.clock.Set(time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC)) // a Wednesday
		const records = 40
		file := ""
		for i := range records {
			id := fmt.Sprintf("r-%02d", i)
			file += listingLine(id, `,"visibility":"published"`)
			// 20 fall due on Friday, 20 in 13 days.
			checked := s.clock.Now().AddDate(0, 0, 2-14).Add(time.Duration(i) * time.Minute)
			if i >= 20 {
				checked = s.clock.Now().AddDate(0, 0, -1)
			}
			s.history.add(api.Summary{Slug: id, LastCheckedAt: &checked, FirstCheckedAt: &checked,
				LastOutcome: api.OutcomeVerified, ReviewCount: 1, HistoryCount: 1})
		}
		s.curate("import", file)
		storetest.Eventually(t, "all are verified", func() bool { return len(s.queued("?within=0d")) == 0 })
		queue := s.queue("")
		require.Equal(t, api.Workday{Target: 10, DoneBy: map[string]int{}}, queue.Today, "want 20 records on two days")
		require.Equal(t, []string{"r-00", "r-01", "r-02", "r-03", "r-04", "r-05", "r-06", "r-07", "r-08", "r-09"},
			s.queued("?limit=3"))

		operated[api.Skip](s, 200, "ann", "PUT", "reviews/records/r-00/skip",
			`{"reason":"site down","until":"2026-11-19T09:00:00Z"}`)
		require.Equal(t, []string{"r-00"}, s.queued("?skipped=true&scope=all"))
		require.Equal(t, "r-10", s.queued("")[9], "another record must take the place of a skipped one")
		s.verify("ann", "r-01", "")
		queue = s.queue("")
		require.Equal(t, api.Workday{Target: 10, Done: 1, DoneBy: map[string]int{"ann": 1}}, queue.Today)
		require.Len(t, queue.Records, 9)

		s.history.setDown(true)
		require.Equal(t, api.Workday{Target: 10, Done: 1, DoneBy: map[string]int{}}, s.queue("").Today,
			"the queue must survive an outage of history")
		s.history.setDown(false)
		s.clock.Set(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)) // Saturday
		queue = s.queue("")
		require.Zero(t, queue.Today.Target)
		require.Equal(t, 19, queue.Due)
		require.Len(t, queue.Records, 19, "overdue records are shown on any day")
	})
}

func TestQueueIsOrderedByFindingsForQuotes(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		file := ""
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			file += listingLine(id, `,"visibility":"published"`)
		}
		s.curate("import", file)
		byTime := []string{"a", "b", "c", "d", "e", "f"}
		require.Equal(t, byTime, s.queued("?scope=all"))
		s.history.mu.Lock()
		s.history.findings = api.ListingFindings{Missing: []string{"e", "c", "private"}, Present: []string{"a", "d"}}
		s.history.mu.Unlock()
		for _, limit := range []string{"1", "2", "3", "4", "100"} {
			require.Equal(t, []string{"c", "e", "b", "f", "a", "d"}, s.queued("?scope=all&limit="+limit), limit)
		}
		var quotes []string
		for _, r := range s.queue("?scope=all").Records {
			quotes = append(quotes, r.Quotes)
		}
		require.Equal(t, []string{"missing", "missing", "", "", "present", "present"}, quotes)
		require.Len(t, s.queued("?within=0d&limit=4"), 6)

		s.verify("ann", "e", "")
		require.Equal(t, []string{"c", "e", "b", "f", "a", "d"}, s.queued(""),
			"a missing quote is work of today although the review is fresh")
		require.NotContains(t, s.queued("?within=0d"), "e")
		byTime = []string{"a", "b", "c", "d", "f", "e"}

		last := s.queue("?scope=all&limit=5").Next // after "a", whose quotes are present
		s.history.setDown(true)
		require.Equal(t, byTime, s.queued("?scope=all&limit=4"), "during an outage of history the due time orders")
		require.Contains(t, s.queued("?scope=all&after="+last), "d", "no record of the rest may be left out")
		s.history.setDown(false)
	})
}

func TestQueueShowsLeasesAndDrafts(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published"`)+listingLine("y", `,"visibility":"published"`))
		operated[api.Lease](s, 200, "ben", "PUT", "reviews/records/x/lease", `{}`)
		operated[api.Draft](s, 200, "ann", "PUT", "reviews/records/y/draft", `1`)
		records := s.queue("").Records
		require.Equal(t, "ben", records[0].Lease.Holder)
		require.Equal(t, "acme.example", records[0].Host)
		require.Nil(t, records[1].Lease)
		require.Equal(t, []bool{false, true}, []bool{records[0].Draft, records[1].Draft})
		require.Equal(t, []string{"y"}, s.queued("?available=true"))
		require.Equal(t, []string{"x"}, s.queued("?holder=ben"))
		require.Equal(t, []string{"x", "y"}, s.queued("?host=acme.example"))
		operated[api.Lease](s, 200, "ann", "PUT", "reviews/records/x/lease", `{"takeOver":true}`)
		require.Equal(t, []string{"x", "y"}, s.queued("?available=true"), "one's own lease does not hide a record")
		s.curate("withdraw", `{"ids":["x"]}`)
		require.Equal(t, []string{"y"}, s.queued(""))
	})
}
