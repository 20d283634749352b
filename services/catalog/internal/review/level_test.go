package review_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/services/catalog/internal/review"
)

var monday = time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)

// simulate follows Level for as many days as due has entries, beginning on a Monday, and returns
// the reviews of each day. It fails if a record is not reviewed before the day on which it falls
// due, except those that are due on the first day.
func simulate(t require.TestingT, due []int) (loads []int) {
	left := append(slices.Clone(due), make([]int, review.Horizon)...)
	for day := range due {
		backlog := review.Backlog(left[day : day+review.Horizon])
		load := review.Level(backlog, 0, monday.AddDate(0, 0, day))
		loads = append(loads, load)
		for i := day; load > 0; i++ {
			n := min(load, left[i])
			left[i] -= n
			load -= n
		}
		require.Zero(t, left[day], "records that fall due on day %d of %v", day, due)
		if day < len(due)-1 && loads[day] > 0 {
			require.Zero(t, left[day+1], "records that fall due on the day after day %d of %v", day, due)
		}
	}
	return loads
}

// unlevelled returns the highest number of reviews on a day if each is done on its last working
// day.
func unlevelled(due []int) int {
	loads := map[int]int{}
	for day, n := range due {
		last := max(0, day-1)
		for monday.AddDate(0, 0, last).Weekday()%6 == 0 {
			last--
		}
		loads[last] += n
	}
	highest := 0
	for _, n := range loads {
		highest = max(highest, n)
	}
	return highest
}

func TestLevelMeetsEveryDeadlineWithoutAHigherPeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		due := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 40).Draw(t, "due")
		loads := simulate(t, due)
		require.LessOrEqual(t, slices.Max(loads), unlevelled(due))
		for day, load := range loads {
			if monday.AddDate(0, 0, day).Weekday()%6 == 0 {
				require.Zero(t, load, "a weekend")
			}
		}
	})
}

func TestLevelSpreadsABurstOverTheDaysOnWhichItCanBeReviewed(t *testing.T) {
	due := make([]int, 14)
	due[10] = 592 // a Thursday: reviewed from Monday to Wednesday
	require.Equal(t, []int{0, 0, 0, 0, 0, 0, 0, 198, 197, 197, 0, 0, 0, 0}, simulate(t, due))
	uniform := []int{0, 60, 60, 60, 60, 60, 0, 0, 60, 60, 60, 60, 60, 0}
	require.Equal(t, []int{60, 60, 60, 60, 60, 0, 0, 60, 60, 60, 60, 60, 0, 0}, simulate(t, uniform))
}

// Plan returns the targets that Level gives day by day.
func TestPlanFollowsLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		due := rapid.SliceOfN(rapid.IntRange(0, 300), review.Horizon, review.Horizon).Draw(t, "due")
		plan := review.Plan(review.Backlog(due), 0, monday)
		require.Equal(t, simulate(t, due), plan[:])
	})
	due := review.Backlog{4, 4, 4}
	require.Equal(t, 12, sum(review.Plan(due, 5, monday))-5, "done reviews are part of today's number")
	require.Equal(t, 12, sum(review.Plan(due, 5, monday.AddDate(0, 0, -1))), "reviews on a Sunday are extra")
}

func sum(days [review.Horizon]int) (n int) {
	for _, d := range days {
		n += d
	}
	return n
}

func TestDoneReviewsDoNotRaiseTheLevelOfTheDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		due := review.Backlog(rapid.SliceOfN(rapid.IntRange(0, 300), review.Horizon, review.Horizon).Draw(t, "due"))
		today := monday.AddDate(0, 0, rapid.IntRange(0, 4).Draw(t, "weekday"))
		level := review.Level(due, 0, today)
		for done := range level + 1 {
			require.Equal(t, level, review.Level(due, done, today), "after %d reviews", done)
			for i := range due { // the next review: the longest due
				if due[i] > 0 {
					due[i]--
					break
				}
			}
		}
	})
}
