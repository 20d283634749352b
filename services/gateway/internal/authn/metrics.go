package authn

import (
	"errors"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label reason.
const (
	missed    = "miss"
	refreshed = "refresh" // the cached principal stays usable meanwhile
)

// Values of the label outcome.
const (
	found   = "found"
	unknown = "unknown"
	failed  = "failed" // authquota unavailable or its response invalid
)

func newLookups() *prometheus.CounterVec {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_key_lookups_total",
		Help: "Key lookups at authquota by reason (miss: not in the cache; refresh: cached for a minute) " +
			"and outcome (found, unknown: no such key, failed).",
	}, []string{"reason", "outcome"})
	for _, reason := range []string{missed, refreshed} {
		for _, outcome := range []string{found, unknown, failed} {
			lookups.WithLabelValues(reason, outcome)
		}
	}
	return lookups
}

func newRejected() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_unknown_keys_rejected_total",
		Help: "Requests with an unknown key, rejected from memory without a lookup.",
	})
}

func outcome(err error) string {
	switch {
	case err == nil:
		return found
	case errors.Is(err, otter.ErrNotFound):
		return unknown
	}
	return failed
}

// Collectors returns the metrics of the authenticator.
func (a *Authenticator) Collectors() []prometheus.Collector {
	requests := func(result string, count func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "gateway_key_cache_requests_total", Help: "Key cache requests by result: hit, miss.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count()) })
	}
	return []prometheus.Collector{
		a.lookups, a.rejected,
		requests("hit", func() uint64 { return a.cacheStats.Snapshot().Hits }),
		requests("miss", func() uint64 { return a.cacheStats.Snapshot().Misses }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_key_cache_entries", Help: "Keys in the cache.",
		}, func() float64 { return float64(a.cache.EstimatedSize()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_known_keys", Help: "Existing keys known by their digests: active, expired and revoked ones.",
		}, func() float64 { return float64(a.keys.size()) }),
	}
}
