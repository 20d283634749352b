package usage

import (
	"context"
	"errors"
	"net/http"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

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
