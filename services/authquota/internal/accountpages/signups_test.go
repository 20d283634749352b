package accountpages

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"opportunity.internal/pkg/storetest"
)

func TestSignUpsAreCountedByNetworkAndHour(t *testing.T) {
	s, now := newSignUps(), time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.forms)
	forms := func() (values []float64) { // limited, mailed
		families := storetest.Must(registry.Gather())(t)
		for _, m := range families[0].GetMetric() {
			values = append(values, m.GetCounter().GetValue())
		}
		return values
	}
	require.Equal(t, []float64{0, 0}, forms(), "the series exist from the start")
	for i, from := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1", "192.0.2.3", "nonsense"} {
		s.count(i < 4, from, now)
	}
	require.Equal(t, []float64{2, 4}, forms())
	require.InDelta(t, 3, s.largest(now.Add(29*time.Minute)), 0)
	require.Zero(t, s.largest(now.Add(30*time.Minute)), "the next hour")
}
