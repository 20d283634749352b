package store_test

import (
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/store"
)

// testStore is a store under test with its database.
type testStore struct {
	*store.Store
	db  *database.DB
	url string
}

var schema = servicetest.NewSchema(store.Migrations)

// onBoth runs a test on a new store of each dialect.
func onBoth(t *testing.T, test func(t *testing.T, s testStore)) {
	t.Helper()
	schema.OnBothDatabases(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

func silent(t testing.TB) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), "history", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	return tel
}

func open(t testing.TB, url string) testStore {
	t.Helper()
	db := servicetest.OpenDatabase(t, url)
	return testStore{store.New(db), db, url}
}

// serving opens a new Postgres database as the role with which the service runs.
func serving(t *testing.T) testStore {
	t.Helper()
	owner := storetest.Postgres(t)
	role, asRole := storetest.Role(t, owner)
	require.NoError(t, database.Migrate(t.Context(), database.Config{URL: owner, MaxConnections: 2, ServingRole: role},
		silent(t), store.Migrations))
	return open(t, asRole)
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
	return api.VerificationEvent{Slug: slug, CheckedAt: day0.Add(time.Duration(hours) * time.Hour),
		CheckType: api.LinkCheck,
		Outcome:   outcome, SourceURLs: []string{}}
}

// fileOf returns the lines as those of a file that is recorded at now.
func fileOf(lines []eventfile.Line) store.Lines {
	return func(add func(eventfile.Line) error) error {
		for _, l := range lines {
			if err := add(l); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s testStore) add(t testing.TB, events ...api.VerificationEvent) (appended, duplicates int) {
	t.Helper()
	appended, duplicates, err := s.Append(t.Context(), "ada", recorded, fileOf(lines(events...)))
	require.NoError(t, err)
	return appended, duplicates
}

// lines returns events as lines without preconditions.
func lines(events ...api.VerificationEvent) []eventfile.Line {
	all := make([]eventfile.Line, len(events))
	for i, e := range events {
		all[i] = eventfile.Line{Number: i + 1, Event: e}
	}
	return all
}

func (s testStore) publish(t testing.TB, slugs ...string) {
	t.Helper()
	var states []api.ListingState
	for i, slug := range slugs {
		states = append(states, api.ListingState{Sequence: int64(i + 1), ID: slug, Published: true,
			ApplicationURL: "https://a.example"})
	}
	require.NoError(t, store.NewListings(s.db).Save(t.Context(), feed.Cursor{}, states, feed.Cursor{}))
}

// events returns the published history of slug without the generated IDs.
func (s testStore) events(t testing.TB, slug string) []api.VerificationEvent {
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

func (s testStore) summaries(t testing.TB) map[string]api.Summary {
	t.Helper()
	return s.summariesAfter(t, 0)
}

func (s testStore) summariesAfter(t testing.TB, sequence int64) map[string]api.Summary {
	t.Helper()
	all, err := s.Summaries(t.Context(), sequence, 100000)
	require.NoError(t, err)
	out := map[string]api.Summary{}
	for _, sum := range apitest.Decoded(all) {
		out[sum.Slug] = sum
	}
	require.Len(t, out, len(all))
	return out
}

func TestHistoryIsNewestCheckFirstThenNewestAppended(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.publish(t, "a", "b")
		s.add(t, review("a", 5, "first"), link("a", 9, api.OutcomeReachable), review("b", 1, ""))
		s.add(t, review("a", 1, "late"), review("a", 5, "second"))
		require.Empty(t, cmp.Diff([]api.VerificationEvent{
			link("a", 9, api.OutcomeReachable), review("a", 5, "second"), review("a", 5, "first"),
			review("a", 1, "late"),
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

func TestPageOfPublicListingsNeedsAtMostTwoQueries(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		require.NoError(t, store.NewListings(s.db).Save(t.Context(), feed.Cursor{},
			[]api.ListingState{{Sequence: 1, ID: "private"}, {Sequence: 2, ID: "quiet", Published: true},
				{Sequence: 3, ID: "a", Published: true}}, feed.Cursor{}))
		s.add(t, review("a", 1, ""), review("a", 2, ""), review("private", 1, ""))
		queries := 0
		count := func(*gorm.DB) { queries++ }
		require.NoError(t, s.db.Callback().Query().After("*").Register("count", count))
		require.NoError(t, s.db.Callback().Raw().After("*").Register("count", count))
		require.NoError(t, s.db.Callback().Row().After("*").Register("count", count))
		for _, c := range []struct {
			slug            string
			offset, queries int
			public          bool
			events, total   int
		}{
			{"a", 0, 2, true, 1, 2}, {"a", 1, 2, true, 1, 2}, {"a", 2, 1, true, 0, 2}, {"quiet", 0, 1, true, 0, 0},
			{"private", 0, 1, false, 0, 0}, {"unlisted", 0, 1, false, 0, 0},
		} {
			queries = 0
			page, public, err := s.History(t.Context(), c.slug, c.offset, 1)
			require.NoError(t, err)
			require.Equal(t, c.public, public, c)
			require.Equal(t, []int{c.queries, c.events, c.total}, []int{queries, len(page.Events), page.Total}, c)
			require.Equal(t, public, page.Events != nil, "an empty page is an empty list")
		}
	})
}

func TestSaveListingsIgnoresOlderStates(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		copied := store.NewListings(s.db)
		at := func(want feed.Cursor) {
			t.Helper()
			c, err := copied.Cursor(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, c)
		}
		old := []api.ListingState{{Sequence: 1, ID: "b", Published: true}, {Sequence: 2, ID: "a"}}
		first, second := feed.Cursor{Position: 2, Mark: "m"}, feed.Cursor{Position: 7, Mark: "n"}
		for range 2 {
			require.NoError(t, copied.Save(t.Context(), feed.Cursor{}, old, first))
			at(first)
		}
		require.NoError(t, copied.Save(t.Context(), first, []api.ListingState{{Sequence: 7, ID: "b"}}, second))
		require.NoError(t, copied.Save(t.Context(), first, old, first), "an older page from another replica")
		at(second)
		require.NoError(t, copied.Save(t.Context(), second, old, second), "an older page again")
		_, published, err := s.History(t.Context(), "b", 0, 1)
		require.NoError(t, err)
		require.False(t, published, "the listing must stay withdrawn")

		unknown, err := s.UnknownListings(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"c": true}, unknown, "private and withdrawn listings must be known")
	})
}

func TestOutageIsReportedAsUnavailable(t *testing.T) {
	for name, unavailable := range map[string]func(t *testing.T) testStore{
		"postgres": func(t *testing.T) testStore { return open(t, "postgres://nobody@127.0.0.1:1/nothing") },
		"sqlite": func(t *testing.T) testStore {
			s := open(t, schema.SQLite(t))
			require.NoError(t, s.db.Close())
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := unavailable(t)
			copied := store.NewListings(s.db)
			for name, call := range map[string]func() error{
				"history":   func() error { _, _, err := s.History(t.Context(), "a", 0, 1); return err },
				"summaries": func() error { _, err := s.Summaries(t.Context(), 0, 1); return err },
				"cursor":    func() error { _, err := copied.Cursor(t.Context()); return err },
				"listings":  func() error { _, err := s.UnknownListings(t.Context(), []string{"a"}); return err },
				"save": func() error {
					return copied.Save(t.Context(), feed.Cursor{}, []api.ListingState{{ID: "a"}}, feed.Cursor{})
				},
				"append": func() error {
					_, _, err := s.Append(t.Context(), "ada", recorded, fileOf(lines(review("a", 1, ""))))
					return err
				},
			} {
				require.Equal(t, problem.ServiceUnavailable, problem.Of(call()).Code, name)
			}
		})
	}
}
