package history

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/store"
)

var (
	linkChecks = prometheus.NewDesc("history_link_checks_total", "Link checks recorded by all processes, by outcome.",
		[]string{"outcome"}, nil)
	linkRunDuration = prometheus.NewDesc("history_link_run_duration_seconds",
		"Duration of the last run of the link checker.", nil, nil)
	linkRunEnd = prometheus.NewDesc("history_link_run_end_timestamp_seconds",
		"End of the last run of the link checker, 0 if there was none.", nil, nil)
	linkSuccess = prometheus.NewDesc("history_link_run_success_timestamp_seconds",
		"End of the last run of the link checker that checked every due link, 0 if there was none.", nil, nil)
	loggedEvents = prometheus.NewDesc("history_log_checkpoint_events",
		"Events that the published checkpoint of the log covers.", nil, nil)
	loggedLag = prometheus.NewDesc("history_log_lag_seconds",
		"Age of the oldest event that the published checkpoint of the log does not cover, 0 if it covers all.", nil,
		nil)
)

// storedMetrics collects metrics of the link checker and the log from the database. The link
// checker runs in short-lived processes that are not scraped, and only one replica signs a
// checkpoint, so every replica reports the shared state.
type storedMetrics struct {
	events *store.Store
	log    checkpoint.Log
}

// Describe describes nothing: what Collect collects depends on the database.
func (storedMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect collects nothing if the database does not respond within a second, so that an outage does
// not delay the other metrics.
func (m storedMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	gauge := func(desc *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if links, err := m.events.LinkTotals(ctx); err == nil {
		for outcome, checks := range links.Checks {
			out <- prometheus.MustNewConstMetric(linkChecks, prometheus.CounterValue, float64(checks), string(outcome))
		}
		gauge(linkRunDuration, float64(links.Took)/1e6)
		gauge(linkRunEnd, float64(links.EndedAt)/1e6)
		gauge(linkSuccess, float64(links.SucceededAt)/1e6)
	}
	if !m.log.Keys.Signs() {
		return
	}
	origin, _, _, err := m.log.Origin(ctx)
	if err != nil {
		return
	}
	published, err := m.log.Published(ctx, origin, 0)
	if err != nil {
		return
	}
	if next, err := m.events.Records(ctx, published.N, 1); err == nil {
		gauge(loggedEvents, float64(published.N))
		lag := 0.0
		if len(next) > 0 {
			lag = max(0, m.log.Now().Sub(time.UnixMicro(next[0].RecordedAt)).Seconds())
		}
		gauge(loggedLag, lag)
	}
}

func appended(events *store.Store) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "history_events_appended_total", Help: "Events recorded by this process, without duplicates.",
	}, func() float64 { return float64(events.Appended()) })
}

func witnessFailures(registry prometheus.Registerer) prometheus.Counter {
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "history_witness_failures_total",
		Help: "Attempts of this process to have the witnesses cosign a checkpoint of the log in which at least one failed " +
			"or rejected.",
	})
	registry.MustRegister(failures)
	return failures
}
