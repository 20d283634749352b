package history

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/services/history/internal/store"
)

var (
	linkChecks = prometheus.NewDesc("history_link_checks_total", "Link checks recorded by all processes, by outcome.",
		[]string{"outcome"}, nil)
	linkRunDuration = prometheus.NewDesc("history_link_run_duration_seconds", "Duration of the last run of the link checker.", nil, nil)
	linkRunEnd      = prometheus.NewDesc("history_link_run_end_timestamp_seconds", "End of the last run of the link checker.", nil, nil)
	linkSuccess     = prometheus.NewDesc("history_link_run_success_timestamp_seconds",
		"End of the last run of the link checker that checked every due link.", nil, nil)
	lastCheckpoint = prometheus.NewDesc("history_checkpoint_timestamp_seconds", "Time of the newest checkpoint.", nil, nil)
	signedEvents   = prometheus.NewDesc("history_checkpoint_events", "Events that the newest checkpoint covers.", nil, nil)
)

// storedMetrics collects metrics of the link checker and the checkpoints from the database. The link checker runs in short-lived
// processes that are not scraped, and only one replica makes a checkpoint, so every replica reports the shared state.
type storedMetrics struct {
	events *store.Store
	links  store.LinkChecks
}

func (storedMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{linkChecks, linkRunDuration, linkRunEnd, linkSuccess, lastCheckpoint, signedEvents} {
		out <- d
	}
}

// Collect collects nothing if the database does not respond within a second, so that an outage does not delay the other metrics.
func (m storedMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	gauge := func(desc *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if links, err := m.links.Totals(ctx); err == nil {
		for outcome, checks := range links.Checks {
			out <- prometheus.MustNewConstMetric(linkChecks, prometheus.CounterValue, float64(checks), string(outcome))
		}
		if !links.EndedAt.IsZero() {
			gauge(linkRunDuration, links.Duration.Seconds())
			gauge(linkRunEnd, unixSeconds(links.EndedAt))
			gauge(linkSuccess, unixSeconds(links.SucceededAt))
		}
	}
	if newest, _, err := m.events.LastCheckpoint(ctx); err == nil && newest.Number > 0 {
		gauge(lastCheckpoint, unixSeconds(newest.Time))
		gauge(signedEvents, float64(newest.Size))
	}
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func appended(events *store.Store) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "history_events_appended_total", Help: "Events recorded by this process, without duplicates.",
	}, func() float64 { return float64(events.Appended()) })
}

func checkpointFailures(registry prometheus.Registerer) prometheus.Counter {
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "history_checkpoint_failures_total", Help: "Failed attempts of this process to make the daily checkpoint.",
	})
	registry.MustRegister(failures)
	return failures
}
