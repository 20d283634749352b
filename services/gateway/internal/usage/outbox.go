package usage

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/peer"
)

const (
	flushInterval = time.Second
	sendTimeout   = 5 * time.Second // for one batch
)

// outbox sends what is buffered to authquota in batches, one after the other. A batch without a reply is sent again unchanged.
type outbox[B any] struct {
	name string                         // of a batch, in logs
	next func() *B                      // moves the next batch out of the buffer; nil if the buffer is empty
	size func(*B) int64                 // number of calls in a batch
	send func(context.Context, B) error // returns a *peer.StatusError if authquota rejects the batch
	log  *slog.Logger
	soon chan struct{} // asks Run for a flush before the next tick; may be nil

	sending sync.Mutex // guards batch and failing; held during Flush
	batch   *B         // in flight or to be retried
	failing bool       // the last send failed

	pending, lost atomic.Int64
}

// Pending returns the number of recorded calls that authquota has not accepted yet.
func (o *outbox[B]) Pending() int64 { return o.pending.Load() }

// Lost returns the number of dropped calls.
func (o *outbox[B]) Lost() int64 { return o.lost.Load() }

// Run flushes the buffer every second, and when asked to, until ctx ends.
func (o *outbox[B]) Run(ctx context.Context) error {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-o.soon:
		}
		_ = o.Flush(ctx) // logged by Flush; the next tick retries
	}
}

// Close flushes the rest of the buffer and retries until ctx ends. What is still unsent then is lost.
func (o *outbox[B]) Close(ctx context.Context) {
	for o.Flush(ctx) != nil {
		select {
		case <-ctx.Done():
			unsent := o.pending.Swap(0)
			o.lost.Add(unsent)
			o.log.ErrorContext(ctx, o.name+" dropped: authquota unavailable at shutdown", "calls", unsent)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Flush sends the calls buffered when it starts, in batches. It leaves later ones to the next Flush: otherwise a busy gateway would send
// small batches without a pause. It stops with an error at the first batch that fails; the next Flush retries it.
func (o *outbox[B]) Flush(ctx context.Context) error {
	o.sending.Lock()
	defer o.sending.Unlock()
	for due := o.pending.Load(); due > 0; {
		if o.batch == nil {
			o.batch = o.next()
		}
		if o.batch == nil {
			return nil
		}
		sendCtx, cancel := context.WithTimeout(ctx, sendTimeout)
		err := o.send(sendCtx, *o.batch)
		cancel()
		calls := o.size(o.batch)
		switch {
		case err == nil:
			o.failing = false
		case isRejected(err): // a retry would be rejected too and block all later batches
			o.log.ErrorContext(ctx, o.name+" dropped: rejected by authquota", "calls", calls, "error", err.Error())
			o.lost.Add(calls)
		default:
			if !o.failing && ctx.Err() == nil { // log once per outage
				o.log.WarnContext(ctx, o.name+" failed, will retry", "calls", o.Pending(), "error", err.Error())
			}
			o.failing = true
			return err
		}
		o.pending.Add(-calls)
		due -= calls
		o.batch = nil
	}
	return nil
}

// isRejected reports whether authquota understood a batch and rejected it. Any other error may be temporary: an outage, an older
// authquota without this endpoint, or a wrong token.
func isRejected(err error) bool {
	status := new(peer.StatusError)
	return errors.As(err, &status) && (status.Status == http.StatusBadRequest || status.Status == http.StatusRequestEntityTooLarge)
}
