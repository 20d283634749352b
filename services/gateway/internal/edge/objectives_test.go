package edge

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/route"
)

// Only API requests count, and correct rejections count neither way.
func TestMeasure(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMeters(registry)
	observe := func(to route.Operation, outcome string, took time.Duration) {
		m.observe(&observation{to, noTier, time.Now().Add(-took)}, outcome)
	}
	observe(route.List, served, 0)
	observe(route.History, rejected, 0)
	observe(route.History, ourFault, 0)
	observe(route.Alias, upstreamFault, 0)
	observe(route.Docs, served, 0)
	observe(route.Account, upstreamFault, 0)
	for _, seconds := range []float64{0.8, 1, 1.5} { // of the objective: two are in time
		m.requests.WithLabelValues(string(route.Detail), served, noTier).Inc()
		m.durations.WithLabelValues(string(route.Detail), served).Observe(seconds * docs.LatencyObjective.Seconds())
	}
	measured, err := Measure(registry)
	require.NoError(t, err)
	require.Equal(t, docs.Measured{Calls: 6, Failed: 2, Served: 4, InTime: 3}, measured)
}
