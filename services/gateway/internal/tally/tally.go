// Package tally counts how the calls of each key ended, and tells authquota, for the people whose keys they are.
//
// These are statistics. What an account may still do is decided by the counters in Redis, in one exact step; a tally is made after
// the answer, in the memory of this process, and reaches authquota about a second later. So it costs a call next to nothing, and
// an outage of authquota costs no call anything: what could not be told waits here. A batch that authquota may or may not have
// taken is sent again as it was, under the same id, until it is accepted, and counts once.
//
// Known limits: a process that is killed takes along what it has not told, about a second's worth while authquota answers. While it
// does not, memory is bounded by the number of keys, and not of calls, with calls of further keys given up and counted as lost.
package tally

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
)

const (
	every    = time.Second
	sendTime = 5 * time.Second // that one batch may take

	// What is kept of calls that could not be told yet: so many keys, days and outcomes together, about 20 MB.
	maxKept = 100_000
)

// Book holds the tallies of one process. It is safe for concurrent use.
type Book struct {
	send func(context.Context, api.UsageBatch) error
	log  *slog.Logger

	mu   sync.Mutex
	kept map[line]*sum

	sending sync.Mutex      // held by whoever tells; guards what follows
	batch   *api.UsageBatch // on its way, or to be sent again
	away    bool            // the last batch was not accepted

	pending, lost atomic.Int64
}

type line struct {
	day     int64 // since 1970
	key     string
	outcome api.CallOutcome
}

type sum struct {
	calls int
	last  time.Time
}

// New makes an empty book. send hands a batch to authquota; a *peer.StatusError says that it was not taken as it was.
func New(send func(context.Context, api.UsageBatch) error, log *slog.Logger) *Book {
	return &Book{send: send, log: log, kept: map[line]*sum{}}
}

// Note counts one call of a key, by its id.
func (b *Book) Note(key string, outcome api.CallOutcome, at time.Time) {
	of := line{at.Unix() / 86400, key, outcome}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.kept[of]
	if s == nil {
		if len(b.kept) >= maxKept {
			b.lost.Add(1)
			return
		}
		s = new(sum)
		b.kept[of] = s
	}
	s.calls++
	if at.After(s.last) {
		s.last = at
	}
	b.pending.Add(1)
}

// Pending is how many calls wait to be told.
func (b *Book) Pending() int64 { return b.pending.Load() }

// Lost is how many calls were given up.
func (b *Book) Lost() int64 { return b.lost.Load() }

// Run tells authquota every second, until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			_ = b.Tell(ctx) // has been logged, and is tried again
		}
	}
}

// Close tells what is left, trying until ctx ends. What remains then is lost.
func (b *Book) Close(ctx context.Context) {
	for b.Tell(ctx) != nil {
		select {
		case <-ctx.Done():
			left := b.pending.Swap(0)
			b.lost.Add(left)
			b.log.ErrorContext(ctx, "tallies were lost: authquota did not take them before the end", "calls", left)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Tell sends what is there, batch by batch, until nothing is left or one of them is not accepted.
func (b *Book) Tell(ctx context.Context) error {
	b.sending.Lock()
	defer b.sending.Unlock()
	for {
		if b.batch == nil {
			b.batch = b.take()
		}
		if b.batch == nil {
			return nil
		}
		sending, cancel := context.WithTimeout(ctx, sendTime)
		err := b.send(sending, *b.batch)
		cancel()
		calls := callsOf(b.batch)
		switch {
		case err == nil:
			b.away = false
		case refused(err): // it would be refused again, and hold up all that follow
			b.log.ErrorContext(ctx, "tallies were lost: authquota refuses them", "calls", calls, "error", err.Error())
			b.lost.Add(calls)
		default:
			if !b.away && ctx.Err() == nil { // once for an outage
				b.log.WarnContext(ctx, "tallies wait for authquota", "calls", b.Pending(), "error", err.Error())
			}
			b.away = true
			return err
		}
		b.pending.Add(-calls)
		b.batch = nil
	}
}

// take makes the next batch; nil where there is nothing to tell.
func (b *Book) take() *api.UsageBatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept) == 0 {
		return nil
	}
	batch := &api.UsageBatch{
		ID:     uuid.Must(uuid.NewV7()).String(), // fails only where the system has no random numbers
		Counts: make([]api.UsageCount, 0, min(len(b.kept), api.MaxUsageCounts)),
	}
	for of, s := range b.kept {
		batch.Counts = append(batch.Counts, api.UsageCount{
			Day: counter.DayOf(time.Unix(of.day*86400, 0).UTC()), Key: of.key, Outcome: of.outcome, Calls: s.calls, LastAt: s.last.UTC(),
		})
		delete(b.kept, of)
		if len(batch.Counts) == api.MaxUsageCounts {
			break
		}
	}
	return batch
}

func callsOf(batch *api.UsageBatch) int64 {
	n := 0
	for _, t := range batch.Counts {
		n += t.Calls
	}
	return int64(n)
}

// refused reports whether authquota understood a batch and does not want it. Everything else may pass: a service that is away, one
// of an older version without tallies, another internal token during a rotation.
func refused(err error) bool {
	status := new(peer.StatusError)
	return errors.As(err, &status) && (status.Status == http.StatusBadRequest || status.Status == http.StatusRequestEntityTooLarge)
}
