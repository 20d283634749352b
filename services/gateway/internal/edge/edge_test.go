package edge

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway/internal/usage"
)

// panickingBody panics on Read.
type panickingBody struct{}

func (panickingBody) Read([]byte) (int, error) { panic("bug") }

// A client that disconnects while it gets a response is charged, and gets no error of the gateway.
func TestDisconnectDuringTheResponseIsToldApart(t *testing.T) {
	for _, c := range []struct{ method, path, body, operation string }{
		{http.MethodGet, "/api/v1/opportunities", "", "/api/v1/opportunities"}, {http.MethodPost, "/mcp", search,
			"/api/v1/search"},
	} {
		e := newEdge(t)
		log := e.logging(t)
		counters := e.admits(t, principal, nil).Client()
		ctx, disconnect := context.WithCancel(t.Context())
		e.Catalog = behind(t, func(r *http.Request) (*http.Response, error) {
			disconnect()
			return reply(http.StatusOK, canceled{r.Context()}, "Content-Type", jsonType), nil
		})
		h := e.handler(t)
		r := httptest.NewRequestWithContext(ctx, c.method, c.path, strings.NewReader(c.body))
		if c.body == "" {
			r.ContentLength = 0
		}
		r.Header.Set("Content-Type", jsonType)
		r.Header.Set("Authorization", bearer())
		func() {
			defer func() { _ = recover() }() // http.ErrAbortHandler
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		require.NoError(t, e.Telemetry.Shutdown(t.Context()))
		require.Contains(t, log.String(), `"status":499`, c.path)
		require.NotContains(t, log.String(), `"ERROR"`, c.path)
		requests := series(t, e.Telemetry.Registry, "gateway_requests_total")
		require.InDelta(t, 1, requests["refused "+c.operation+" "], 0, c.path)
		for name := range requests {
			require.NotContains(t, name, served)
		}
		day := counters.HGetAll(t.Context(), counter.Day(counter.DayOf(time.Now()))).Val()
		require.Equal(t, "1", day["acc_a"], c.path)
	}
}

// canceled is the body of a response whose reader is gone.
type canceled struct{ ctx context.Context }

func (c canceled) Read([]byte) (int, error) { return 0, context.Cause(c.ctx) }

// A panic after the charge refunds it; a response that can still be written shows the refund. The
// call counts for the day of its charge, by the Redis clock.
func TestPanicRefundsCharge(t *testing.T) {
	e := newEdge(t)
	var err error
	e.Pages, err = newPages() // counts only these calls
	require.NoError(t, err)
	counters := e.admits(t, principal, nil).Client()
	e.Catalog = behind(t, func(*http.Request) (*http.Response, error) { panic("bug") })
	e.History = behind(t, func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, panickingBody{}, "Content-Type", "application/json"), nil
	})
	tomorrow := time.Now().Add(24 * time.Hour)
	e.Now = func() time.Time { return tomorrow }
	recorded, codes := map[string]int{}, map[string]int{}
	e.Usage = usage.New(func(_ context.Context, b api.UsageBatch) error {
		for _, c := range b.Counts {
			recorded[c.Day+" "+string(c.Outcome)] += c.Calls
		}
		for _, r := range b.Requests {
			codes[fmt.Sprint(r.Route, " ", r.Status, r.Code)]++
			require.Positive(t, r.Duration)
			require.WithinDuration(t, tomorrow, r.At, time.Hour)
		}
		return nil
	}, e.Telemetry.Log)
	h := e.handler(t)
	gateway := httptest.NewServer(h)
	defer gateway.Close()
	for path, answered := range map[string]bool{"/api/v1/opportunities": true, "/api/v1/opportunities/a/history": false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", bearer())
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
	require.Equal(t, map[string]int{counter.DayOf(tomorrow.Add(-24*time.Hour)) + " failed": 2}, recorded, "recorded calls")
	require.Equal(t, map[string]int{"/api/v1/opportunities 500internal_error": 1,
		"/api/v1/opportunities/{id}/history 500internal_error": 1}, codes, "logged requests")
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/jobs", nil))
	require.Contains(t, availability(t, e), "0.00% of 2 requests", "a correct rejection counts neither way")
}
