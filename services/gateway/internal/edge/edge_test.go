package edge

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/usage"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// panickingBody panics on Read.
type panickingBody struct{}

func (panickingBody) Read([]byte) (int, error) { panic("bug") }
func (panickingBody) Close() error             { return nil }

// A panic after the charge refunds it; a response that can still be written shows the refund.
func TestPanicRefundsCharge(t *testing.T) {
	counters := storetest.Redis(t).Client()
	require.NoError(t, counters.HSet(t.Context(), counter.Epochs, "acc_a", 1).Err())
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	keys := authn.New([][]byte{make([]byte, 32)}, authn.Authority{Resolve: func(context.Context, api.PrincipalQuery) (api.Principal, error) {
		return api.Principal{Key: "key_a", Account: "acc_a", Epoch: 1, Limits: api.Limits{PerMinute: 10, PerDay: 10}, ExpiresAt: time.Now().Add(time.Hour)}, nil
	}}, time.Now, slog.New(slog.DiscardHandler))
	defer keys.Close()
	catalog, err := proxy.New("http://catalog.test", "token", roundTrip(func(*http.Request) (*http.Response, error) { panic("bug") }))
	require.NoError(t, err)
	history, err := proxy.New("http://history.test", "token", roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: panickingBody{}}, nil
	}))
	require.NoError(t, err)
	pages, err := docs.New("https://api.opportunity.example", docs.Operator{})
	require.NoError(t, err)
	recorded := map[api.CallOutcome]int{}
	recorder := usage.New(func(_ context.Context, b api.UsageBatch) error {
		for _, t := range b.Counts {
			recorded[t.Outcome] += t.Calls
		}
		return nil
	}, tel.Log)
	codes := map[string]int{}
	requests := usage.NewLog(func(_ context.Context, b api.RequestLogBatch) error {
		for _, r := range b.Requests {
			codes[fmt.Sprint(r.Status, r.Code)]++
		}
		return nil
	}, tel.Log)
	h, err := Edge{
		Usage: recorder, Log: requests, Now: time.Now,
		Keys: keys, Catalog: catalog, History: history, Pages: pages, Telemetry: tel, Errors: problem.Writer{Log: tel.Log},
		Limiter: admission.New(admission.Config{
			Redis: counters, Tracer: tel.Tracer, Log: tel.Log, Capacity: 10, Now: time.Now,
			Usage: func(context.Context, string) (api.DayUsage, error) { return api.DayUsage{}, nil },
		}),
	}.Handler()
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
	storetest.Eventually(t, "both calls are recorded", func() bool { return recorder.Pending() == 2 })
	require.NoError(t, recorder.Flush(t.Context()))
	require.Equal(t, map[api.CallOutcome]int{api.CallFailed: 2}, recorded, "recorded calls")
	require.NoError(t, requests.Flush(t.Context()))
	require.Equal(t, map[string]int{"500internal_error": 2}, codes, "logged requests")
}
