package edge

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/usage"
)

// BenchmarkMeters measures the cost of the metrics per call.
func BenchmarkMeters(b *testing.B) {
	m := newMeters(prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		end := observation{unmatched, noTier, time.Now()}
		end.route, end.tier = opList, api.Developer
		m.decided(admission.Decision{Verdict: admission.Admitted}, nil, end.tier)
		m.observe(&end, served)
	}
}

// BenchmarkRecord measures the cost of recording a call for its account.
func BenchmarkRecord(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	e := &Edge{
		Now: time.Now, Usage: usage.New(func(context.Context, api.UsageBatch) error { return nil }, quiet),
	}
	to := target{operation: opList}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/opportunities?country=CA&province=ON&remote=true&page=2", nil)
	caller := &authn.Principal{Principal: api.Principal{Key: "key_0199a7a0000070008000000000000000", Account: "acc_a"}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c := call{end: &observation{opList, api.Developer, time.Now()}, caller: caller, outcome: api.CallServed}
		e.record(r, to, &c)
		if i%1000 == 999 { // a flush each second
			_ = e.Usage.Flush(b.Context())
		}
	}
}
