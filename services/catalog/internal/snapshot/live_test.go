package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/oracle"
)

// source is a store in memory that can fail.
type source struct {
	mu       sync.Mutex
	rows     map[string]Row
	sequence int64
	broken   error
	read     int // rows handed over
}

func (s *source) Sequence(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sequence, s.broken
}

func (s *source) Changes(_ context.Context, after int64, each func(Row) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.Sequence > after {
			s.read++
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return s.broken
}

func (s *source) put(t *testing.T, records ...oracle.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		s.sequence++
		s.rows[r.Entry.ID] = row(t, r, s.sequence)
	}
}

func TestLiveFollowsItsSource(t *testing.T) {
	at := now
	s := &source{rows: map[string]Row{}}
	l := NewLive(s, func() time.Time { return at }, slog.New(slog.DiscardHandler))
	require.Error(t, l.Loaded(t.Context()))
	_, err := l.View()
	require.Equal(t, http.StatusServiceUnavailable, problem.Of(err).Code.Status())
	require.Zero(t, l.Stats())

	records := oracle.Records(1, 700, now)
	s.put(t, records...)
	require.NoError(t, l.poll(t.Context()))
	require.NoError(t, l.Loaded(t.Context()))
	require.Equal(t, Stats{Records: 700, Sequence: 700}, l.Stats())

	records[3].Entry.Visibility = listing.Withdrawn
	s.put(t, records[3])
	require.NoError(t, l.poll(t.Context()))
	require.Equal(t, Stats{Records: 699, Sequence: 701}, l.Stats())
	require.Equal(t, 701, s.read, "only what changed is read again")

	before := l.current.Load()
	s.sequence++ // given out for something that is no listing
	require.NoError(t, l.poll(t.Context()))
	require.NoError(t, l.poll(t.Context()))
	require.Same(t, before, l.current.Load(), "nothing changed, nothing is built")
}

func TestLiveOutlivesItsSourceForAWhile(t *testing.T) {
	at := now
	s := &source{rows: map[string]Row{}}
	s.put(t, oracle.Records(1, 5, now)...)
	l := NewLive(s, func() time.Time { return at }, slog.New(slog.DiscardHandler))
	require.NoError(t, l.poll(t.Context()))

	s.broken = errors.New("away")
	at = now.Add(MaxAge)
	require.Error(t, l.poll(t.Context()))
	view, err := l.View()
	require.NoError(t, err)
	require.Equal(t, at, view.Now())
	at = at.Add(time.Nanosecond)
	_, err = l.View()
	require.Equal(t, http.StatusServiceUnavailable, problem.Of(err).Code.Status())

	s.broken = nil
	require.NoError(t, l.poll(t.Context()))
	_, err = l.View()
	require.NoError(t, err)
}

func TestAFailedLoadChangesNothingAndIsTriedAgain(t *testing.T) {
	s := &source{rows: map[string]Row{}}
	l := NewLive(s, time.Now, slog.New(slog.DiscardHandler))
	records := oracle.Records(1, 300, now)
	s.put(t, records...)
	s.rows["broken"] = Row{Sequence: 301, ID: "broken", Document: []byte("{")}
	require.ErrorContains(t, l.poll(t.Context()), "broken")
	require.Error(t, l.Loaded(t.Context()))
	delete(s.rows, "broken")
	require.NoError(t, l.poll(t.Context()))
	require.Equal(t, 300, l.Stats().Records)

	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, l.Run(ctx), context.Canceled)
}
