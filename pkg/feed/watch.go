package feed

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Watch is the metrics of a feed.
type Watch struct {
	started  time.Time
	complete atomic.Int64 // nanoseconds since started at which the copy was last known to have everything
	failures prometheus.Counter
}

// NewWatch registers the metrics of the feed what.
func NewWatch(registry prometheus.Registerer, what string) *Watch {
	labels := prometheus.Labels{"feed": what}
	w := &Watch{started: time.Now(), failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "feed_pull_failures_total", Help: "Pulls from another service that failed and are made again.", ConstLabels: labels,
	})}
	registry.MustRegister(w.failures, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "feed_lag_seconds", ConstLabels: labels,
		Help: "Time since the copy was last known to have all that the other service had, or since the start. " +
			"It runs up to 25 s while there is nothing new, because a pull waits that long for news.",
	}, func() float64 { return (time.Since(w.started) - time.Duration(w.complete.Load())).Seconds() }))
	return w
}

// Pulled records how a pull ended. A full page leaves open whether there is more.
func (w *Watch) Pulled(changes int, err error) {
	switch {
	case err != nil:
		w.failures.Inc()
	case changes < Page:
		w.complete.Store(int64(time.Since(w.started)))
	}
}
