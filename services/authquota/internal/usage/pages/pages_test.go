package pages_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
	"opportunity.internal/services/authquota/internal/usage"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

// store is a fake of the usage statistics, the ledger and the live counters.
type store struct {
	days    []usage.DayCount
	keys    usage.KeyCounts
	lines   []usage.Line
	used    int   // by the live counters
	outage  error // of the live counters
	copied  int   // by the ledger
	failure error // of the statistics
}

func (s *store) ByDay(_ context.Context, _ string, r usage.Range) (in []usage.DayCount, _ error) {
	for _, d := range s.days {
		if d.Day >= r.From && d.Day <= r.To {
			in = append(in, d)
		}
	}
	return in, s.failure
}

func (s *store) Busiest(context.Context, string, usage.Range, int, usage.Figures) (usage.KeyCounts, error) {
	return s.keys, s.failure
}

func (s *store) Lines(_ context.Context, _ string, _ usage.Range, write func([]usage.Line) error) error {
	if s.failure != nil || len(s.lines) == 0 {
		return s.failure
	}
	return write(s.lines)
}

func (s *store) UsedOn(context.Context, string, time.Time) (int, error) { return s.copied, nil }

func (s *store) Used(context.Context, string, time.Time) (int, error) { return s.used, s.outage }

func start(t *testing.T) (*sitetest.Site, *store) {
	t.Helper()
	tiers, err := account.ParseTiers("")
	require.NoError(t, err)
	fake := new(store)
	return sitetest.New(t, func(*sitetest.Site) []site.Feature {
		p := &pages.Pages{Usage: fake, Allowances: site.Allowances{Tiers: tiers, Counters: fake, Ledger: fake}}
		return []site.Feature{p.Feature()}
	}), fake
}

func TestUsagePageWithoutRequests(t *testing.T) {
	s, _ := start(t)
	s.Get("/account/usage").Shows(http.StatusOK, "0 of 100 requests charged, 100 left", "At most 10 requests",
		"Resets on 21 November 2026, 00:00 UTC", "No requests in 90 days.", "No requests were sent in the last 30 days.")
}

func TestUsagePage(t *testing.T) {
	s, store := start(t)
	store.used = 13
	store.days = []usage.DayCount{
		{Day: "2026-08-23", Outcome: api.CallServed, Calls: 5}, // the first day of the chart
		{Day: "2026-10-01", Outcome: api.CallSubscriptionRequired, Calls: 40},
		{Day: "2026-11-18", Outcome: api.CallNotFound, Calls: 1234},
		{Day: "2026-11-20", Outcome: api.CallServed, Calls: 12},
		{Day: "2026-11-20", Outcome: api.CallMinuteLimitReached, Calls: 2},
	}
	p := s.Get("/account/usage").Shows(http.StatusOK, "13 of 100 requests charged, 87 left", "14 requests were sent today",
		"1,248 requests sent in the last 30 days", "1,293 requests in 90 days: 17 served, 1,234 not found, 42 rejected.", "Minute limit")
	require.Contains(t, p.Body, `href="/docs/errors#minute_limit_reached"`)
	require.Contains(t, p.Body, `aria-valuenow="13"`)
	require.NotContains(t, p.Text(), "Not in the plan", "was longer ago")
	require.Equal(t, 90, strings.Count(p.Body, `<th scope="row">2026-`), "one row for each day")
	require.Less(t, strings.Index(p.Body, `<th scope="row">2026-11-20`), strings.Index(p.Body, `<th scope="row">2026-11-18`), "newest first")
	require.NotContains(t, p.Body, "style=", "the policy forbids it")

	s.Get("/account/usage?days=1").Shows(http.StatusOK, "14 requests sent today")
	s.Get("/account/usage?days=7").Shows(http.StatusOK, "1,248 requests sent in the last 7 days")
	s.Get("/account/usage?days=90").Shows(http.StatusOK, "1,293 requests sent in the last 90 days", "Not in the plan")
	s.Get("/account/usage?days=400&days=x").Shows(http.StatusOK, "1,248 requests sent in the last 30 days")
}

func TestTodayEndsAtMidnightUTC(t *testing.T) {
	s, store := start(t)
	s.Now = time.Date(2026, 11, 20, 23, 59, 59, 0, time.UTC)
	s.Current.AuthenticatedAt = s.Now
	store.used, store.days = 100, []usage.DayCount{{Day: "2026-11-20", Outcome: api.CallServed, Calls: 100}}
	s.Get("/account/usage?days=1").Shows(http.StatusOK, "100 of 100 requests charged. Quota used up", "Resets on 21 November 2026, 00:00 UTC", "100 requests sent today")
	s.Now, store.used = s.Now.Add(time.Second), 0
	s.Get("/account/usage?days=1").Shows(http.StatusOK, "0 of 100 requests charged, 100 left", "Resets on 22 November 2026, 00:00 UTC",
		"No requests were sent today.", "100 requests in 90 days")
}

// During a Redis outage the page shows the ledger's figures and says so.
func TestUsageDuringCounterOutage(t *testing.T) {
	s, store := start(t)
	store.outage, store.copied = errors.New("refused"), 9
	s.Get("/account/usage").Shows(http.StatusOK, "9 of 100 requests charged, 91 left", "live counters are temporarily unavailable")
}

func TestUsageFile(t *testing.T) {
	s, store := start(t)
	require.Equal(t, "day,key,key name,outcome,requests\r\n", s.Get("/account/usage.csv").Body)
	store.lines = []usage.Line{{Day: "2026-11-20", Key: "key_1", Name: "=cmd", Outcome: api.CallServed, Calls: 3}}
	p := s.Get("/account/usage.csv")
	require.Equal(t, "text/csv; charset=utf-8; header=present", p.Header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="usage-2025-10-17-to-2026-11-20.csv"`, p.Header.Get("Content-Disposition"))
	require.Equal(t, "day,key,key name,outcome,requests\r\n2026-11-20,key_1,'=cmd,served,3\r\n", p.Body)
	store.failure = errors.New("db.internal refused")
	s.Get("/account/usage.csv").Shows(http.StatusInternalServerError)
}
