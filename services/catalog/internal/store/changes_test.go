package store_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/query"
	"opportunity.internal/services/catalog/internal/snapshot"
	"opportunity.internal/services/catalog/internal/store"
)

// settled is more than the age from which a change can be read.
const settled = 3 * time.Second

// reader reads the changes of records like a consumer.
type reader struct {
	t *testing.T
	*store.Store

	db    *database.DB
	clock *servicetest.Clock
}

func readerOnEach(t *testing.T, test func(r reader)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) { test(newReader(t, url)) })
}

func newReader(t *testing.T, url string) reader {
	db, clock := servicetest.OpenDatabase(t, url), servicetest.NewClock(at)
	return reader{t, store.New(db, clock.Now), db, clock}
}

func (r reader) page(after string, limit int) (listing.ChangePage, error) {
	q := query.Changes{After: after, Limit: limit}
	if after != "" && after != query.Now {
		var ok bool
		q.Position, ok = listing.ParseCursor(after)
		require.True(r.t, ok, after)
	}
	return r.RecordChanges(r.t.Context(), q, math.MaxInt64)
}

// after returns the settled changes after a cursor, as "published a", and the cursor to continue
// with.
func (r reader) after(cursor string) (all []string, next string) {
	r.t.Helper()
	r.clock.Advance(settled)
	page, err := r.page(cursor, 100)
	require.NoError(r.t, err)
	for _, c := range page.Changes {
		all = append(all, string(c.Change)+" "+c.ID)
	}
	return all, page.End.Cursor()
}

func (r reader) expired(cursor string) {
	r.t.Helper()
	_, err := r.page(cursor, 10)
	require.Equal(r.t, problem.CursorExpired, problem.Of(err).Code, "%v", err)
}

func (r reader) publish(ids ...string) {
	r.t.Helper()
	require.True(r.t, r.report(r.Publish(r.t.Context(), "ann", ids, false)).Applied)
}

func (r reader) withdraw(ids ...string) {
	r.t.Helper()
	require.True(r.t, r.report(r.Withdraw(r.t.Context(), "ann", ids, "")).Applied)
}

func (r reader) importLines(lines ...listingfile.Line) api.ImportReport {
	r.t.Helper()
	return r.report(r.Import(r.t.Context(), "ann", apitest.File(lines), false))
}

func (r reader) report(report api.ImportReport, err error) api.ImportReport {
	r.t.Helper()
	require.NoError(r.t, err)
	return report
}

func (r reader) save(summaries ...api.Summary) {
	r.t.Helper()
	require.NoError(r.t, r.Save(r.t.Context(), feed.Cursor{}, apitest.Encoded(summaries...), feed.Cursor{}))
}

func (r reader) sequence() int64 {
	r.t.Helper()
	n, err := r.Sequence(r.t.Context())
	require.NoError(r.t, err)
	return n
}

// randomRecords are listings that random steps change.
type randomRecords struct {
	reader
	*rand.Rand

	lines []listingfile.Line
	steps int
}

func (r reader) randomRecords(seed uint64) *randomRecords {
	all := &randomRecords{reader: r, Rand: rand.New(rand.NewPCG(seed, 2)),
		lines: apitest.Lines(strings.Split("abcdefghijkl", "")...)}
	r.importLines(all.lines...)
	return all
}

// change publishes, withdraws or edits a listing, or saves a summary of it.
func (r *randomRecords) change() {
	r.steps++
	line := &r.lines[r.IntN(len(r.lines))]
	switch r.IntN(5) {
	case 0:
		r.publish(line.ID)
	case 1:
		r.withdraw(line.ID)
	case 2:
		line.Summary = fmt.Sprint("summary ", r.steps)
		r.importLines(*line)
	case 3:
		s := api.Summary{Slug: line.ID, Sequence: int64(r.steps), HistoryCount: r.IntN(3), LastEventID: fmt.Sprint(r.steps)}
		if r.IntN(2) == 0 {
			s.LastCheckedAt, s.LastOutcome, s.Unquoted = new(at), api.OutcomeVerified, []string{"pay"}
		}
		if r.IntN(2) == 0 {
			s.ConflictAt = new(at)
		}
		r.save(s)
	default:
		line.Curation = &api.Curation{Notes: fmt.Sprint("note ", r.steps)}
		r.importLines(*line)
	}
}

