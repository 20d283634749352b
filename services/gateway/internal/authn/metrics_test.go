package authn

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// counters returns the counters of a metric by their labels.
func counters(t *testing.T, metrics prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				labels := ""
				for _, l := range m.GetLabel() {
					labels += l.GetValue() + " "
				}
				values[labels] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func TestLookupsAndRejectionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		key := a.issue(pepper)
		keys, tel := a.start(t, time.Now, io.Discard)
		lookups := func() map[string]float64 { return counters(t, tel.Registry, "gateway_key_lookups_total") }
		want := map[string]float64{"found miss ": 0, "found refresh ": 0, "unknown miss ": 0, "unknown refresh ": 0,
			"failed miss ": 0, "failed refresh ": 0}
		require.Equal(t, want, lookups(), "series exist from the start")

		p, err := keys.Resolve(t.Context(), KeyOf(key))
		require.NoError(t, err)
		a.set(func() { a.err = errors.New("unavailable") })
		time.Sleep(refreshAfter + time.Second)
		require.Empty(t, resolve(t, keys, key))
		synctest.Wait()
		keys.Forget(p)
		require.Equal(t, problem.ServiceUnavailable, resolve(t, keys, key))
		a.set(func() { a.err = &peer.StatusError{Status: http.StatusNotFound} })
		require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, key))
		want["found miss "], want["failed refresh "], want["failed miss "], want["unknown miss "] = 1, 1, 1, 1
		require.Equal(t, want, lookups())

		require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, random(1)[0]))
		require.Equal(t, map[string]float64{"": 1}, counters(t, tel.Registry, "gateway_unknown_keys_rejected_total"))
		require.Equal(t, map[string]float64{"keys ": 0}, counters(t, tel.Registry, "feed_pull_failures_total"))
		a.set(func() { a.unlisted = errors.New("unavailable") })
		time.Sleep(syncEvery + 2*syncPause)
		synctest.Wait()
		require.Equal(t, map[string]float64{"keys ": 1}, counters(t, tel.Registry, "feed_pull_failures_total"))
	})
}
