package catalog

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/snapshot"
)

var (
	listingsDesc = prometheus.NewDesc("catalog_listings",
		"Published listings by category and current verification status.",
		[]string{"category", "status"}, nil)
	ratioDesc = prometheus.NewDesc("catalog_listings_verified_ratio",
		"Share of a category's published listings that are verified; absent if it has none.", []string{"category"}, nil)
	freeSetDesc  = prometheus.NewDesc("catalog_free_set_records", "Records that the free tier can see.", nil, nil)
	excludedDesc = prometheus.NewDesc("catalog_free_set_excluded",
		"Published records that the free tier cannot see, by reason: never-reviewed, needs-review, stale, not-open or beyond-limit.",
		[]string{"reason"}, nil)
	reviewsDueDesc = prometheus.NewDesc("catalog_reviews_due",
		"Published listings that are not verified, or will not be after that time without a review.",
		[]string{"within"}, nil)
)

// freshnessCollector exports the verification status of the published listings, computed from the
// snapshot at each scrape. It exports nothing while View returns an error, so that an old value is
// never mistaken for a current one.
type freshnessCollector struct{ live *snapshot.Live }

func (freshnessCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{listingsDesc, ratioDesc, freeSetDesc, excludedDesc, reviewsDueDesc} {
		out <- d
	}
}

func (f freshnessCollector) Collect(out chan<- prometheus.Metric) {
	view, err := f.live.View()
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, s := range view.StatusCounts() {
		for status, n := range s.Statuses {
			gauge(listingsDesc, float64(n), string(s.Category), string(status))
		}
		if total := s.Total(); total > 0 {
			gauge(ratioDesc, float64(s.Statuses[api.Verified])/float64(total), string(s.Category))
		}
	}
	set := view.FreeSet()
	gauge(freeSetDesc, float64(set.Records))
	for reason, n := range map[string]int{
		"never-reviewed": set.NeverReviewed, "needs-review": set.NeedsReview, "stale": set.Stale,
		"not-open": set.NotOpen, "beyond-limit": set.BeyondLimit,
	} {
		gauge(excludedDesc, float64(n), reason)
	}
	gauge(reviewsDueDesc, float64(view.Due(0)), "0d")
	gauge(reviewsDueDesc, float64(view.Due(7*24*time.Hour)), "7d")
}

func gauges(live *snapshot.Live) []prometheus.Collector {
	gauge := func(name, help string, value func(snapshot.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(live.Stats()) })
	}
	return []prometheus.Collector{
		gauge("catalog_records", "Published records in memory.",
			func(s snapshot.Stats) float64 { return float64(s.Records) }),
		gauge("catalog_snapshot_bytes", "Size of the published records as JSON. Memory holds them in less.",
			func(s snapshot.Stats) float64 { return float64(s.Bytes) }),
		gauge("catalog_snapshot_build_duration_seconds",
			"Time it took to read and build the newest snapshot. The first one reads everything, later ones only changes.",
			func(s snapshot.Stats) float64 { return s.BuildTime.Seconds() }),
		gauge("catalog_snapshot_timestamp_seconds",
			"Time the newest snapshot was built: at the start, and whenever published data changes. 0 before the first one.",
			func(s snapshot.Stats) float64 { return unixSeconds(s.BuiltAt) }),
		gauge("catalog_records_left_out", "Published records that are not served because they cannot be decoded; the log names them.",
			func(s snapshot.Stats) float64 { return float64(s.LeftOut) }),
		gauge("catalog_sequence", "Position in the change sequence up to which changes are in memory.",
			func(s snapshot.Stats) float64 { return float64(s.Sequence) }),
		gauge("catalog_source_age_seconds", "Time since the database last responded.",
			func(s snapshot.Stats) float64 { return s.Age.Seconds() }),
	}
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
