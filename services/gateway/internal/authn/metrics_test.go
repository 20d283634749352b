package authn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/telemetry"
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

func TestLookupsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &account{principal: api.Principal{ExpiresAt: time.Now().Add(time.Hour)}}
		keys, after := a.authenticator(t)
		registry := prometheus.NewRegistry()
		registry.MustRegister(keys.Collectors()...)
		lookups := func() map[string]float64 { return counters(t, registry, "gateway_key_lookups_total") }
		want := map[string]float64{"found miss ": 0, "found refresh ": 0, "unknown miss ": 0, "unknown refresh ": 0,
			"failed miss ": 0, "failed refresh ": 0}
		require.Equal(t, want, lookups(), "series exist from the start")

		p, _ := after(0)
		a.set(func() { a.err = errors.New("unavailable") })
		_, _ = after(refreshAfter + time.Second)
		keys.Forget(p)
		_, _ = after(0)
		a.set(func() { a.err = &peer.StatusError{Status: http.StatusNotFound} })
		_, _ = after(0)
		want["found miss "], want["failed refresh "], want["failed miss "], want["unknown miss "] = 1, 1, 1, 1
		require.Equal(t, want, lookups())
	})
}

// Unknown keys that are rejected from memory are counted, and so are failed syncs.
func TestRejectionsAndSyncsAreCounted(t *testing.T) {
	keys := (&authority{}).start(t, time.Now)
	registry := prometheus.NewRegistry()
	registry.MustRegister(keys.Collectors()...)
	require.Equal(t, map[string]float64{"": 0}, counters(t, registry, "gateway_unknown_keys_rejected_total"))
	require.NotEmpty(t, resolve(t, keys, apikey.Generate(apikey.Live), somewhere))
	require.Equal(t, map[string]float64{"": 1}, counters(t, registry, "gateway_unknown_keys_rejected_total"))

	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
		require.NoError(t, err)
		keys, _ := (&account{}).authenticator(t)
		ctx, stop := context.WithTimeout(t.Context(), syncEvery)
		defer stop()
		require.NoError(t, keys.Run(ctx, tel))
		require.Equal(t, map[string]float64{"keys ": 1}, counters(t, tel.Registry, "feed_pull_failures_total"))
	})
}

// Refreshes are logged once per outage, so the cache does not log each of them.
func TestWarningsOfTheCacheAreLogged(t *testing.T) {
	var log bytes.Buffer
	l := cacheLogger{slog.New(slog.NewTextHandler(&log, nil))}
	l.Error(t.Context(), "refresh", errNotRefreshed)
	require.Empty(t, log.String())
	l.Error(t.Context(), "load", errors.New("broken"))
	require.Contains(t, log.String(), `level=ERROR msg="key cache: load" error=broken`)
	l.Warn(t.Context(), "evict", errors.New("slow"))
	require.Contains(t, log.String(), `level=WARN msg="key cache: evict" error=slow`)
}

func TestRetriesOfRefreshesAreSpread(t *testing.T) {
	var earliest, latest time.Duration = time.Hour, 0
	for i := range 1000 {
		e := otter.Entry[fingerprint, *Principal]{Key: sha256.Sum256([]byte{byte(i), byte(i >> 8)})}
		d := refreshTimes{}.RefreshAfterReloadFailure(e, nil)
		earliest, latest = min(earliest, d), max(latest, d)
	}
	require.GreaterOrEqual(t, earliest, refreshRetry/2)
	require.Less(t, latest, 3*refreshRetry/2)
	require.Greater(t, latest-earliest, refreshRetry/2)
}
