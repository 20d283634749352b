package edge

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway/internal/usage"
)

// panickingBody panics on Read.
type panickingBody struct{}

func (panickingBody) Read([]byte) (int, error) { panic("bug") }

// A panic after the charge refunds it; a response that can still be written shows the refund.
func TestPanicRefundsCharge(t *testing.T) {
	e := newEdge(t)
	counters := e.admits(t, principal, func() {}).Client()
	e.Catalog = behind(t, func(*http.Request) (*http.Response, error) { panic("bug") })
	e.History = behind(t, func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, panickingBody{}, "Content-Type", "application/json"), nil
	})
	recorded, codes := map[api.CallOutcome]int{}, map[string]int{}
	e.Usage = usage.New(func(_ context.Context, b api.UsageBatch) error {
		for _, t := range b.Counts {
			recorded[t.Outcome] += t.Calls
		}
		for _, r := range b.Requests {
			codes[fmt.Sprint(r.Status, r.Code)]++
		}
		return nil
	}, e.Telemetry.Log)
	h, err := e.Handler()
	require.NoError(t, err)
	gateway := httptest.NewServer(h)
	defer gateway.Close()
	for path, answered := range map[string]bool{"/api/v1/opportunities": true, "/api/v1/opportunities/a/history": false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+apikey.Generate(apikey.Live).Reveal())
		resp, err := gateway.Client().Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		if answered {
			require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
			require.Equal(t, "10", resp.Header.Get("X-RateLimit-Remaining"))
		}
		storetest.Eventually(t, "the charge of "+path+" is refunded", func() bool {
			day := counters.HGetAll(context.Background(), counter.Day(counter.DayOf(time.Now()))).Val()
			return day["acc_a"] == "0" && day[counter.ServiceField] == "0"
		})
	}
	storetest.Eventually(t, "both calls are recorded", func() bool { return e.Usage.Pending() == 2 })
	require.NoError(t, e.Usage.Flush(t.Context()))
	require.Equal(t, map[api.CallOutcome]int{api.CallFailed: 2}, recorded, "recorded calls")
	require.Equal(t, map[string]int{"500internal_error": 2}, codes, "logged requests")
}
