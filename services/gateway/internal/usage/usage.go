// Package usage counts the calls of each key by outcome and sends the counters to authquota, which shows them to the account.
//
// The counters are statistics: admission never reads them. The limits of an account are enforced on the counters in Redis. A
// usage counter is incremented in memory after the response and sent to authquota about a second later, so an outage of authquota
// fails no call; the counters wait in memory. A batch without a reply is sent again unchanged, under the same id, until authquota
// accepts it, and counts once.
//
// Known limits: a killed process loses its unsent counters, about one second of calls while authquota is available. During an
// outage, memory is bounded by the number of keys rather than of calls; calls beyond the bound are dropped and counted as lost.
package usage

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
	flushInterval = time.Second
	sendTimeout   = 5 * time.Second // for one batch

	maxBuffered = 100_000 // unsent counters (key, day, outcome), about 20 MB
)

// Recorder buffers the usage counters of one process. It is safe for concurrent use.
type Recorder struct {
	send func(context.Context, api.UsageBatch) error
	log  *slog.Logger

	mu       sync.Mutex
	buffered map[countKey]*total

	sending sync.Mutex      // guards batch and failing; held during Flush
	batch   *api.UsageBatch // in flight or to be retried
	failing bool            // the last send failed

	pending, lost atomic.Int64
}

type countKey struct {
	day     int64 // since 1970-01-01
	key     string
	outcome api.CallOutcome
}

type total struct {
	calls int
	last  time.Time
}

// New returns an empty recorder. send delivers a batch to authquota; it returns a *peer.StatusError if authquota rejects it.
func New(send func(context.Context, api.UsageBatch) error, log *slog.Logger) *Recorder {
	return &Recorder{send: send, log: log, buffered: map[countKey]*total{}}
}

// Record counts one call of the key with the given id. If the buffer is full, the call is counted as lost.
func (r *Recorder) Record(key string, outcome api.CallOutcome, at time.Time) {
	k := countKey{at.Unix() / 86400, key, outcome}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.buffered[k]
	if t == nil {
		if len(r.buffered) >= maxBuffered {
			r.lost.Add(1)
			return
		}
		t = new(total)
		r.buffered[k] = t
	}
	t.calls++
	if at.After(t.last) {
		t.last = at
	}
	r.pending.Add(1)
}

// Pending returns the number of recorded calls that authquota has not accepted yet.
func (r *Recorder) Pending() int64 { return r.pending.Load() }

// Lost returns the number of dropped calls.
func (r *Recorder) Lost() int64 { return r.lost.Load() }

// Run flushes the counters every second until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			_ = r.Flush(ctx) // logged by Flush; the next tick retries
		}
	}
}

// Close flushes the remaining counters and retries until ctx ends. What is still unsent then is lost.
func (r *Recorder) Close(ctx context.Context) {
	for r.Flush(ctx) != nil {
		select {
		case <-ctx.Done():
			unsent := r.pending.Swap(0)
			r.lost.Add(unsent)
			r.log.ErrorContext(ctx, "usage batch dropped: authquota unavailable at shutdown", "calls", unsent)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Flush sends all buffered counters in batches. It stops with an error at the first batch that fails; the next Flush retries it.
func (r *Recorder) Flush(ctx context.Context) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	for {
		if r.batch == nil {
			r.batch = r.nextBatch()
		}
		if r.batch == nil {
			return nil
		}
		sendCtx, cancel := context.WithTimeout(ctx, sendTimeout)
		err := r.send(sendCtx, *r.batch)
		cancel()
		calls := callsOf(r.batch)
		switch {
		case err == nil:
			r.failing = false
		case isRejected(err): // a retry would be rejected too and block all later batches
			r.log.ErrorContext(ctx, "usage batch dropped: rejected by authquota", "calls", calls, "error", err.Error())
			r.lost.Add(calls)
		default:
			if !r.failing && ctx.Err() == nil { // log once per outage
				r.log.WarnContext(ctx, "usage batch failed, will retry", "calls", r.Pending(), "error", err.Error())
			}
			r.failing = true
			return err
		}
		r.pending.Add(-calls)
		r.batch = nil
	}
}

// nextBatch moves up to api.MaxUsageCounts counters from the buffer into a new batch. It returns nil if the buffer is empty.
func (r *Recorder) nextBatch() *api.UsageBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buffered) == 0 {
		return nil
	}
	batch := &api.UsageBatch{
		ID:     uuid.Must(uuid.NewV7()).String(), // fails only if the system has no random numbers
		Counts: make([]api.UsageCount, 0, min(len(r.buffered), api.MaxUsageCounts)),
	}
	for k, t := range r.buffered {
		batch.Counts = append(batch.Counts, api.UsageCount{
			Day: counter.DayOf(time.Unix(k.day*86400, 0).UTC()), Key: k.key, Outcome: k.outcome, Calls: t.calls, LastAt: t.last.UTC(),
		})
		delete(r.buffered, k)
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

// isRejected reports whether authquota understood a batch and rejected it. Any other error may be temporary: an outage, an older
// authquota without this endpoint, or a rotation of the internal token.
func isRejected(err error) bool {
	status := new(peer.StatusError)
	return errors.As(err, &status) && (status.Status == http.StatusBadRequest || status.Status == http.StatusRequestEntityTooLarge)
}
