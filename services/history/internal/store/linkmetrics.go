package store

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/database"
)

// LinkMetrics tells of the link checker what the database knows. Its runs are short-lived processes that nobody scrapes, so the
// service that always runs answers for them.
type LinkMetrics struct{ db *database.DB }

// NewLinkMetrics makes the collector over db.
func NewLinkMetrics(db *database.DB) LinkMetrics { return LinkMetrics{db} }

var (
	linkChecks = prometheus.NewDesc("history_link_checks_total", "Link checks recorded, by outcome, of all processes.",
		[]string{"outcome"}, nil)
	linkRunTook = prometheus.NewDesc("history_link_run_duration_seconds", "How long the last run of the link checker took.", nil, nil)
	linkRunEnd  = prometheus.NewDesc("history_link_run_end_timestamp_seconds", "When the last run of the link checker ended.", nil, nil)
	linkSuccess = prometheus.NewDesc("history_link_run_success_timestamp_seconds",
		"When a run of the link checker last checked all that was due.", nil, nil)
)

// Describe is that of prometheus.Collector.
func (LinkMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{linkChecks, linkRunTook, linkRunEnd, linkSuccess} {
		out <- d
	}
}

// Collect reads the figures. Where the database does not answer at once it gives none: the other metrics are needed then.
func (m LinkMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
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
