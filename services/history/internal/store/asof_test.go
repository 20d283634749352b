package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
)

// Known must return for a past time what the service returned at that time. The events include late
// and repeated checks, and reviews with an earlier check time than the last one.
func TestAsOfMatchesPastResponses(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		round, newest := 0, int64(0)
		rapid.Check(t, func(r *rapid.T) {
			round++
			before := newest // of this round's summaries
			slugs := []string{"a" + time.Duration(round).String(), "b" + time.Duration(round).String()}
			type served struct {
				slug   string
				at     time.Time
				status api.VerificationStatus
				sum    api.Summary
			}
			var responses []served
			now := day0
			for range rapid.IntRange(1, 12).Draw(r, "steps") {
				now = now.Add(time.Duration(rapid.IntRange(1, 10*24*60).Draw(r, "minutes")) * time.Minute)
				if rapid.Bool().Draw(r, "append") {
					var events []api.VerificationEvent
					for range rapid.IntRange(1, 4).Draw(r, "events") {
						events = append(events, drawn(r, rapid.SampledFrom(slugs).Draw(r, "slug"), now))
					}
					_, _, err := s.Append(t.Context(), "ada", now, fileOf(lines(events...)))
					require.NoError(t, err)
				}
				all := s.summariesAfter(t, before)
				for _, slug := range slugs {
					sum := all[slug]
					newest = max(newest, sum.Sequence)
					responses = append(responses, served{slug, now, sum.StatusAt(nil, now), sum})
				}
			}
			for _, then := range responses {
				records, sum, err := s.AsOf(t.Context(), then.slug, then.at)
				require.NoError(t, err)
				require.Len(t, records, then.sum.HistoryCount)
				require.Equal(t, then.status, sum.StatusAt(nil, then.at))
				require.Equal(t, then.sum.VerificationAt(nil, then.at), sum.VerificationAt(nil, then.at))
				require.Equal(t, then.sum.Facts, sum.Facts)
			}
		})
	})
}

// drawn generates an event with a check time before now.
func drawn(r *rapid.T, slug string, now time.Time) api.VerificationEvent {
	e := review(slug, 0, rapid.SampledFrom([]string{"", "x", "y"}).Draw(r, "note"))
	e.CheckedAt = now.Add(-time.Duration(rapid.IntRange(0, 20*24).Draw(r, "hours ago")) * time.Hour)
	e.CheckType = rapid.SampledFrom([]api.CheckType{api.FactualReview, api.LinkCheck}).Draw(r, "kind")
	e.Outcome = rapid.SampledFrom(api.Outcomes[e.CheckType]).Draw(r, "outcome")
	switch {
	case e.CheckType == api.LinkCheck || rapid.Bool().Draw(r, "no facts"):
		e.Facts = nil
	default:
		e.Facts.Remote = rapid.SampledFrom([]*bool{nil, new(true), new(false)}).Draw(r, "remote")
	}
	return e
}