// public returns the records that consumers can see.
func (r reader) public() map[string]string {
	records := map[string]string{}
	for id, row := range changes(r.t, r.Store, 0) {
		if row.Document.Valid {
			records[id] = text(r.t, row)
		}
	}
	return records
}

// A change is published exactly if consumers can see it.
func TestChangesOfRecords(t *testing.T) {
	readerOnEach(t, func(r reader) {
		all := r.randomRecords(3)
		before := r.public()
		_, cursor := r.after(query.Now)
		kinds := map[string]int{}
		for range 200 {
			all.change()
			after, want := r.public(), []string(nil)
			for _, line := range all.lines {
				old, was := before[line.ID]
				record, is := after[line.ID]
				switch {
				case is && !was:
					want = append(want, "published "+line.ID)
				case was && !is:
					want = append(want, "withdrawn "+line.ID)
				case old != record:
					want = append(want, "updated "+line.ID)
				}
			}
			got, next := r.after(cursor)
			require.Equal(r.t, want, got)
			require.Equal(r.t, len(want) == 0, next == cursor, "a change that consumers cannot see moves no cursor")
			for _, change := range got {
				kinds[change[:len(change)-2]]++
			}
			before, cursor = after, next
		}
		require.Greater(r.t, min(kinds["published"], kinds["withdrawn"], kinds["updated"]), 10, kinds)
	})
}

func TestPagesOfChanges(t *testing.T) {
	readerOnEach(t, func(r reader) {
		r.importLines(apitest.Lines("a", "b", "c", "d", "e")...)
		r.publish("a", "b", "c", "d", "e") // in one transaction
		page, err := r.page("", 2)
		require.NoError(r.t, err)
		require.Empty(r.t, page.Changes, "other replicas may not have loaded it")
		start := page.End.Cursor()

		r.clock.Advance(settled)
		cursor, got := start, ""
		for more := true; more; {
			page, err := r.page(cursor, 2)
			require.NoError(r.t, err)
			for _, c := range page.Changes {
				got += c.ID
				require.Equal(r.t, c.Change == api.ChangePublished, c.At.Equal(at))
				cursor = c.Cursor
			}
			more = page.HasMore
			require.Equal(r.t, more, cursor == page.End.Cursor() && cursor != page.Newest.Cursor())
			if more && got == "abcd" {
				r.withdraw("a") // moves behind the others
				r.clock.Advance(settled)
			}
		}
		require.Equal(r.t, "abcdea", got)

		loaded := r.sequence()
		page, err = r.RecordChanges(r.t.Context(), query.Changes{Limit: 10}, loaded-1)
		require.NoError(r.t, err)
		require.Len(r.t, page.Changes, 4, "without the change that the snapshot lacks")
		ahead, _ := listing.ParseCursor(cursor)
		page, err = r.RecordChanges(r.t.Context(), query.Changes{After: cursor, Position: ahead, Limit: 10}, loaded-1)
		require.NoError(r.t, err)
		require.Equal(r.t, cursor, page.End.Cursor(), "a replica that lags keeps the cursor")
	})
}

func TestOldCursorsExpire(t *testing.T) {
	readerOnEach(t, func(r reader) {
		_, start := r.after(query.Now)
		r.importLines(apitest.Lines("a", "b")...)
		r.publish("a")
		_, first := r.after(start)
		r.clock.Set(at.Add(time.Hour))
		r.publish("b")
		_, second := r.after(first)

		r.clock.Set(at.Add(api.ChangesKept + time.Minute))
		r.expired(start)
		got, _ := r.after(first)
		require.Equal(r.t, []string{"published b"}, got)
		r.clock.Advance(time.Hour)
		r.expired(first)
		got, again := r.after(second)
		require.Empty(r.t, got, "nothing was missed since")
		require.Equal(r.t, second, again)
		got, oldest := r.after("")
		require.Empty(r.t, got)
		require.Equal(r.t, second, oldest)
	})
}

