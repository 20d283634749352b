package store_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/store"
	"opportunity.internal/services/history/internal/summary"
	"opportunity.internal/services/history/migrations"
)

// kept is a store under test beside the plain database below it.
type kept struct {
	*store.Store
	db  *database.DB
	url string
}

// onBoth runs a test on a fresh store of each dialect.
func onBoth(t *testing.T, test func(t *testing.T, s kept)) {
	t.Helper()
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) { test(t, open(t, migrated(t, url))) })
	}
}

func silent(t testing.TB) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), "history", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	return tel
}

func migrated(t testing.TB, url string) string {
	t.Helper()
	require.NoError(t, database.Migrate(t.Context(), database.Config{URL: url, MaxConnections: 2}, silent(t), migrations.Files))
	return url
}

func open(t testing.TB, url string) kept {
	t.Helper()
	db, err := database.Open(database.Config{URL: url, MaxConnections: 10}, silent(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return kept{store.New(db, prometheus.NewRegistry()), db, url}
}

var (
	recorded = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	day0     = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
)

func review(slug string, hours int, note string) api.VerificationEvent {
	e := apitest.Verified(slug, day0.Add(time.Duration(hours)*time.Hour))
	e.SourceURLs, e.Note = []string{"https://source.example/?a=1&b=2"}, note
	return e
}

func link(slug string, hours int, outcome api.Outcome) api.VerificationEvent {
	return api.VerificationEvent{Slug: slug, CheckedAt: day0.Add(time.Duration(hours) * time.Hour), CheckType: api.LinkCheck,
		Outcome: outcome, SourceURLs: []string{}}
}

func (s kept) add(t testing.TB, events ...api.VerificationEvent) (appended, duplicates int) {
	t.Helper()
	appended, duplicates, err := s.Append(t.Context(), "ada", recorded, lines(events...))
	require.NoError(t, err)
	return appended, duplicates
}

// lines are the lines of an events file without preconditions.
func lines(events ...api.VerificationEvent) []eventfile.Line {
	all := make([]eventfile.Line, len(events))
	for i, e := range events {
		all[i] = eventfile.Line{Number: i + 1, Event: e}
	}
	return all
}

func (s kept) publish(t testing.TB, slugs ...string) {
	t.Helper()
	var states []api.ListingState
	for i, slug := range slugs {
		states = append(states, api.ListingState{Sequence: int64(i + 1), ID: slug, Published: true, ApplicationURL: "https://a.example"})
	}
	require.NoError(t, s.SaveListings(t.Context(), states))
}

// events is the published history of slug without the ids, which are given by the store.
func (s kept) events(t testing.TB, slug string) []api.VerificationEvent {
	t.Helper()
	page, published, err := s.History(t.Context(), slug, 0, 1000)
	require.NoError(t, err)
	require.True(t, published)
	require.Len(t, page.Events, page.Total)
	for i := range page.Events {
		require.Len(t, page.Events[i].ID, 36)
		page.Events[i].ID = ""
	}
	return page.Events
}

func (s kept) summaries(t testing.TB) map[string]api.Summary {
	t.Helper()
	all, err := s.Summaries(t.Context(), 0, 100000)
	require.NoError(t, err)
	out := map[string]api.Summary{}
	for _, sum := range all {
		out[sum.Slug] = sum
	}
	require.Len(t, out, len(all))
	return out
}

func TestHistoryIsNewestCheckFirstThenNewestAppended(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		s.publish(t, "a", "b")
		s.add(t, review("a", 5, "first"), link("a", 9, api.OutcomeReachable), review("b", 1, ""))
		s.add(t, review("a", 1, "late"), review("a", 5, "second"))
		require.Empty(t, cmp.Diff([]api.VerificationEvent{
			link("a", 9, api.OutcomeReachable), review("a", 5, "second"), review("a", 5, "first"), review("a", 1, "late"),
		}, s.events(t, "a")))

		whole, _, err := s.History(t.Context(), "a", 0, 10)
		require.NoError(t, err)
		for offset := range 5 {
			part, published, err := s.History(t.Context(), "a", offset, 1)
			require.NoError(t, err)
			require.True(t, published)
			require.Equal(t, 4, part.Total)
			require.Equal(t, whole.Sequence, part.Sequence)
			require.Equal(t, whole.Events[offset:min(offset+1, 4)], part.Events)
		}
	})
}

