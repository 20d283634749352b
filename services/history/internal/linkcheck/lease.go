package linkcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

const (
	leaseTTL      = 2 * time.Minute
	renewInterval = 20 * time.Second
)

// ErrBusy is the error of a run while another run holds the lease.
var ErrBusy = errors.New("another run is in progress")

var errLostLease = errors.New("lease of the run was lost")

// Once makes one run. It returns ErrBusy if another run is in progress. When ctx ends it stops
// early and returns an error with the cause of ctx.
func (c *Checker) Once(ctx context.Context, store Store) (Report, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Report{}, err
	}
	run := id.String()
	until := c.now().Add(leaseTTL)
	ok, err := store.Acquire(ctx, run, c.now(), until)
	if err != nil {
		return Report{}, err
	}
	if !ok {
		return Report{}, ErrBusy
	}
	hard, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	renewed := make(chan struct{})
	running, end := context.WithCancel(hard)
	go func() {
		defer close(renewed)
		c.renewLease(running, store, run, until, abort)
	}()
	// When ctx ends, requests in flight get the time drain to finish.
	stopDrain := context.AfterFunc(ctx, func() {
		if sleep(running, drain) {
			abort(context.Cause(ctx))
		}
	})
	report, err := c.Run(ctx, hard, run, store)
	stopDrain()
	end()
	<-renewed
	if err != nil {
		err = fmt.Errorf("run stopped early: %w", err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return report, errors.Join(err, store.End(last, run, c.now(), report.Duration, err == nil &&
		report.Unresolved == 0))
}

// renewLease renews the lease until ctx ends. If renewal keeps failing, it aborts the run before
// another run can take the lease.
func (c *Checker) renewLease(ctx context.Context, lease Store, run string, until time.Time, abort func(error)) {
	for sleep(ctx, renewInterval) {
		limited, cancel := context.WithTimeout(ctx, renewInterval)
		next := c.now().Add(leaseTTL)
		ok, err := lease.Renew(limited, run, next)
		cancel()
		switch {
		case err == nil && ok:
			until = next
		case err == nil:
			abort(errLostLease)
			return
		case ctx.Err() == nil && c.now().Add(2*renewInterval).After(until):
			abort(fmt.Errorf("%w: %w", errLostLease, err))
			return
		}
	}
}
