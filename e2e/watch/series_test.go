package watch_test

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"opportunity.internal/e2e/watch"
)

// now is the evaluation time.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// step is the time between two samples.
const step = time.Minute

// series holds time series in memory. value returns the value at a time before now.
type series []struct {
	labels labels.Labels
	value  func(before time.Duration) float64
	length time.Duration
}

// add adds a series with samples for length until now.
func (s *series) add(length time.Duration, value func(before time.Duration) float64, name string, pairs ...string) {
	*s = append(*s, struct {
		labels labels.Labels
		value  func(before time.Duration) float64
		length time.Duration
	}{labels.FromStrings(append([]string{model.MetricNameLabel, name}, pairs...)...), value, length})
}

// query evaluates an expression at now with the Prometheus engine.
func (s series) query(ctx context.Context, expr string) (promql.Vector, error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, Parser: watch.Parser})
	defer engine.Close()
	query, err := engine.NewInstantQuery(ctx, s, nil, expr, now)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	return query.Exec(ctx).Vector()
}

// Querier implements storage.Queryable.
func (s series) Querier(mint, maxt int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints,
		matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for i, one := range s {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) }) {
				found = append(found, s.samples(i, mint, maxt))
			}
		}
		return &set{found, -1}
	}}, nil
}

func (s series) samples(i int, mint, maxt int64) storage.Series {
	var samples []chunks.Sample
	one := s[i]
	for before := one.length; before >= 0; before -= step {
		if ms := now.Add(-before).UnixMilli(); ms >= mint && ms <= maxt {
			samples = append(samples, sample{ms, one.value(before)})
		}
	}
	return storage.NewListSeries(one.labels, samples)
}

// sample is a value at a time.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (s sample) F() float64                  { return s.value }
func (sample) ST() int64                     { return 0 }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// set is an iterator over series.
type set struct {
	all []storage.Series
	at  int
}

func (s *set) Next() bool                      { s.at++; return s.at < len(s.all) }
func (s *set) At() storage.Series              { return s.all[s.at] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }
