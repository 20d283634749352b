package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/listingtest"
)

// memorySource is a Source in memory that can fail.
type memorySource struct {
	mu         sync.Mutex
	rows       map[string]Row
	sequence   int64
	timeline   string // changes when the source is replaced
	err        error  // returned by both methods
	changesErr error  // returned by Changes after it has passed on every row
	rowsRead   int    // by Changes
	loads      int    // calls of Changes
}

// newSource returns a source of the records.
func newSource(t *testing.T, records ...listingtest.Record) *memorySource {
	s := &memorySource{rows: map[string]Row{}}
	s.put(t, records...)
	return s
}

// newLive returns a catalog whose clock shows now.
func newLive(s Source, log io.Writer) *Live {
	return NewLive(s, clock, slog.New(slog.NewTextHandler(log, nil)))
}

func (s *memorySource) Sequence(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sequence, s.err
}

func (s *memorySource) PositionAt(_ context.Context, sequence int64) (listing.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sequence == 0 {
		return listing.Position{}, s.err
	}
	return listing.Position{Sequence: max(sequence, 1), ID: s.timeline}, s.err
}

func (s *memorySource) Changes(_ context.Context, after int64, each func(Row) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	for _, r := range s.rows {
		if r.Sequence > after {
			s.rowsRead++
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return errors.Join(s.err, s.changesErr)
}

// replace makes the source one that was restored to a sequence and has changed since.
func (s *memorySource) replace(sequence int64, timeline string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.rows {
		if r.Sequence > sequence {
			delete(s.rows, id)
		}
	}
	s.sequence, s.timeline = sequence, timeline
}

func (s *memorySource) put(t *testing.T, records ...listingtest.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		s.sequence++
		s.rows[r.Entry.ID] = row(t, r, s.sequence)
	}
}

// counters returns s without sizes and times of builds.
func counters(s Stats) Stats {
	return Stats{Records: s.Records, LeftOut: s.LeftOut, Sequence: s.Sequence, Age: s.Age}
}

func TestLiveFollowsSource(t *testing.T) {
	at := now
	s := &memorySource{rows: map[string]Row{}}
	l := NewLive(s, func() time.Time { return at }, slog.New(slog.DiscardHandler))
	require.Error(t, l.Loaded(t.Context()))
	_, err := l.View()
	require.Equal(t, http.StatusServiceUnavailable, problem.Of(err).Code.Status())
	require.Zero(t, l.Stats())

	records := listingtest.Records(1, 700, now)
	s.put(t, records...)
	require.NoError(t, l.Poll(t.Context()))
	require.NoError(t, l.Loaded(t.Context()))
	stats := l.Stats()
	require.Equal(t, Stats{Records: 700, Sequence: 700}, counters(stats))
	require.Equal(t, at.UnixNano(), stats.BuiltAt.UnixNano())
	require.Positive(t, stats.BuildTime)
	size := int64(0)
	for _, r := range l.current.Load().order {
		size += int64(len(r.text))
	}
	require.Equal(t, size, stats.Bytes)
	require.Positive(t, size)
	at = at.Add(time.Second)

	records[3].Entry.Visibility = listingfile.Withdrawn
	s.put(t, records[3])
	require.NoError(t, l.Poll(t.Context()))
	require.Equal(t, Stats{Records: 699, Sequence: 701}, counters(l.Stats()))
	require.Equal(t, at.UnixNano(), l.Stats().BuiltAt.UnixNano())
	require.Less(t, l.Stats().Bytes, size)
	require.Equal(t, 701, s.rowsRead, "only changed rows are read again")

	before := l.current.Load()
	s.sequence++ // a change that affects no listing
	require.NoError(t, l.Poll(t.Context()))
	require.NoError(t, l.Poll(t.Context()))
	require.Same(t, before, l.current.Load(), "no changes, no new snapshot")
}

func TestVersionsIgnoreWhatConsumersCannotSee(t *testing.T) {
	records := listingtest.Records(1, 30, now)
	s := newSource(t, records...)
	l := newLive(s, io.Discard)
	id := records[3].Entry.ID
	versions := func() (list, record string) {
		t.Helper()
		require.NoError(t, l.Poll(t.Context()))
		view, err := l.View()
		require.NoError(t, err)
		r, ok := view.Find(id, api.Commercial)
		require.True(t, ok)
		return view.Version(), string(r.AppendVersion(nil))
	}
	list, record := versions()
	private := s.rows[id]
	s.sequence++
	private.Sequence = s.sequence // of a private note
	s.rows[id] = private
	s.sequence++
	s.rows["candidate"] = Row{Sequence: s.sequence, ID: "candidate"}
	afterList, afterRecord := versions()
	require.Equal(t, [2]string{list, record}, [2]string{afterList, afterRecord})

	l = newLive(s, io.Discard)
	freshList, freshRecord := versions()
	require.Equal(t, [2]string{list, record}, [2]string{freshList, freshRecord}, "another replica")
	s.put(t, records[3])
	afterList, afterRecord = versions()
	require.NotEqual(t, list, afterList)
	require.NotEqual(t, record, afterRecord)
}

func TestLiveServesUntilMaxAgeDuringAnOutage(t *testing.T) {
	at := now
	s := newSource(t, listingtest.Records(1, 5, now)...)
	l := NewLive(s, func() time.Time { return at }, slog.New(slog.DiscardHandler))
	require.NoError(t, l.Poll(t.Context()))

	s.err = errors.New("connection refused")
	at = now.Add(MaxAge)
	require.Error(t, l.Poll(t.Context()))
	view, err := l.View()
	require.NoError(t, err)
	require.Equal(t, at, view.Now())
	at = at.Add(time.Nanosecond)
	_, err = l.View()
	require.Equal(t, http.StatusServiceUnavailable, problem.Of(err).Code.Status())

	s.err = nil
	require.NoError(t, l.Poll(t.Context()))
	_, err = l.View()
	require.NoError(t, err)
}

func TestFailedLoadIsRetried(t *testing.T) {
	s := newSource(t, listingtest.Records(1, 300, now)...)
	l := newLive(s, io.Discard)
	s.changesErr = errors.New("torn")
	require.ErrorIs(t, l.Poll(t.Context()), s.changesErr)
	require.Error(t, l.Loaded(t.Context()))
	s.changesErr = nil
	require.NoError(t, l.Poll(t.Context()))
	require.Equal(t, 300, l.Stats().Records)
}

// loggedLine is the writer of a log that calls on for each line.
type loggedLine struct{ on func() }

func (h loggedLine) Write(line []byte) (int, error) { h.on(); return len(line), nil }

func TestFirstSnapshotIsServedFromTheMomentItIsThere(t *testing.T) {
	var l *Live
	lines := 0
	l = newLive(newSource(t, listingtest.Records(1, 1, now)...), loggedLine{func() {
		lines++
		require.NoError(t, l.Loaded(t.Context()))
		_, err := l.View()
		require.NoError(t, err)
	}})
	require.NoError(t, l.Poll(t.Context()))
	require.Equal(t, 1, lines)
}

func TestUnreadableRecordIsLeftOut(t *testing.T) {
	var log bytes.Buffer
	records := listingtest.Records(1, 300, now)
	s := newSource(t, records...)
	l := newLive(s, &log)
	corrupt := func(id string) {
		s.sequence++
		s.rows[id] = Row{Sequence: s.sequence, ID: id, Document: stored("{")}
	}
	// poll polls and checks the number of records served, of records left out, and of records that
	// this poll logged.
	poll := func(records, leftOut, logged int) {
		t.Helper()
		log.Reset()
		require.NoError(t, l.Poll(t.Context()))
		require.Equal(t, Stats{Records: records, LeftOut: leftOut, Sequence: s.sequence}, counters(l.Stats()))
		require.Equal(t, logged, strings.Count(log.String(), "level=ERROR"), log.String())
	}
	corrupt("corrupt-from-the-start")
	poll(300, 1, 1)
	require.Contains(t, log.String(), "listing_id=corrupt-from-the-start")

	corrupt(records[0].Entry.ID)
	records[1].Entry.Visibility = listingfile.Withdrawn
	s.put(t, records[1])
	poll(298, 2, 1)
	view, err := l.View()
	require.NoError(t, err)
	for _, r := range records[:2] {
		_, ok := view.Find(r.Entry.ID, api.Commercial)
		require.False(t, ok)
	}
	poll(298, 2, 0)

	s.put(t, records[0])
	poll(299, 1, 0)
}

func TestStepOfTheWallClockDoesNotAgeTheSnapshot(t *testing.T) {
	at, step := time.Now(), time.Duration(0)
	l := NewLive(&memorySource{rows: map[string]Row{}},
		func() time.Time { return servicetest.Stepped(at, step) }, slog.New(slog.DiscardHandler))
	for range 2 { // a load, and a poll without changes
		require.NoError(t, l.Poll(t.Context()))
		for _, step = range []time.Duration{-time.Hour, MaxAge + time.Minute, 0} {
			view, err := l.View()
			require.NoError(t, err)
			require.Equal(t, at.Add(step).UnixNano(), view.Now().UnixNano(), "the view has the time of the wall clock")
			require.Zero(t, l.Stats().Age)
		}
	}
}

// A restored source reaches the sequence of the last poll again, with other changes. What was
// loaded before must not be served beside them.
func TestReplacedSourceIsLoadedAgain(t *testing.T) {
	for name, after := range map[string]int64{"below the last poll": 0, "above it": 20} {
		s := &memorySource{rows: map[string]Row{}, timeline: "first"}
		records := listingtest.Records(1, 30, now)
		var log bytes.Buffer
		l := newLive(s, &log)
		require.NoError(t, l.Poll(t.Context())) // still empty
		s.put(t, records[:10]...)
		require.NoError(t, l.Poll(t.Context()))
		require.Equal(t, 10, l.Stats().Records, name)
		require.NotContains(t, log.String(), "replaced", name)

		s.replace(5, "restored")
		s.put(t, records[10:10+after]...)
		require.NoError(t, l.Poll(t.Context()))
		require.Equal(t, Stats{Records: int(5 + after), Sequence: 5 + after}, counters(l.Stats()), name)
		require.Contains(t, log.String(), "catalog database was replaced", name)
	}
}