func TestAPageTakesTwoQueriesAtMost(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		s.publish(t, "a")
		s.add(t, review("a", 1, ""), review("a", 2, ""))
		queries := 0
		count := func(*gorm.DB) { queries++ }
		require.NoError(t, s.db.Callback().Query().After("*").Register("count", count))
		require.NoError(t, s.db.Callback().Raw().After("*").Register("count", count))
		require.NoError(t, s.db.Callback().Row().After("*").Register("count", count))
		for _, c := range []struct {
			slug         string
			offset, want int
		}{{"a", 0, 2}, {"a", 1, 2}, {"a", 2, 1}, {"nobody", 0, 1}} {
			queries = 0
			_, _, err := s.History(t.Context(), c.slug, c.offset, 1)
			require.NoError(t, err)
			require.Equal(t, c.want, queries, c)
		}
	})
}

func TestHistoryOfWhatConsumersMayNotSee(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		require.NoError(t, s.SaveListings(t.Context(), []api.ListingState{{Sequence: 1, ID: "private"}, {Sequence: 2, ID: "quiet", Published: true}}))
		s.add(t, review("private", 1, ""))
		for _, slug := range []string{"private", "nobody"} {
			page, published, err := s.History(t.Context(), slug, 0, 10)
			require.NoError(t, err)
			require.False(t, published)
			require.Empty(t, page)
		}
		page, published, err := s.History(t.Context(), "quiet", 0, 10)
		require.NoError(t, err)
		require.True(t, published)
		require.Equal(t, event.Page{Events: []api.VerificationEvent{}}, page)
	})
}

func TestAppendingAgainChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
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
		appended, duplicates = s.add(t, review("a", 1, "says something else"))
		require.Equal(t, [2]int{1, 0}, [2]int{appended, duplicates})
	})
}

func TestSummariesFollowTheEventsInAnyOrderOfArrival(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		var all []api.VerificationEvent
		for slug := range 5 {
			for i := range 20 {
				all = append(all, review(fmt.Sprint("s", slug), i*7, fmt.Sprint(i)), link(fmt.Sprint("s", slug), i*13, api.OutcomeUnreachable))
			}
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(40))
			s.add(t, rest[:n]...)
			rest = rest[n:]
		}
		got := s.summaries(t)
		require.Len(t, got, 5)
		for slug, sum := range got {
			var own []api.VerificationEvent
			for _, e := range all {
				if e.Slug == slug {
					own = append(own, e)
				}
			}
			want := summary.Of(slug, own)
			want.Sequence, want.LastEventID = sum.Sequence, sum.LastEventID
			if want.Doubt != nil {
				require.NotEmpty(t, sum.Doubt.EventID)
				want.Doubt.EventID = sum.Doubt.EventID // which the file does not have
			}
			require.Empty(t, cmp.Diff(want, sum))
		}
	})
}

func TestSummariesAreReadBySequence(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		for i := range 5 {
			s.add(t, review(fmt.Sprint("s", i), 1, ""), link(fmt.Sprint("s", i), 2, api.OutcomeReachable))
		}
		s.add(t, link("s0", 3, api.OutcomeReachable)) // moves s0 to the end
		var order []string
		for after := int64(0); ; {
			page, err := s.Summaries(t.Context(), after, 2)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			for _, sum := range page {
				require.Greater(t, sum.Sequence, after)
				after = sum.Sequence
				order = append(order, sum.Slug)
			}
		}
		require.Equal(t, []string{"s1", "s2", "s3", "s4", "s0"}, order)
	})
}

// chains reads all events straight from the table and proves each listing's chain.
func (s kept) chains(t testing.TB) (events int) {
	t.Helper()
	rows, err := s.db.WithContext(t.Context()).Raw(`SELECT sequence, id, slug, checked_at, check_type, outcome, source_urls, facts, note,
		actor, recorded_at, content_hash, prev_hash, hash FROM verification_events ORDER BY sequence`).Rows()
	require.NoError(t, err)
	defer rows.Close()
	last := map[string]string{}
	for rows.Next() {
		var r event.Record
		require.NoError(t, rows.Scan(&r.Sequence, &r.ID, &r.Slug, &r.CheckedAt, &r.CheckType, &r.Outcome, &r.SourceURLs, &r.Facts, &r.Note,
			&r.Actor, &r.RecordedAt, &r.ContentHash, &r.PrevHash, &r.Hash))
		events++
		require.EqualValues(t, events, r.Sequence, "sequences have no gaps")
		require.Equal(t, last[r.Slug], r.PrevHash)
		again := r
		again.Seal(last[r.Slug])
		require.Equal(t, again.Hash, r.Hash)
		last[r.Slug] = r.Hash
	}
	require.NoError(t, rows.Err())
	return events
}

