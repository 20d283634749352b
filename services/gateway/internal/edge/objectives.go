package edge

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"opportunity.internal/services/gateway/internal/docsite"
)

// Measure counts the API requests of this process for the service level objectives, as the queries
// of docs/operators/slo.md do.
func Measure(metrics prometheus.Gatherer) (docsite.Measured, error) {
	families, err := metrics.Gather()
	if err != nil {
		return docsite.Measured{}, err
	}
	var all docsite.Measured
	for _, family := range families {
		for _, m := range family.GetMetric() {
			outcome := apiOutcome(m)
			switch family.GetName() {
			case requestsMetric:
				calls := int(m.GetCounter().GetValue())
				switch outcome {
				case ourFault, upstreamFault:
					all.Failed += calls
					all.Calls += calls
				case served:
					all.Calls += calls
				}
			case durationsMetric:
				if outcome == served {
					all.Served += int(m.GetHistogram().GetSampleCount()) //nolint:gosec // far below 2^63
					all.InTime += int(upTo(docsite.LatencyObjective, m)) //nolint:gosec // as above
				}
			}
		}
	}
	return all, nil
}

func apiOutcome(m *dto.Metric) string {
	if !strings.HasPrefix(label(m, "route"), "/api/") {
		return ""
	}
	return label(m, "outcome")
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// upTo returns the number of observations of a histogram up to limit, one of its buckets.
func upTo(limit time.Duration, m *dto.Metric) uint64 {
	for _, bucket := range m.GetHistogram().GetBucket() {
		if bucket.GetUpperBound() >= limit.Seconds() {
			return bucket.GetCumulativeCount()
		}
	}
	return m.GetHistogram().GetSampleCount()
}
