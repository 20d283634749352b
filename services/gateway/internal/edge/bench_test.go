package edge

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/usage"
)

// BenchmarkMeters measures the cost of the metrics per call.
func BenchmarkMeters(b *testing.B) {
	m := newMeters(prometheus.NewRegistry(), nil)
	b.ReportAllocs()
	for b.Loop() {
		m.decided(admission.Decision{Verdict: admission.Admitted}, nil, api.Developer)
		m.observe(&exchange{operation: opList, outcome: served, since: time.Now()})
	}
}

// BenchmarkRecord measures the cost of recording a call for its account.
func BenchmarkRecord(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	e := &Edge{
		Now: time.Now, Usage: usage.New(func(context.Context, api.UsageBatch) error { return nil }, quiet),
	}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/opportunities?country=CA&province=ON&remote=true&page=2", nil)
	caller := &authn.Principal{Principal: api.Principal{Key: "key_0199a7a0000070008000000000000000", Account: "acc_a"}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e.record(&exchange{Context: &gin.Context{Request: r}, operation: opList, since: time.Now(), caller: caller,
			status: http.StatusOK}, nil)
		if i%1000 == 999 { // a flush each second
			_ = e.Usage.Flush(b.Context())
		}
	}
}

// BenchmarkCall measures a list call through all steps, with Redis in another process and a service
// that responds at once.
func BenchmarkCall(b *testing.B) {
	e := newEdge(b)
	p := principal()
	p.Limits = api.Limits{PerMinute: 1 << 40, PerDay: 1 << 40}
	counters := e.admits(b, func() api.Principal { return p }, func() {}).Client()
	e.limits(b, counters, func() {}, 1<<40)
	body := strings.Repeat("x", 2300)
	e.Catalog = behind(b, func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, strings.NewReader(body), "Content-Type", jsonType, "Etag", `W/"0123456789abcdef"`), nil
	})
	h, err := e.Handler()
	require.NoError(b, err)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/api/v1/opportunities?country=CA", nil)
	r.Header.Set("Authorization", "Bearer "+apikey.Generate(apikey.Live).Reveal())
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
}

// BenchmarkPage measures a page through all steps without a key.
func BenchmarkPage(b *testing.B) {
	e := newEdge(b)
	e.Account = behind(b, func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, strings.NewReader("page"), "Content-Type", htmlType), nil
	})
	h, err := e.Handler()
	require.NoError(b, err)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/account/plan", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