// A restored database uses the sequences again.
func TestCursorsOfLostChangesExpire(t *testing.T) {
	readerOnEach(t, func(r reader) {
		r.importLines(apitest.Lines("a", "b", "c")...)
		r.publish("a")
		_, kept := r.after("")
		r.publish("b")
		_, lost := r.after(kept)
		position, _ := listing.ParseCursor(lost)
		for _, statement := range []string{
			"UPDATE change_sequence SET value = value - 1",
			"DELETE FROM changes WHERE sequence = (SELECT MAX(sequence) FROM changes)",
			"UPDATE listings SET visibility = 'private', sequence = -1, public_sequence = 0 WHERE id = 'b'",
		} {
			require.NoError(r.t, r.db.Exec(statement).Error)
		}
		r.expired(lost)
		r.publish("c")
		require.Equal(r.t, position.Sequence, r.sequence())
		r.expired(lost)
		r.expired(listing.Position{Sequence: position.Sequence, ID: "X"}.Cursor())
		r.expired(listing.Position{Sequence: position.Sequence + 7, ID: position.ID}.Cursor())
		got, _ := r.after(kept)
		require.Equal(r.t, []string{"published c"}, got)
	})
}

// A transaction that takes its sequences first and commits last is not skipped: later ones wait for
// it.
func TestLateCommitIsNotSkipped(t *testing.T) {
	r := newReader(t, schema.Postgres(t))
	r.importLines(apitest.Lines("b")...)
	r.publish("b")
	_, cursor := r.after("")
	written, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		_, err := r.Import(t.Context(), "ann", func(add func(listingfile.Line) error) error {
			for i := range 201 { // the first 200 are written
				line := apitest.Lines(fmt.Sprintf("a-%d", i))[0]
				line.Visibility = listingfile.Published
				if err := add(line); err != nil {
					return err
				}
			}
			close(written)
			<-release
			return nil
		}, false)
		done <- err
	}()
	<-written
	go func() {
		_, err := r.Withdraw(t.Context(), "bob", []string{"b"}, "")
		done <- err
	}()
	storetest.Eventually(t, "the second transaction waits", func() bool {
		var waiting int
		return r.db.Raw("SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting).Error == nil && waiting > 0
	})
	got, during := r.after(cursor)
	require.Empty(t, got)
	close(release)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	r.clock.Advance(settled)
	page, err := r.page(during, 300)
	require.NoError(t, err)
	require.Len(t, page.Changes, 202)
	require.Equal(t, "b", page.Changes[201].ID)
}

// Consumers with any page size and any interval have the public records after random changes.
func TestCopiesEqualTheRecords(t *testing.T) {
	readerOnEach(t, func(r reader) {
		all := r.randomRecords(1)
		type consumer struct {
			cursor string
			copied map[string]string
		}
		consumers := []*consumer{{"", map[string]string{}}, {"", map[string]string{}}}
		poll := func(c *consumer, limit int) (more bool) {
			page, err := r.page(c.cursor, limit)
			require.NoError(r.t, err)
			records := r.public()
			for _, change := range page.Changes {
				delete(c.copied, change.ID)
				if record, ok := records[change.ID]; ok && change.Change != api.ChangeWithdrawn {
					c.copied[change.ID] = record
				}
			}
			c.cursor = page.End.Cursor()
			return page.HasMore
		}
		for range 250 {
			if all.IntN(6) > 0 {
				all.change()
			} else {
				r.clock.Advance(time.Duration(all.IntN(3000)) * time.Millisecond)
				poll(consumers[all.IntN(len(consumers))], 1+all.IntN(5))
			}
			if all.IntN(50) == 0 { // begins like a program that keeps a copy: with the cursor, then all records
				page, err := r.page(query.Now, 1)
				require.NoError(r.t, err)
				consumers = append(consumers, &consumer{page.End.Cursor(), r.public()})
			}
		}
		r.clock.Advance(settled)
		for _, c := range consumers {
			for poll(c, 3) {
			}
			require.Equal(r.t, r.public(), c.copied)
		}
	})
}

// text returns the record of a row as consumers see it.
func text(t *testing.T, row snapshot.Row) string {
	t.Helper()
	var e listing.Entry
	require.NoError(t, json.Unmarshal([]byte(row.Document.String), &e.Listing))
	var s api.Summary
	if row.Summary.Valid {
		require.NoError(t, json.Unmarshal([]byte(row.Summary.String), &s))
	}
	e.PublishedAt, e.ChangedAt = row.PublishedAt, row.ChangedAt
	record, err := json.Marshal(e.Public(s, at))
	require.NoError(t, err)
	return string(record)
}
