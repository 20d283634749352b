package store_test

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/catalog/internal/snapshot"
	"opportunity.internal/services/catalog/internal/store"
)

var schema = servicetest.NewSchema(store.Migrations)

// open returns a store on a migrated database.
func open(t testing.TB, url string) (*store.Store, *database.DB) {
	t.Helper()
	db := servicetest.OpenDatabase(t, url)
	return store.New(db, func() time.Time { return at }), db
}

// at is the time of the store's clock.
var at = time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)

func TestEveryChangeIsRecorded(t *testing.T) {
	readerOnEach(t, func(r reader) {
		applied := func(report api.ImportReport, err error) { require.True(r.t, r.report(report, err).Applied) }
		ctx, file := r.t.Context(), apitest.Lines("a", "b")
		file[1].Visibility = listingfile.Published
		applied(r.Import(ctx, "ann", apitest.File(file), false))
		applied(r.Import(ctx, "ann", apitest.File(file), false))
		file[0].Company.Name, file[0].Summary, file[0].Visibility = "B", "t", listingfile.Published
		applied(r.Import(ctx, "bob", apitest.File(file), false))
		applied(r.Withdraw(ctx, "cy", []string{"a"}, ""))
		applied(r.Withdraw(ctx, "cy", []string{"a"}, ""))
		applied(r.Publish(ctx, "dee", []string{"a", "b"}, false))
		applied(r.Import(ctx, "eve", apitest.File(apitest.Lines("c")), false))
		applied(r.PublishAll(ctx, "fay", false))

		var changes []struct {
			Actor, What, ListingID, Fields string
			Material                       bool
			At                             int64
		}
		require.NoError(r.t, r.db.Raw("SELECT * FROM listing_changes ORDER BY id").Scan(&changes).Error)
		var got []string
		for _, c := range changes {
			material := ""
			if c.Material {
				material = "!"
			}
			got = append(got, strings.TrimSpace(strings.Join([]string{c.Actor, c.What, c.ListingID,
				c.Fields + material}, " ")))
			require.Equal(r.t, at, database.FromMicros(c.At))
		}
		require.Equal(r.t, []string{
			"ann imported a", "ann imported b", "ann published b",
			"bob updated a company,summary,publishedAt,visibility!", "bob published a",
			"cy withdrawn a visibility", "dee published a visibility",
			"eve imported c", "fay published c visibility,publishedAt",
		}, got)
	})
}

