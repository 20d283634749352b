// Package usage counts the calls of each key by outcome, and logs the latest ones. It sends both to
// authquota, which shows them to the account.
//
// The counts are statistics: admission never reads them. The limits of an account are enforced on
// the counters in Redis. A call is recorded in memory after the response and sent to authquota
// about a second later, so an outage of authquota fails no call; the records wait in memory. A
// batch without a reply is sent again unchanged, under the same id, until authquota accepts it, and
// counts once.
//
// Known limits: a killed process loses what it has not sent, about one second of calls while
// authquota is available. During an outage, memory for counts is bounded by the number of keys
// rather than of calls; the log has a smaller bound, of requests. What is beyond a bound is dropped
// and counted as lost.
package usage

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
)

const (
	maxCounts   = 100_000 // unsent counts (key, day, outcome), about 20 MB
	maxRequests = 10_000  // unsent requests of the log, about 4 MB
)

// Recorder buffers the calls of one process. It is safe for concurrent use.
//
// Of the log, it buffers at most api.RequestLogSize requests of one key, the number that authquota
// stores, so that a busy key leaves room for the others.
type Recorder struct {
	send func(context.Context, api.UsageBatch) error
	log  *slog.Logger
	soon chan struct{} // asks Run for a flush before the next tick

	mu       sync.Mutex
	counts   map[countKey]*total
	requests []api.LoggedRequest
	perKey   map[string]int // requests

	sending sync.Mutex      // guards batch and failing; held during Flush
	batch   *api.UsageBatch // in flight or to be retried
	failing bool            // the last send failed

	pending, lost, unlogged atomic.Int64
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

// New returns an empty recorder. send delivers a batch to authquota; it returns a *peer.StatusError
// if authquota rejects it.
func New(send func(context.Context, api.UsageBatch) error, log *slog.Logger) *Recorder {
	return &Recorder{send: send, log: log, soon: make(chan struct{}, 1), counts: map[countKey]*total{},
		perKey: map[string]int{}}
}

// Record adds a call with its outcome, charged at a time, to the counts and to the log. The Params
// of the call are the raw query string; a batch has only the parameters that api.LoggedParams
// accepts.
func (r *Recorder) Record(call api.LoggedRequest, outcome api.CallOutcome, charged time.Time) {
	if len(call.Params) > api.MaxLoggedQuery { // none of it would be in the batch
		call.Params = ""
	}
	call.Params = strings.Clone(call.Params) // part of the request line, which may be long
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(countKey{charged.Unix() / 86400, call.Key, outcome}, charged)
	if len(r.requests) >= maxRequests || r.perKey[call.Key] >= api.RequestLogSize {
		r.unlogged.Add(1)
		return
	}
	r.perKey[call.Key]++
	r.requests = append(r.requests, call)
	if len(r.requests) == maxRequests/2 {
		select {
		case r.soon <- struct{}{}:
		default:
		}
	}
}

func (r *Recorder) count(k countKey, at time.Time) {
	t := r.counts[k]
	if t == nil {
		if len(r.counts) >= maxCounts {
			r.lost.Add(1)
			return
		}
		t = new(total)
		r.counts[k] = t
	}
	t.calls++
	if at.After(t.last) {
		t.last = at
	}
	r.pending.Add(1)
}

// Pending returns the number of recorded calls that authquota has not counted yet.
func (r *Recorder) Pending() int64 { return r.pending.Load() }

// Lost returns the number of calls that are missing from the counts.
func (r *Recorder) Lost() int64 { return r.lost.Load() }

// Unlogged returns the number of calls that are missing from the log.
func (r *Recorder) Unlogged() int64 { return r.unlogged.Load() }

func (r *Recorder) batches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max((len(r.counts)+api.MaxUsageCounts-1)/api.MaxUsageCounts,
		(len(r.requests)+api.MaxUsageRequests-1)/api.MaxUsageRequests)
}

// nextBatch moves the oldest requests and any counts from the buffer into a new batch, as many as
// it may have.
func (r *Recorder) nextBatch() *api.UsageBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.requests), api.MaxUsageRequests)
	batch := &api.UsageBatch{
		ID:       uuid.Must(uuid.NewV7()).String(), // fails only if the system has no random numbers
		Counts:   make([]api.UsageCount, 0, min(len(r.counts), api.MaxUsageCounts)),
		Requests: slices.Clone(r.requests[:n]),
	}
	r.requests = slices.Delete(r.requests, 0, n)
	for i := range batch.Requests {
		call := &batch.Requests[i]
		call.Params = api.LoggedParams(call.Params)
		if r.perKey[call.Key]--; r.perKey[call.Key] == 0 {
			delete(r.perKey, call.Key)
		}
	}
	for k, t := range r.counts {
		if len(batch.Counts) == api.MaxUsageCounts {
			break
		}
		batch.Counts = append(batch.Counts, api.UsageCount{
			Day: counter.DayOf(time.Unix(k.day*86400, 0).UTC()), Key: k.key, Outcome: k.outcome, Calls: t.calls,
			LastAt: t.last.UTC(),
		})
		delete(r.counts, k)
	}
	return batch
}

const (
	flushInterval = time.Second
	sendTimeout   = 5 * time.Second // for one batch
)

// Run flushes the buffer every second, and once half of the log's buffer is full, until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-r.soon:
		}
		_ = r.Flush(ctx) // logged by Flush; the next tick retries
	}
}

// Close flushes the rest of the buffer and retries until ctx ends. What is still unsent then is
// lost.
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

// Flush sends the calls buffered when it starts, in batches. It leaves later ones to the next
// Flush: otherwise a busy gateway would send small batches without a pause. It stops with an error
// at the first batch that fails; the next Flush retries it.
func (r *Recorder) Flush(ctx context.Context) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	due := r.batches()
	if r.batch != nil {
		due++
	}
	for ; due > 0; due-- {
		if r.batch == nil {
			r.batch = r.nextBatch()
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
			r.unlogged.Add(int64(len(r.batch.Requests)))
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
	return nil
}

func callsOf(batch *api.UsageBatch) (calls int64) {
	for _, t := range batch.Counts {
		calls += int64(t.Calls)
	}
	return calls
}

// isRejected reports whether authquota understood a batch and rejected it. Any other error may be
// temporary: an outage, an older authquota without this endpoint, or a wrong token.
func isRejected(err error) bool {
	status := new(peer.StatusError)
	return errors.As(err, &status) && (status.Status == http.StatusBadRequest ||
		status.Status == http.StatusRequestEntityTooLarge)
}
