package authquota_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
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

// The requests of the last 60 seconds are those that the gateway has admitted by the clock of
// Redis.
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