func TestListingChangesAreAppendOnly(t *testing.T) {
	statements := []string{
		"UPDATE listing_changes SET actor = 'x'", "DELETE FROM listing_changes",
		"INSERT OR REPLACE INTO listing_changes SELECT * FROM listing_changes", "TRUNCATE listing_changes",
		"SET session_replication_role = replica; DELETE FROM listing_changes",
	}
	readerOnEach(t, func(r reader) {
		r.importLines(apitest.Lines("a")...)
		for _, statement := range statements {
			require.Error(r.t, r.db.Exec(statement).Error, statement)
		}
		if r.db.Dialect == database.SQLite { // also on a connection without recursive_triggers
			var file string
			require.NoError(r.t, r.db.Raw("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file).Error)
			_, err := storetest.Plain(r.t, file).ExecContext(r.t.Context(),
				"REPLACE INTO listing_changes SELECT * FROM listing_changes")
			require.ErrorContains(r.t, err, "append-only")
		}
		var n int64
		require.NoError(r.t, r.db.Table("listing_changes").Where("actor = 'ann'").Count(&n).Error)
		require.Equal(r.t, int64(1), n)
	})
	t.Run("serving role", func(t *testing.T) {
		url := storetest.Postgres(t)
		role, asRole := storetest.Role(t, url)
		tel, err := telemetry.Start(t.Context(), "catalog", telemetry.Config{LogOutput: io.Discard})
		require.NoError(t, err)
		require.NoError(t, database.Migrate(t.Context(),
			database.Config{URL: url, MaxConnections: 2, ServingRole: role}, tel, store.Migrations))
		s, db := open(t, asRole)
		file := apitest.Lines("a")
		file[0].Curation = &api.Curation{Notes: "n"}
		_, err = s.Import(t.Context(), "ann", apitest.File(file), false)
		require.NoError(t, err, "the serving role has the permissions that it needs")
		_, err = s.PublishAll(t.Context(), "ann", false)
		require.NoError(t, err)
		require.NoError(t, s.Save(t.Context(), feed.Cursor{},
			apitest.Encoded(api.Summary{Slug: "a", Sequence: 1}), feed.Cursor{}))
		for _, statement := range statements {
			require.Error(t, db.Exec(statement).Error, statement)
		}
		require.ErrorContains(t, db.Exec("DELETE FROM listing_changes").Error, "permission denied")
	})
}

// changes returns all rows after a sequence, by id.
func changes(t *testing.T, s *store.Store, after int64) map[string]snapshot.Row {
	t.Helper()
	rows := map[string]snapshot.Row{}
	require.NoError(t, s.Changes(t.Context(), after, func(r snapshot.Row) error {
		require.Greater(t, r.Sequence, after)
		rows[r.ID] = r
		return nil
	}))
	return rows
}

func TestOnlyChangesRaiseTheSequence(t *testing.T) {
	readerOnEach(t, func(r reader) {
		file := apitest.Lines("a", "b", "c")
		r.importLines(file...)
		require.Len(r.t, changes(r.t, r.Store, 0), 3)
		before := r.sequence()
		r.importLines(file...)
		r.report(r.Withdraw(r.t.Context(), "ann", []string{"a", "unknown"}, ""))
		require.Equal(r.t, before, r.sequence())

		cursor := feed.Cursor{Position: 5}
		require.NoError(r.t, r.Save(r.t.Context(), feed.Cursor{},
			apitest.Encoded(api.Summary{Slug: "b", Sequence: 4}, api.Summary{Slug: "b", Sequence: 3},
				api.Summary{Slug: "later", Sequence: 5}), cursor))
		require.Equal(r.t, []string{"b"}, slices.Collect(maps.Keys(changes(r.t, r.Store, before))))
		saved, err := r.Cursor(r.t.Context())
		require.NoError(r.t, err)
		require.Equal(r.t, cursor, saved)

		before = r.sequence()
		require.NoError(r.t, r.Save(r.t.Context(), cursor,
			apitest.Encoded(api.Summary{Slug: "b", Sequence: 4}, api.Summary{Slug: "later", Sequence: 2}), cursor))
		require.Equal(r.t, before, r.sequence(), "summaries that are not newer change nothing")
		again := api.EncodedSummary{Slug: "b", Sequence: 4,
			JSON: `{"slug":"b","sequence":4,"ofALaterRelease":"\u003c"}`}
		require.NoError(r.t, r.Save(r.t.Context(), cursor, []api.EncodedSummary{again}, cursor))
		require.Contains(r.t, changes(r.t, r.Store, before), "b", "derived again, by newer rules")

		r.importLines(apitest.Lines("later")...)
		r.report(r.PublishAll(r.t.Context(), "ann", false))
		require.Contains(r.t, changes(r.t, r.Store, before)["later"].Summary.String, `"sequence":5`)
		require.Equal(r.t, again.JSON, changes(r.t, r.Store, before)["b"].Summary.String)
	})
}

// TestSequenceOrderIsCommitOrder checks that a reader never sees a sequence below one that it has
// already seen, even with concurrent writers.
func TestSequenceOrderIsCommitOrder(t *testing.T) {
	readerOnEach(t, func(r reader) {
		const writers, each = 4, 15
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					file := apitest.Lines(string(rune('a'+w)), "shared")
					file[0].Summary, file[1].Summary = strings.Repeat("x", i+1), strings.Repeat("y", w*each+i+1)
					if _, err := r.Import(context.Background(), "ann", apitest.File(file), false); err != nil {
						r.t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		seen := map[string]int64{}
		for last, ended := int64(0), false; !ended; {
			select {
			case <-done:
				ended = true // read once more
			default:
			}
			for id, row := range changes(r.t, r.Store, last) {
				seen[id] = row.Sequence
			}
			for _, n := range seen {
				last = max(last, n)
			}
		}
		for id, row := range changes(r.t, r.Store, 0) {
			require.Equal(r.t, row.Sequence, seen[id], "the reader missed a change of %s", id)
		}
		require.Len(r.t, seen, writers+1)
	})
}

func TestInvalidIDsAreRejectedLikeUnknownIDs(t *testing.T) {
	readerOnEach(t, func(r reader) {
		r.importLines(apitest.Lines("a")...)
		for _, change := range []func(ids []string) (api.ImportReport, error){
			func(ids []string) (api.ImportReport, error) { return r.Publish(r.t.Context(), "ann", ids, false) },
			func(ids []string) (api.ImportReport, error) { return r.Withdraw(r.t.Context(), "ann", ids, "") },
		} {
			none := apitest.Problems("id: there is no such listing")
			require.Equal(r.t, api.ImportReport{Rejected: []api.RejectedLine{
				{Line: 1, ID: "a\x00", Problems: none}, {Line: 3, ID: "\xff", Problems: none},
				{Line: 4, ID: "unknown", Problems: none}, {Line: 5, ID: "A", Problems: none},
			}}, r.report(change([]string{"a\x00", "a", "\xff", "unknown", "A"})))
			report := r.report(change(slices.Repeat([]string{"\x00"}, api.MaxReported+7)))
			require.Len(r.t, report.Rejected, api.MaxReported)
			require.Equal(r.t, 7, report.Omitted)
		}
	})
}

func TestHangingChangeTimesOut(t *testing.T) {
	readerOnEach(t, func(r reader) {
		var statements, bounded int
		count := func(tx *gorm.DB) {
			statements++
			if _, has := tx.Statement.Context.Deadline(); has {
				bounded++
			}
		}
		callbacks := r.db.Callback()
		require.NoError(r.t, callbacks.Row().Before("*").Register("count", count))
		require.NoError(r.t, callbacks.Query().Before("*").Register("count", count))
		require.NoError(r.t, callbacks.Create().Before("*").Register("count", count))
		r.importLines(apitest.Lines("a")...)
		require.NotZero(r.t, statements)
		require.Equal(r.t, statements, bounded, "every statement of a change must have a deadline")

		pool, err := r.db.DB.DB()
		require.NoError(r.t, err)
		require.NoError(r.t, r.db.Callback().Raw().After("*").Register("hang", func(tx *gorm.DB) { // at the last statement
			<-tx.Statement.Context.Done()
			storetest.Eventually(r.t, "the transaction is ended", func() bool { return pool.Stats().InUse == 0 })
		}))
		short, cancel := context.WithTimeout(r.t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = r.Import(short, "ann", apitest.File(apitest.Lines("b")), false)
		require.Equal(r.t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
	})
}

func TestDetailIncludesCurationAndChanges(t *testing.T) {
	readerOnEach(t, func(r reader) {
		file := apitest.Lines("a")
		file[0].Curation = &api.Curation{Contact: "jo@example.com", Notes: "<n>"}
		r.importLines(file...)
		r.report(r.Publish(r.t.Context(), "bob", []string{"a"}, false))
		detail, err := r.Detail(r.t.Context(), "a")
		require.NoError(r.t, err)
		require.Contains(r.t, string(detail.Listing),
			`"visibility":"published","curation":{"contact":"jo@example.com","notes":"<n>"}}`)
		require.Equal(r.t, "a", detail.Record.ID)
		require.Equal(r.t, api.Unverified, detail.Record.Verification.Status)
		require.Equal(r.t, at, detail.CreatedAt)
		require.Equal(r.t, []api.ListingAct{
			{At: at, Actor: "bob", Action: "published", Fields: []string{"visibility", "publishedAt"}},
			{At: at, Actor: "ann", Action: "imported", Fields: []string{}},
		}, detail.Changes)
		for _, id := range []string{"b", "\x00", "A"} {
			_, err = r.Detail(r.t.Context(), id)
			require.Equal(r.t, problem.NotFound, problem.Of(err).Code, id)
		}
	})
}
