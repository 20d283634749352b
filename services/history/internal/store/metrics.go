package store

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/database"
)

// Metrics collects metrics of the link checker and the checkpoints from the database. The link checker runs in short-lived
// processes that are not scraped, and only one replica makes a checkpoint, so every replica reports the shared state.
type Metrics struct{ db *database.DB }

// NewMetrics returns a collector that reads from db.
func NewMetrics(db *database.DB) Metrics { return Metrics{db} }

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

// Describe implements prometheus.Collector.
func (Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{linkChecks, linkRunDuration, linkRunEnd, linkSuccess, lastCheckpoint, signedEvents} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It collects nothing if the database does not respond within a second, so that an outage
// does not delay the other metrics.
func (m Metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m.links(ctx, out)
	m.checkpoints(ctx, out)
}

func (m Metrics) links(ctx context.Context, out chan<- prometheus.Metric) {
	var outcomes []struct {
		Outcome string
		Checks  float64
	}
	if err := m.db.WithContext(ctx).Raw("SELECT outcome, checks FROM link_outcomes").Scan(&outcomes).Error; err != nil {
		return
	}
	var last []struct{ EndedAt, Took, SucceededAt int64 }
	if err := m.db.WithContext(ctx).Raw("SELECT ended_at, took, succeeded_at FROM link_run WHERE id = 1").Scan(&last).Error; err != nil {
		return
	}
	for _, o := range outcomes {
		out <- prometheus.MustNewConstMetric(linkChecks, prometheus.CounterValue, o.Checks, o.Outcome)
	}
	for _, l := range last {
		for desc, micros := range map[*prometheus.Desc]int64{linkRunDuration: l.Took, linkRunEnd: l.EndedAt, linkSuccess: l.SucceededAt} {
			if l.EndedAt > 0 {
				out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(micros)/1e6)
			}
		}
	}
}

func (m Metrics) checkpoints(ctx context.Context, out chan<- prometheus.Metric) {
	var newest []struct{ MadeAt, Size int64 }
	if err := m.db.WithContext(ctx).Raw("SELECT made_at, size FROM checkpoints ORDER BY number DESC LIMIT 1").Scan(&newest).Error; err != nil {
		return
	}
	for _, c := range newest {
		out <- prometheus.MustNewConstMetric(lastCheckpoint, prometheus.GaugeValue, float64(c.MadeAt)/1e6)
		out <- prometheus.MustNewConstMetric(signedEvents, prometheus.GaugeValue, float64(c.Size))
	}
}
