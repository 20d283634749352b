package catalog

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/snapshot"
)

// collector exports the state of the snapshot, computed at each scrape. It exports the verification
// status of the published listings only while View returns no error, so that an old value is never
// mistaken for a current one.
type collector struct{ live *snapshot.Live }

// Describe describes nothing: the metrics depend on the state.
func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(name, help string, labels ...string) func(value float64, values ...string) {
		desc := prometheus.NewDesc(name, help, labels, nil)
		return func(value float64, values ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, values...)
		}
	}
	s := c.live.Stats()
	gauge("catalog_records", "Published records in memory.")(float64(s.Records))
	gauge("catalog_snapshot_bytes",
		"Size of the published records as JSON. Memory holds them in less.")(float64(s.Bytes))
	gauge("catalog_snapshot_build_duration_seconds", "Time it took to read and build the newest snapshot. "+
		"The first one reads everything, later ones only changes.")(s.BuildTime.Seconds())
	gauge("catalog_snapshot_timestamp_seconds", "Time the newest snapshot was built: at the start, and whenever "+
		"published data changes. 0 before the first one.")(float64(max(0, s.BuiltAt.UnixMilli())) / 1000)
	gauge("catalog_records_left_out", "Published records that are not served because they cannot be decoded; "+
		"the log names them.")(float64(s.LeftOut))
	gauge("catalog_sequence",
		"Position in the change sequence up to which changes are in memory.")(float64(s.Sequence))
	gauge("catalog_source_age_seconds", "Time since the database last responded.")(s.Age.Seconds())

	view, err := c.live.View()
	if err != nil {
		return
	}
	listings := gauge("catalog_listings", "Published listings by category and current verification status.",
		"category", "status")
	ratio := gauge("catalog_listings_verified_ratio",
		"Share of a category's published listings that are verified; absent if it has none.", "category")
	for _, s := range view.StatusCounts() {
		for status, n := range s.Statuses {
			listings(float64(n), string(s.Category), string(status))
		}
		if total := s.Total(); total > 0 {
			ratio(float64(s.Statuses[api.Verified])/float64(total), string(s.Category))
		}
	}
	set := view.FreeSet()
	gauge("catalog_free_set_records", "Records that the free tier can see.")(float64(set.Records))
	excluded := gauge("catalog_free_set_excluded", "Published records that the free tier cannot see, by reason: "+
		"never-reviewed, needs-review, stale, not-open or beyond-limit.", "reason")
	for reason, n := range map[string]int{
		"never-reviewed": set.NeverReviewed, "needs-review": set.NeedsReview, "stale": set.Stale,
		"not-open": set.NotOpen, "beyond-limit": set.BeyondLimit,
	} {
		excluded(float64(n), reason)
	}
	due := gauge("catalog_reviews_due", "Published listings that are not verified, or will not be after that time "+
		"without a review.", "within")
	due(float64(view.Due(0)), "0d")
	due(float64(view.Due(7*24*time.Hour)), "7d")
}
