package edge

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/services/gateway/internal/docsite"
)

// Only API requests count, and correct rejections count neither way.
func TestMeasure(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMeters(registry, nil)
	observe := func(to operation, outcome string, took time.Duration) {
		m.observe(&exchange{operation: to, outcome: outcome, since: time.Now().Add(-took)})
	}
	observe(opList, served, 0)
	observe(opHistory, rejected, 0)
	observe(opHistory, ourFault, 0)
	observe(opAlias, upstreamFault, 0)
	observe(opDocs, served, 0)
	observe(opAccount, upstreamFault, 0)
	for _, seconds := range []float64{0.8, 1, 1.5} { // of the objective: two are in time
		m.requests.WithLabelValues(string(opDetail), served, noTier).Inc()
		m.durations.WithLabelValues(string(opDetail), served).Observe(seconds * docsite.LatencyObjective.Seconds())
	}
	measured, err := Measure(registry)
	require.NoError(t, err)
	require.Equal(t, docsite.Measured{Calls: 6, Failed: 2, Served: 4, InTime: 3}, measured)
}
