package edge

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/route"
)

// BenchmarkMeters is what a call pays for the metrics of the public listener.
func BenchmarkMeters(b *testing.B) {
	m := newMeters(prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		end := ended{unmatched, noTier, time.Now()}
		end.route, end.tier = route.List, api.Developer
		m.decided(admission.Decision{Verdict: admission.Admitted}, nil, end.tier)
		m.ended(&end, served)
	}
}
