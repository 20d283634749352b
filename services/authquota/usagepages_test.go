package authquota_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
)

// rename names a key on its page.
func (b *browser) rename(id, name string) {
	b.svc.t.Helper()
	b.Post("/account/keys/"+id+"/name", "name", name).Leads("/account/keys/" + id)
}

// calls reports requests of a key with one outcome.
func (s *service) calls(key, day string, outcome api.CallOutcome, n int) {
	s.t.Helper()
	at := s.now()
	sent := s.sendBatch(batchID(), api.UsageCount{Day: day, Key: key, Outcome: outcome, Calls: n, LastAt: at})
	require.Equal(s.t, http.StatusNoContent, sent.Status, "%s", sent.Body)
}

// During a Redis outage the pages show the ledger's figures and say so.
func TestUsageWithoutRedis(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		key := svc.issue(nil)
		older := key.Account
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 9, b.Account: 7, older: 2})
		svc.eventually(dayUsage{Day: "2026-11-20", Service: 9, Accounts: map[string]int{b.Account: 7, older: 2}})
		s.Stop()
		b.Get("/account").Shows(http.StatusOK, "7 of 100 requests charged, 93 left")
		b.connect(key.Key).Leads("/account/keys") // moves the usage of today
		for _, path := range []string{"/account", "/account/usage"} {
			b.Get(path).Shows(http.StatusOK, "9 of 100 requests charged, 91 left", "live counters are temporarily unavailable")
		}
		b.Get("/account/plan").Shows(http.StatusOK)
		require.Equal(t, http.StatusOK, b.Get("/account/usage.csv").Status)
		s.Start()
		s.charge(t, "2026-11-20", map[string]int{b.Account: 11})
		storetest.Eventually(t, "live counters again", func() bool {
			text := b.Get("/account/usage").Text()
			return strings.Contains(text, "11 of 100") && !strings.Contains(text, "temporarily unavailable")
		})
	})
}

// The requests of the last 60 seconds are those that the gateway has admitted by the clock of Redis.
func TestRequestsOfTheLastMinute(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		b.Get("/account/usage").Shows(http.StatusOK, "0 of 10 requests accepted in the last 60 seconds")
		now, err := s.Client().Time(t.Context()).Result()
		require.NoError(t, err)
		for _, ago := range []time.Duration{time.Hour, 2 * time.Minute, 10 * time.Second, 0} {
			require.NoError(t, s.Client().LPush(t.Context(), counter.Window(b.Account), now.Add(-ago).UnixMicro()).Err())
		}
		b.Get("/account/usage").Shows(http.StatusOK, "2 of 10 requests accepted in the last 60 seconds")
	})
}
