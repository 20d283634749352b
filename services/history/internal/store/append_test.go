package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/store"
)

func TestRepeatedAppendChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.publish(t, "a")
		file := []api.VerificationEvent{review("a", 1, ""), link("a", 2, api.OutcomeClosed), review("a", 1, "")}
		appended, duplicates := s.add(t, file...)
		require.Equal(t, [2]int{2, 1}, [2]int{appended, duplicates})
		before, events := s.summaries(t), s.events(t, "a")

		appended, duplicates = s.add(t, file...)
		require.Equal(t, [2]int{0, 3}, [2]int{appended, duplicates})
		require.Empty(t, cmp.Diff(before, s.summaries(t)))
		require.Empty(t, cmp.Diff(events, s.events(t, "a")))

		appended, duplicates = s.add(t)
		require.Equal(t, [2]int{0, 0}, [2]int{appended, duplicates})
		appended, duplicates = s.add(t, review("a", 1, "other content"))
		require.Equal(t, [2]int{1, 0}, [2]int{appended, duplicates})
	})
}

// intact verifies every event, read directly from the table, and returns the number of events.
func (s testStore) intact(t testing.TB) (events int) {
	t.Helper()
	rows, err := s.db.WithContext(t.Context()).Raw(`SELECT sequence, id, slug, checked_at, check_type, outcome,
		source_urls, facts, note,
		actor, recorded_at, evidence, content_hash FROM verification_events ORDER BY sequence`).Rows()
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var r event.Record
		require.NoError(t, rows.Scan(&r.Sequence, &r.ID, &r.Slug, &r.CheckedAt, &r.CheckType, &r.Outcome, &r.SourceURLs,
			&r.Facts, &r.Note,
			&r.Actor, &r.RecordedAt, &r.Evidence, &r.ContentHash))
		events++
		require.EqualValues(t, events, r.Sequence, "sequences must have no gaps")
		require.NotNil(t, r.Leaf())
	}
	require.NoError(t, rows.Err())
	return events
}

// During concurrent appends, a reader that follows the feed never misses a sequence below its
// position, so its copy is complete without reading again.
func TestConcurrentAppendsKeepOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		const writers, files = 8, 10
		replicas := []testStore{s, s}
		if s.db.Dialect == database.Postgres { // an SQLite file belongs to one process
			replicas[1] = open(t, s.url)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for f := range files {
					_, _, err := replicas[w%2].Append(ctx, "ada", recorded, fileOf(lines(
						review("shared", w, fmt.Sprint(f)), review(fmt.Sprint("own", w), f, ""),
						review("shared", f, "duplicate"),
					)))
					if err != nil {
						t.Errorf("append: %v", err)
						stop()
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { writing.Wait(); close(done) }()

		followed, after, finished := map[string]api.Summary{}, int64(0), false
		for {
			select {
			case <-done:
				finished = true
			default:
			}
			page, err := s.Summaries(t.Context(), after, 3)
			require.NoError(t, err)
			for _, sum := range apitest.Decoded(page) {
				require.Greater(t, sum.Sequence, after)
				followed[sum.Slug], after = sum, sum.Sequence
			}
			if finished && len(page) == 0 {
				break
			}
		}
		require.Empty(t, cmp.Diff(s.summaries(t), followed))
		require.Equal(t, writers*files*2+files, s.intact(t))
	})
}

func TestAppendIsAllOrNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.add(t, review("a", 1, ""))
		before := s.summaries(t)
		wrong := review("b", 1, "")
		wrong.Outcome = "splendid" // violates a table constraint
		_, _, err := s.Append(t.Context(), "ada", recorded, fileOf(lines(review("a", 2, ""), wrong)))
		require.Error(t, err)
		require.Empty(t, cmp.Diff(before, s.summaries(t)))
		require.Equal(t, 1, s.intact(t))
		s.add(t, review("a", 2, ""))
		require.Equal(t, 2, s.intact(t), "the failed append must leave no gap")
	})
}

func TestAppendToManyListings(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		var states []api.ListingState
		var events []api.VerificationEvent
		var slugs []string
		for i := range 1234 {
			slug := fmt.Sprint("s", i)
			slugs = append(slugs, slug)
			states = append(states, api.ListingState{Sequence: int64(i + 1), ID: slug, Published: true})
			events = append(events, review(slug, 1, ""), link(slug, 2, api.OutcomeReachable))
		}
		require.NoError(t, store.NewListings(s.db).Save(t.Context(), feed.Cursor{}, states, feed.Cursor{}))
		unknown, err := s.UnknownListings(t.Context(), append(slugs, "unlisted"))
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"unlisted": true}, unknown)
		appended, duplicates := s.add(t, events...)
		require.Equal(t, [2]int{2468, 0}, [2]int{appended, duplicates})
		require.Len(t, s.summaries(t), 1234)
		require.Equal(t, 2468, s.intact(t))
	})
}

func TestHangingAppendDoesNotBlockOthersForever(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		first := sync.OnceFunc(func() {
			close(begun)
			<-goOn
		})
		bounded := true
		hang := func(tx *gorm.DB) {
			if _, has := tx.Statement.Context.Deadline(); !has {
				bounded = false
			}
			first()
		}
		require.NoError(t, s.db.Callback().Row().Before("*").Register("hang", hang))
		require.NoError(t, s.db.Callback().Create().Before("*").Register("hang", hang))
		var hanging sync.WaitGroup
		hanging.Go(func() {
			if _, _, err := s.Append(t.Context(), "ada", recorded, fileOf(lines(review("a", 1, "")))); err != nil {
				t.Error(err)
			}
		})
		<-begun
		over, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
		defer cancel()
		_, _, err := s.Append(over, "ada", recorded, fileOf(lines(review("a", 2, ""))))
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
		close(goOn)
		hanging.Wait()
		require.True(t, bounded, "every statement of an append must have a deadline")

		pool, err := s.db.DB.DB()
		require.NoError(t, err)
		// during the last statement
		require.NoError(t, s.db.Callback().Raw().After("*").Register("hang on", func(tx *gorm.DB) {
			<-tx.Statement.Context.Done()
			storetest.Eventually(t, "the transaction ends", func() bool { return pool.Stats().InUse == 0 })
		}))
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err = s.Append(short, "ada", recorded, fileOf(lines(review("a", 3, ""))))
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
	})
}
