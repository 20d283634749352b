package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/store"
)

const (
	// pushInterval is the time between scans of the outbox while pushes are pending.
	pushInterval = time.Second
	// idleInterval is that time while none is: a replica that stopped may have left one.
	idleInterval = 5 * time.Second

	batchSize   = 100
	pushTimeout = 3 * time.Second
	maxBackoff  = 10 * time.Second // short, so that pushes resume soon after an outage
	// unknownAccountRetry is for accounts that authquota does not have. They may reappear when a
	// backup is restored, or never.
	unknownAccountRetry = time.Hour
)

// PushOutcome is the result of one push, as counted in metrics.
type PushOutcome string

const (
	Accepted       PushOutcome = "accepted"
	UnknownAccount PushOutcome = "unknown_account"
	Failed         PushOutcome = "failed"
)

// PushOutcomes lists all outcomes.
var PushOutcomes = []PushOutcome{Accepted, UnknownAccount, Failed}

// Pusher is the background worker that delivers entitlements to authquota. The store is the outbox:
// it keeps every change until authquota has acknowledged it. Create it with NewPusher.
//
// Each push carries the whole entitlement and its version, and authquota ignores versions that are
// not greater than its own. Delivering twice is therefore harmless, whether because a reply was
// lost, the process stopped before recording it, or two replicas pushed at once. A change made
// during a push stays pending.
type Pusher struct {
	Store      *store.Store
	Put        func(ctx context.Context, path string, in, out any) error // sends a request to authquota
	Held       func(ctx context.Context) bool                            // reports whether nothing may be pushed now
	Now        func() time.Time
	Log        *slog.Logger
	Count      func(PushOutcome)
	SetPending func(pending int)

	wake    chan string
	pending int // after the latest Deliver
}

// NewPusher returns a Pusher with the fields of p. Every exported field must be set.
func NewPusher(p Pusher) *Pusher {
	p.wake = make(chan string, 256)
	return &p
}

// Wake requests an immediate push for account. It never blocks: if the queue is full, the next scan
// finds the push.
func (p *Pusher) Wake(account string) {
	select {
	case p.wake <- account:
	default:
	}
}

// Run delivers pushes after each Wake and at each interval until ctx ends. It logs the start and
// the end of an outage once.
func (p *Pusher) Run(ctx context.Context) error {
	for failing, account := false, ""; ; {
		delivered, err := p.Deliver(ctx, account)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			p.Log.ErrorContext(ctx, "entitlement push failing, will retry", "error", err.Error())
			failing = true
		case failing && delivered:
			p.Log.InfoContext(ctx, "entitlement push recovered")
			failing = false
		}
		pause := pushInterval
		if p.pending == 0 && err == nil {
			pause = idleInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case account = <-p.wake:
		case <-time.After(pause):
			account = ""
		}
	}
}

// Deliver pushes what is due for one account or, if account is empty, for all. A failure that
// concerns one account does not stop the others; Deliver returns an error if authquota or the
// database is unavailable. delivered is false if nothing could be tried because every pending push
// is postponed, which says nothing about an outage.
func (p *Pusher) Deliver(ctx context.Context, account string) (delivered bool, err error) {
	// also if a push fails: the metric matters most during an outage
	if err = p.countPending(ctx); err != nil || p.pending == 0 || p.Held(ctx) {
		return err == nil && p.pending == 0, err
	}
	due, err := p.Store.Due(ctx, account, batchSize)
	for _, e := range due {
		if err == nil {
			err = p.push(ctx, e)
		}
	}
	err = errors.Join(err, p.countPending(ctx))
	return err == nil && (len(due) > 0 || p.pending == 0), err
}

func (p *Pusher) countPending(ctx context.Context) error {
	n, err := p.Store.CountPending(ctx)
	if err == nil {
		p.pending = n
		p.SetPending(n)
	}
	return err
}

func (p *Pusher) push(ctx context.Context, e store.Push) error {
	pushCtx, cancel := context.WithTimeout(ctx, pushTimeout)
	err := p.Put(pushCtx, "/internal/v1/entitlements/"+url.PathEscape(e.Account), e.Entitlement, nil)
	cancel()
	log := p.Log.With("account_id", e.Account, "version", e.Entitlement.Version)
	status := new(peer.StatusError)
	switch errors.As(err, &status); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		p.Count(Accepted)
		return p.Store.MarkPushed(ctx, e.Account, e.Entitlement.Version)
	case status.Status == http.StatusNotFound && !e.Entitlement.Live(p.Now()):
		p.Count(UnknownAccount)
		return p.Store.MarkPushed(ctx, e.Account, e.Entitlement.Version) // nothing is paid, so there is nothing to deliver
	case status.Status == http.StatusNotFound:
		p.Count(UnknownAccount)
		if e.Failures == 0 {
			log.WarnContext(ctx, "entitlement push postponed: paid account unknown to authquota")
		}
		return p.Store.Postpone(ctx, e.Account, e.Entitlement.Version, p.Now().Add(unknownAccountRetry))
	}
	p.Count(Failed)
	postponeErr := p.Store.Postpone(ctx, e.Account, e.Entitlement.Version, p.Now().Add(backoff(e.Failures)))
	if unavailable := new(problem.Error); errors.As(err, &unavailable) {
		return errors.Join(err, postponeErr) // the other accounts would fail too
	}
	log.WarnContext(ctx, "entitlement push rejected by authquota, will retry", "attempt", e.Failures+1, "error",
		err.Error())
	return postponeErr
}

// backoff returns the delay after a number of earlier failures: half a second, doubling up to
// maxBackoff.
func backoff(failures int) time.Duration {
	return min(500*time.Millisecond<<min(failures, 8), maxBackoff)
}