// While many append at once, a reader that follows the feed never sees a sequence appear below one it has passed: what it
// gathered is complete without asking again.
func TestConcurrentAppendsKeepChainsAndOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		const writers, files = 8, 10
		replicas := []kept{s, s}
		if s.db.Dialect == database.Postgres { // an SQLite file belongs to one process
			replicas[1] = open(t, s.url)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for f := range files {
					_, _, err := replicas[w%2].Append(ctx, "ada", recorded, lines(
						review("shared", w, fmt.Sprint(f)), review(fmt.Sprint("own", w), f, ""), review("shared", f, "the same from all"),
					))
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
			for _, sum := range page {
				followed[sum.Slug], after = sum, sum.Sequence
			}
			if finished && len(page) == 0 {
				break
			}
		}
		require.Empty(t, cmp.Diff(s.summaries(t), followed))
		require.Equal(t, writers*files*2+files, s.chains(t))
	})
}

func TestAppendIsAllOrNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		s.add(t, review("a", 1, ""))
		before := s.summaries(t)
		wrong := review("b", 1, "")
		wrong.Outcome = "splendid" // the table refuses it
		_, _, err := s.Append(t.Context(), "ada", recorded, lines(review("a", 2, ""), wrong))
		require.Error(t, err)
		require.Empty(t, cmp.Diff(before, s.summaries(t)))
		require.Equal(t, 1, s.chains(t))
		s.add(t, review("a", 2, ""))
		require.Equal(t, 2, s.chains(t), "the refused append left no gap")
	})
}

// changes are all the ways to change or remove a recorded event.
var changes = []string{
	"UPDATE verification_events SET note = 'x'",
	"UPDATE verification_events SET sequence = sequence",
	"DELETE FROM verification_events",
	"DELETE FROM verification_events WHERE sequence = 1",
}

const upsert = `INSERT INTO verification_events SELECT * FROM verification_events WHERE sequence = 1
	ON CONFLICT (sequence) DO UPDATE SET note = 'x'`

func (s kept) refuses(t *testing.T, why string, statements ...string) {
	t.Helper()
	s.publish(t, "a")
	before := s.events(t, "a")
	for _, statement := range statements {
		err := s.db.WithContext(t.Context()).Exec(statement).Error
		require.Error(t, err, statement)
		require.Contains(t, err.Error(), why, statement)
	}
	require.Empty(t, cmp.Diff(before, s.events(t, "a")))
	require.NotZero(t, s.chains(t))
}

func TestSQLiteRefusesEveryChangeOfAnEvent(t *testing.T) {
	s := open(t, migrated(t, storetest.SQLite(t)))
	s.add(t, review("a", 1, ""))
	s.refuses(t, "append-only", append(changes,
		"INSERT OR REPLACE INTO verification_events SELECT * FROM verification_events",
		"REPLACE INTO verification_events SELECT * FROM verification_events",
		"UPDATE OR REPLACE verification_events SET note = 'x'",
		upsert)...)
}

// Triggers for deletes do not meet a replacement on such a connection.
func TestSQLiteRefusesToReplaceAnEventWithoutThePragmaToo(t *testing.T) {
	url := migrated(t, storetest.SQLite(t))
	s := open(t, url)
	s.add(t, review("a", 1, ""), review("a", 2, ""))
	s.publish(t, "a")
	before, plain := s.events(t, "a"), storetest.Plain(t, url)
	const columns = "slug, checked_at, check_type, outcome, source_urls, facts, 'x', actor, recorded_at"
	for _, row := range []string{
		"sequence, 'x', " + columns + ", 'x', 'x', 'x'",
		"99, id, " + columns + ", 'x', 'x', 'x'",
		"99, 'x', " + columns + ", content_hash, 'x', 'x'",
		"99, 'x', " + columns + ", 'x', prev_hash, 'x'",
	} {
		for _, verb := range []string{"REPLACE", "INSERT OR REPLACE"} {
			_, err := plain.ExecContext(t.Context(), verb+" INTO verification_events SELECT "+row+" FROM verification_events WHERE sequence = 1")
			require.ErrorContains(t, err, "append-only", row)
		}
	}
	require.Empty(t, cmp.Diff(before, s.events(t, "a")))
}

func TestPostgresRefusesEveryChangeOfAnEventEvenToItsOwner(t *testing.T) {
	s := open(t, migrated(t, storetest.Postgres(t)))
	s.add(t, review("a", 1, ""))
	s.refuses(t, "append-only", append(changes, upsert, "TRUNCATE verification_events", "TRUNCATE verification_events, summaries CASCADE",
		"SET session_replication_role = replica; DELETE FROM verification_events")...)
}

