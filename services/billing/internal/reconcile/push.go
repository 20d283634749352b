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
	Interval = 5 * time.Second // between scans of the outbox, which find what another replica left
	Retry    = time.Second     // to the next push after an outage
)

const (
	batchSize   = 100
	pushTimeout = 3 * time.Second
	// rejectedRetry is for an account whose entitlement authquota rejects.
	rejectedRetry = 10 * time.Second
	// unknownAccountRetry is for accounts that authquota does not have. They may reappear when a
	// backup is restored, or never.
	unknownAccountRetry = time.Hour
)

// Outcomes of one push, as counted in metrics.
const (
	Accepted       = "accepted"
	UnknownAccount = "unknown_account"
	Failed         = "failed"
)

// PushOutcomes lists all outcomes.
var PushOutcomes = []string{Accepted, UnknownAccount, Failed}

// Pusher delivers entitlements to authquota. The store is the outbox: it keeps every change until
// authquota has acknowledged it.
//
// Each push carries the whole entitlement and its version, and authquota ignores versions that are
// not greater than its own. Delivering twice is therefore harmless, whether because a reply was
// lost, the process stopped before recording it, or two replicas pushed at once. A change made
// during a push stays pending.
type Pusher struct {
	Store      *store.Store
	Put        func(ctx context.Context, path string, in, out any) error // sends a request to authquota
	Now        func() time.Time
	Log        *slog.Logger
	Count      func(outcome string)
	SetPending func(pending float64)
}

// Deliver pushes what is due. A failure that concerns one account does not stop the others; Deliver
// returns an error if authquota or the database is unavailable.
func (p *Pusher) Deliver(ctx context.Context) error {
	var err error
	for more := true; more && err == nil; {
		var due []store.Push
		due, err = p.Store.Due(ctx, batchSize)
		for _, e := range due {
			if err == nil {
				err = p.push(ctx, e)
			}
		}
		more = len(due) == batchSize
	}
	pending, countErr := p.Store.CountPending(ctx) // also after an error: the metric matters most during an outage
	if countErr == nil {
		p.SetPending(float64(pending))
	}
	return errors.Join(err, countErr)
}

func (p *Pusher) push(ctx context.Context, e store.Push) error {
	pushCtx, cancel := context.WithTimeout(ctx, pushTimeout)
	err := p.Put(pushCtx, "/internal/v1/entitlements/"+url.PathEscape(e.Account), e.Entitlement, nil)
	cancel()
	postpone := func(by time.Duration) error {
		return p.Store.Postpone(ctx, e.Account, e.Entitlement.Version, p.Now().Add(by))
	}
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
		log.WarnContext(ctx, "entitlement push postponed: paid account unknown to authquota")
		return postpone(unknownAccountRetry)
	}
	p.Count(Failed)
	if unavailable := new(problem.Error); errors.As(err, &unavailable) {
		// The others would fail too. They are first the next time, in case it is about this account.
		return errors.Join(err, postpone(Retry))
	}
	log.WarnContext(ctx, "entitlement push rejected by authquota, will retry", "error", err.Error())
	return postpone(rejectedRetry)
}
