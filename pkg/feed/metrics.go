package feed

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics holds the metrics of a feed.
type Metrics struct {
	started  time.Time
	complete atomic.Int64 // when the copy was last known to be complete, in nanoseconds since started
	failures prometheus.Counter
}

// NewMetrics registers the metrics of the feed with that name.
func NewMetrics(registry prometheus.Registerer, name string) *Metrics {
	labels := prometheus.Labels{"feed": name}
	m := &Metrics{started: time.Now(), failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "feed_pull_failures_total", Help: "Failed pulls from another service. Each is retried.", ConstLabels: labels,
	})}
	registry.MustRegister(m.failures, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "feed_lag_seconds", ConstLabels: labels,
		Help: "Time since the copy was last known to be complete, or since the process start. " +
			"It grows up to 25 s without changes, because a pull waits that long for them.",
	}, func() float64 { return (time.Since(m.started) - time.Duration(m.complete.Load())).Seconds() }))
	return m
}

// Observe records the result of a pull. The copy is complete unless the page was full.
func (m *Metrics) Observe(changes int, err error) {
	switch {
	case err != nil:
		m.failures.Inc()
	case changes < PageSize:
		m.complete.Store(int64(time.Since(m.started)))
	}
}