func TestPostgresServingRoleMayOnlyReadAndAppend(t *testing.T) {
	owner := storetest.Postgres(t)
	role, asRole := storetest.Role(t, owner)
	require.NoError(t, database.Migrate(t.Context(), database.Config{URL: owner, MaxConnections: 2, ServingRole: role}, silent(t), migrations.Files))
	s := open(t, asRole)
	s.add(t, review("a", 1, ""), review("a", 2, ""))
	s.add(t, link("a", 3, api.OutcomeReachable))
	s.refuses(t, "permission denied", append(changes, upsert, "TRUNCATE verification_events", "UPDATE goose_db_version SET version_id = 9")...)
	s.refuses(t, "must be owner", "ALTER TABLE verification_events DISABLE TRIGGER ALL", "DROP TABLE verification_events",
		"DROP TRIGGER append_only_rows ON verification_events")
}

func TestSaveListingsIsRepeatableAndNeverGoesBack(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		cursor := func() int64 {
			c, err := s.ListingsCursor(t.Context())
			require.NoError(t, err)
			return c
		}
		require.Zero(t, cursor())
		old := []api.ListingState{{Sequence: 1, ID: "b", Published: true}, {Sequence: 2, ID: "a"}}
		for range 2 {
			require.NoError(t, s.SaveListings(t.Context(), old))
			require.EqualValues(t, 2, cursor())
		}
		require.NoError(t, s.SaveListings(t.Context(), []api.ListingState{{Sequence: 7, ID: "b"}}))
		require.NoError(t, s.SaveListings(t.Context(), old), "a replica that is behind")
		require.NoError(t, s.SaveListings(t.Context(), nil))
		require.EqualValues(t, 7, cursor())
		_, published, err := s.History(t.Context(), "b", 0, 1)
		require.NoError(t, err)
		require.False(t, published, "withdrawn stays withdrawn")

		unknown, err := s.UnknownListings(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"c": true}, unknown, "private and withdrawn listings are known")
	})
}

func TestManyListingsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		var states []api.ListingState
		var events []api.VerificationEvent
		var slugs []string
		for i := range 1234 {
			slug := fmt.Sprint("s", i)
			slugs = append(slugs, slug)
			states = append(states, api.ListingState{Sequence: int64(i + 1), ID: slug, Published: true})
			events = append(events, review(slug, 1, ""), link(slug, 2, api.OutcomeReachable))
		}
		require.NoError(t, s.SaveListings(t.Context(), states))
		unknown, err := s.UnknownListings(t.Context(), append(slugs, "nobody"))
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"nobody": true}, unknown)
		appended, duplicates := s.add(t, events...)
		require.Equal(t, [2]int{2468, 0}, [2]int{appended, duplicates})
		require.Len(t, s.summaries(t), 1234)
		require.Equal(t, 2468, s.chains(t))
	})
}

func TestAnOutageIsUnavailable(t *testing.T) {
	for name, away := range map[string]func(t *testing.T) kept{
		"postgres": func(t *testing.T) kept { return open(t, "postgres://nobody@127.0.0.1:1/nothing") },
		"sqlite": func(t *testing.T) kept {
			s := open(t, migrated(t, storetest.SQLite(t)))
			require.NoError(t, s.db.Close())
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := away(t)
			_, _, err := s.History(t.Context(), "a", 0, 1)
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
			_, err = s.Summaries(t.Context(), 0, 1)
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
			_, err = s.ListingsCursor(t.Context())
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
			_, err = s.UnknownListings(t.Context(), []string{"a"})
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
			require.Equal(t, problem.ServiceUnavailable, problem.Of(s.SaveListings(t.Context(), []api.ListingState{{ID: "a"}})).Code)
			_, _, err = s.Append(t.Context(), "ada", recorded, lines(review("a", 1, "")))
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
		})
	}
}

func TestAnAppendThatHangsHoldsNobodyUpForEver(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
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
			if _, _, err := s.Append(t.Context(), "ada", recorded, lines(review("a", 1, ""))); err != nil {
				t.Error(err)
			}
		})
		<-begun
		over, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
		defer cancel()
		_, _, err := s.Append(over, "ada", recorded, lines(review("a", 2, "")))
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
		close(goOn)
		hanging.Wait()
		require.True(t, bounded, "every statement of an append has a deadline")

		pool, err := s.db.DB.DB()
		require.NoError(t, err)
		require.NoError(t, s.db.Callback().Raw().After("*").Register("hang on", func(tx *gorm.DB) { // at the last statement
			<-tx.Statement.Context.Done()
			storetest.Eventually(t, "the transaction is ended", func() bool { return pool.Stats().InUse == 0 })
		}))
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err = s.Append(short, "ada", recorded, lines(review("a", 3, "")))
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
	})
}
