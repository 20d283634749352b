package edge

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/route"
)

// BenchmarkMeters measures the cost of the metrics per call.
func BenchmarkMeters(b *testing.B) {
	m := newMeters(prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		end := observation{unmatched, noTier, time.Now()}
		end.route, end.tier = route.List, api.Developer
		m.decided(admission.Decision{Verdict: admission.Admitted}, nil, end.tier)
		m.observe(&end, served)
	}
}
