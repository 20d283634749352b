package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/services/history/internal/store"
)

// after returns e as a line whose author had seen the events of the listing up to lastEventID.
func after(lastEventID string, e api.VerificationEvent) []eventfile.Line {
	return []eventfile.Line{{Number: 1, Event: e, LastEventID: &lastEventID}}
}

// notes returns the notes of the events in a store.UnseenError.
func notes(err error) (notes []string) {
	if unseen := new(store.UnseenError); errors.As(err, &unseen) {
		for _, r := range unseen.Events {
			notes = append(notes, r.Note)
		}
	}
	return notes
}

func TestReviewAfterUnseenEventsIsRejected(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.publish(t, "a", "b")
		_, _, err := s.Append(t.Context(), "ada", recorded, fileOf(after("", review("a", 1, "first"))))
		require.NoError(t, err)
		seen := s.summaries(t)["a"].LastEventID
		require.Len(t, seen, 36)

		s.add(t, review("a", -5, "late"), review("b", 9, "of another listing")) // recorded later, but checked earlier
		_, _, err = s.Append(t.Context(), "ben", recorded,
			fileOf(append(lines(review("b", 10, "")), after(seen, review("a", 2, "second"))...)))
		require.Equal(t, []string{"late"}, notes(err), "%v", err)
		require.Len(t, s.events(t, "a"), 2)
		require.Len(t, s.events(t, "b"), 1, "an append is all or nothing")
		_, _, err = s.Append(t.Context(), "ben", recorded, fileOf(after("", review("a", 2, "second"))))
		require.Equal(t, []string{"first", "late"}, notes(err))
		_, _, err = s.Append(t.Context(), "ben", recorded, fileOf(after("no-such-event", review("a", 2, "second"))))
		require.Equal(t, []string{"first", "late"}, notes(err))

		seen = s.summaries(t)["a"].LastEventID
		for _, want := range []int{1, 0} { // the client sends the review again after a lost response
			appended, duplicates, err := s.Append(t.Context(), "ben", recorded,
				fileOf(after(seen, review("a", 2, "second"))))
			require.NoError(t, err)
			require.Equal(t, [2]int{want, 1 - want}, [2]int{appended, duplicates})
		}
	})
}

func TestOneOfConcurrentReviewsWins(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		replicas := []testStore{s, open(t, s.url)}
		s.publish(t, "a")
		s.add(t, review("a", 1, "seen"))
		seen := s.summaries(t)["a"].LastEventID
		const curators = 8
		results := make([]error, curators)
		var all sync.WaitGroup
		for i := range curators {
			all.Go(func() {
				_, _, results[i] = replicas[i%2].Append(t.Context(), "ada", recorded,
					fileOf(after(seen, review("a", 2, fmt.Sprint("review ", i)))))
			})
		}
		all.Wait()
		won := s.events(t, "a")[0].Note
		winners := 0
		for i, err := range results {
			if err == nil {
				winners++
				require.Equal(t, fmt.Sprint("review ", i), won)
				continue
			}
			require.Equal(t, []string{won}, notes(err), "%v", err)
		}
		require.Equal(t, 1, winners)
		require.Len(t, s.events(t, "a"), 2)
	})
}
