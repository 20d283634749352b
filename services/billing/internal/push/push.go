// Package entitle tells authquota what accounts have paid for, until it has accepted it.
//
// The whole entitlement is told, with its version. So it does no harm to tell it twice, as happens where the answer was lost, where the
// process ended before it had kept the answer, or where two replicas tell the same: authquota changes something only at a greater
// version than the one it has. What changes while it is being told is owed still.
package entitle

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// Outbox keeps what authquota must be told.
type Outbox interface {
	// Owed is what is due for one account or, where it is empty, for at most limit.
	Owed(ctx context.Context, account string, limit int) ([]Owed, error)
	Pushed(ctx context.Context, account string, version int64) error
	// Defer makes a version due later.
	Defer(ctx context.Context, account string, version int64, at time.Time) error
	Pending(ctx context.Context) (int, error)
}

// Authquota is told.
type Authquota interface {
	Put(ctx context.Context, path string, in, out any) error
}

// Owed is an entitlement that authquota has not accepted yet.
type Owed struct {
	Account     string
	Entitlement api.Entitlement
	Failures    int // attempts in a row
}

// Interval is how often the outbox is looked through for what was left over.
const Interval = time.Second

const (
	batch     = 100
	answer    = 3 * time.Second  // what authquota is given for one
	mostPause = 10 * time.Second // after failures; an outage is no account's fault, and its end is to be noticed soon
	// slowly is for accounts that authquota does not have. They may come with a backup that is restored, or never.
	slowly = time.Hour
)

// Outcome is how an attempt to tell authquota ended.
type Outcome string

const (
	Accepted Outcome = "accepted"
	Unknown  Outcome = "unknown_account"
	Failed   Outcome = "failed"
)

// Outcomes are all of them.
var Outcomes = []Outcome{Accepted, Unknown, Failed}

// Pusher tells authquota.
type Pusher struct {
	Outbox    Outbox
	Authquota Authquota
	Now       func() time.Time
	Log       *slog.Logger
	Count     func(Outcome)
	Gauge     func(pending int)

	wake chan string
}

// New makes a Pusher; its fields are to be filled in.
func New(p Pusher) *Pusher {
	p.wake = make(chan string, 256)
	return &p
}

// Wake has what is owed for an account told at once. It never waits: what it has no room for is found by the next look.
func (p *Pusher) Wake(account string) {
	select {
	case p.wake <- account:
	default:
	}
}

// Run tells what is owed, at once after Wake and each Interval, until ctx ends.
func (p *Pusher) Run(ctx context.Context) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for failing, account := false, ""; ; {
		answered, err := p.Deliver(ctx, account)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing: // once per outage
			p.Log.ErrorContext(ctx, "entitlements cannot be told, trying again", "error", err.Error())
			failing = true
		case failing && answered:
			p.Log.InfoContext(ctx, "entitlements are told again")
			failing = false
		}
		select {
		case <-ctx.Done():
			return nil
		case account = <-p.wake:
		case <-tick.C:
			account = ""
		}
	}
}

// Deliver tells what is owed for one account or, where it is empty, for all. An account at fault holds up no other; where authquota or
// the database is away it fails. answered is false as long as that cannot be told, because all that is owed is put off.
func (p *Pusher) Deliver(ctx context.Context, account string) (answered bool, err error) {
	owed, err := p.Outbox.Owed(ctx, account, batch)
	for _, o := range owed {
		if err == nil {
			err = p.tell(ctx, o)
		}
	}
	pending, pendingErr := p.Outbox.Pending(ctx) // also in an outage: it is then that somebody looks
	if pendingErr == nil {
		p.Gauge(pending)
	}
	err = errors.Join(err, pendingErr)
	return err == nil && (len(owed) > 0 || pending == 0), err
}

func (p *Pusher) tell(ctx context.Context, o Owed) error {
	told, cancel := context.WithTimeout(ctx, answer)
	err := p.Authquota.Put(told, "/internal/v1/entitlements/"+url.PathEscape(o.Account), o.Entitlement, nil)
	cancel()
	status := new(peer.StatusError)
	switch errors.As(err, &status); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		p.Count(Accepted)
		return p.Outbox.Pushed(ctx, o.Account, o.Entitlement.Version)
	case status.Status == http.StatusNotFound && !o.Entitlement.Live(p.Now()):
		p.Count(Unknown)
		return p.Outbox.Pushed(ctx, o.Account, o.Entitlement.Version) // it has nothing there either
	case status.Status == http.StatusNotFound:
		p.Count(Unknown)
		if o.Failures == 0 {
			p.Log.WarnContext(ctx, "authquota does not have an account that has paid", "account", o.Account, "version", o.Entitlement.Version)
		}
		return p.Outbox.Defer(ctx, o.Account, o.Entitlement.Version, p.Now().Add(slowly))
	}
	p.Count(Failed)
	later := p.Outbox.Defer(ctx, o.Account, o.Entitlement.Version, p.Now().Add(pause(o.Failures)))
	if away := new(problem.Error); errors.As(err, &away) {
		return errors.Join(err, later) // nobody else would get through either
	}
	p.Log.WarnContext(ctx, "authquota refuses an entitlement", "account", o.Account, "version", o.Entitlement.Version, "error", err.Error())
	return later
}

// pause is how long to wait after so many failures before: from half a second, doubling.
func pause(failures int) time.Duration {
	return min(500*time.Millisecond<<min(failures, 8), mostPause)
}
