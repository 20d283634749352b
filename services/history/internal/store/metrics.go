package store

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/database"
)

// Metrics tells what the database knows of the link checker and of the checkpoints. Runs of the checker are short-lived processes
// that nobody scrapes, and one replica of many makes a checkpoint; so every replica answers for all.
type Metrics struct{ db *database.DB }

// NewMetrics makes the collector over db.
func NewMetrics(db *database.DB) Metrics { return Metrics{db} }

var (
	linkChecks = prometheus.NewDesc("history_link_checks_total", "Link checks recorded, by outcome, of all processes.",
		[]string{"outcome"}, nil)
	linkRunTook = prometheus.NewDesc("history_link_run_duration_seconds", "How long the last run of the link checker took.", nil, nil)
	linkRunEnd  = prometheus.NewDesc("history_link_run_end_timestamp_seconds", "When the last run of the link checker ended.", nil, nil)
	linkSuccess = prometheus.NewDesc("history_link_run_success_timestamp_seconds",
		"When a run of the link checker last checked all that was due.", nil, nil)
	lastCheckpoint = prometheus.NewDesc("history_checkpoint_timestamp_seconds", "When the newest checkpoint was made.", nil, nil)
	signedEvents   = prometheus.NewDesc("history_checkpoint_events", "Events that the newest checkpoint covers.", nil, nil)
)

// Describe is that of prometheus.Collector.
func (Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{linkChecks, linkRunTook, linkRunEnd, linkSuccess, lastCheckpoint, signedEvents} {
		out <- d
	}
}

// Collect reads the figures. Where the database does not answer at once it gives none: the other metrics are needed then.
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
		for desc, micros := range map[*prometheus.Desc]int64{linkRunTook: l.Took, linkRunEnd: l.EndedAt, linkSuccess: l.SucceededAt} {
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
