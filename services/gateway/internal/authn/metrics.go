package authn

import (
	"errors"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// Why authquota is asked for a key.
const (
	missed    = "miss"
	refreshed = "refresh" // the key is known and may serve on meanwhile
)

// What comes of it.
const (
	found   = "found"
	unheld  = "unknown" // nobody holds the key
	failing = "failed"  // authquota did not answer as it should
)

func newLookups() *prometheus.CounterVec {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_key_lookups_total", Help: "Questions to authquota whose a key is, by reason (miss: it is not in the cache; " +
			"refresh: it has been there for a minute) and outcome (found, unknown: nobody holds it, failed).",
	}, []string{"reason", "outcome"})
	for _, why := range []string{missed, refreshed} {
		for _, outcome := range []string{found, unheld, failing} {
			lookups.WithLabelValues(why, outcome)
		}
	}
	return lookups
}

func newRejected() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_unknown_keys_rejected_total", Help: "Requests with an unknown key that were rejected from memory, without a lookup.",
	})
}

func outcome(err error) string {
	switch {
	case err == nil:
		return found
	case errors.Is(err, otter.ErrNotFound):
		return unheld
	}
	return failing
}

// Collectors are the metrics of the key cache.
func (a *Authenticator) Collectors() []prometheus.Collector {
	requests := func(result string, count func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "gateway_key_cache_requests_total", Help: "Calls that looked for their key in the cache, by result: hit, miss.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count()) })
	}
	return []prometheus.Collector{
		a.lookups, a.rejected,
		requests("hit", func() uint64 { return a.asked.Snapshot().Hits }),
		requests("miss", func() uint64 { return a.asked.Snapshot().Misses }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_key_cache_entries", Help: "Keys in the cache.",
		}, func() float64 { return float64(a.known.EstimatedSize()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_known_keys", Help: "Keys that the gateway knows to exist, by their digests: active, expired and revoked ones.",
		}, func() float64 { return float64(a.exist.size()) }),
	}
}
