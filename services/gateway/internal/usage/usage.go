// Package usage counts the calls of each key by outcome, and logs the latest ones. It sends both to authquota, which shows them to the
// account.
//
// The counters are statistics: admission never reads them. The limits of an account are enforced on the counters in Redis. A
// usage counter is incremented in memory after the response and sent to authquota about a second later, so an outage of authquota
// fails no call; the counters wait in memory. A batch without a reply is sent again unchanged, under the same id, until authquota
// accepts it, and counts once.
//
// Known limits: a killed process loses its unsent counters, about one second of calls while authquota is available. During an
// outage, memory is bounded by the number of keys rather than of calls; calls beyond the bound are dropped and counted as lost. The
// log has a smaller bound: see Log.
package usage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
)

const maxBuffered = 100_000 // unsent counters (key, day, outcome), about 20 MB

// Recorder buffers the usage counters of one process. It is safe for concurrent use.
type Recorder struct {
	outbox[api.UsageBatch]

	mu       sync.Mutex
	buffered map[countKey]*total
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
	r := &Recorder{buffered: map[countKey]*total{}}
	r.outbox = outbox[api.UsageBatch]{name: "usage batch", send: send, log: log, next: r.nextBatch, size: callsOf}
	return r
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
