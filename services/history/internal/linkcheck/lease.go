package linkcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Lease keeps runs apart: of all replicas, one at a time makes one. Its clock is that of the callers; they may differ by less
// than leaseFor.
type Lease interface {
	// Acquire takes the lease for run until an instant, unless another run holds it at now.
	Acquire(ctx context.Context, run string, now, until time.Time) (ours bool, err error)
	// Renew holds it longer; ours is false where it was lost.
	Renew(ctx context.Context, run string, until time.Time) (ours bool, err error)
	// End gives the lease back and remembers how the run went; complete is false where something that was due is left.
	End(ctx context.Context, run string, now time.Time, took time.Duration, complete bool) error
}

// Store is all that a run needs.
type Store interface {
	Links
	Lease
}

const (
	// leaseFor is how long after its last sign of life a run counts as dead.
	leaseFor = 2 * time.Minute
	// renewEvery is how often it gives one.
	renewEvery = 20 * time.Second
)

// ErrBusy says that another run is going on.
var ErrBusy = errors.New("another run is going on")

var errLostLease = errors.New("the lease of the run was lost")

// Once makes one run if no other is going on, and otherwise returns ErrBusy. It ends early with the cause of ctx.
func (c *Checker) Once(ctx context.Context, store Store) (Report, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Report{}, err
	}
	run := id.String()
	until := c.now().Add(leaseFor)
	ours, err := store.Acquire(ctx, run, c.now(), until)
	if err != nil {
		return Report{}, err
	}
	if !ours {
		return Report{}, ErrBusy
	}
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	renewing := make(chan struct{})
	over, end := context.WithCancel(hard)
	go func() {
		defer close(renewing)
		c.keep(over, store, run, until, cut)
	}()
	// What is under way when ctx ends has its time to come to an end.
	stopDrain := context.AfterFunc(ctx, func() {
		if sleep(over, drain) {
			cut(context.Cause(ctx))
		}
	})
	report, err := c.Run(ctx, hard, run, store)
	stopDrain()
	end()
	<-renewing
	if err != nil {
		err = fmt.Errorf("stopped before the end: %w", err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return report, errors.Join(err, store.End(last, run, c.now(), report.Took, err == nil))
}

// keep renews the lease until ctx ends. A run that cannot renew it in time is cut before anybody else can take it.
func (c *Checker) keep(ctx context.Context, lease Lease, run string, until time.Time, cut func(error)) {
	for sleep(ctx, renewEvery) {
		asking, cancel := context.WithTimeout(ctx, renewEvery)
		next := c.now().Add(leaseFor)
		ours, err := lease.Renew(asking, run, next)
		cancel()
		switch {
		case err == nil && ours:
			until = next
		case err == nil:
			cut(errLostLease)
			return
		case ctx.Err() == nil && c.now().Add(2*renewEvery).After(until):
			cut(fmt.Errorf("%w: %w", errLostLease, err))
			return
		}
	}
}
