package linkcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/store"
)

const (
	leaseTTL      = 2 * time.Minute
	renewInterval = 20 * time.Second
	drain         = 25 * time.Second // for requests in flight when a run is stopped
)

// ErrBusy is the error of a run while another run holds the lease.
var ErrBusy = errors.New("another run is in progress")

var errLostLease = errors.New("lease of the run was lost")

// Once makes one run: it checks every due link and records the outcome, and reads every due page.
// It returns ErrBusy if another run is in progress. When ctx ends it starts no more checks and
// returns after those in progress are recorded, with the cause of ctx. The report is valid even
// with an error.
func (c *Checker) Once(ctx context.Context, s *store.Store) (Report, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Report{}, err
	}
	until := c.now().Add(leaseTTL)
	ok, err := s.AcquireRun(ctx, id.String(), c.now(), until)
	if err == nil && !ok {
		err = ErrBusy
	}
	if err != nil {
		return Report{}, err
	}
	hard, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	soft, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &run{Checker: c, id: id.String(), store: s, ctx: soft, hard: hard,
		report: Report{Outcomes: map[api.Outcome]int{}}}
	r.fail = func(err error) { stop(err); abort(err) }
	running, end := context.WithCancel(hard)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		r.renewLease(running, until)
	}()
	stopDrain := context.AfterFunc(ctx, func() {
		if sleep(running, drain) {
			r.fail(context.Cause(ctx))
		}
	})
	started := c.now()
	if err = r.all(started); err == nil {
		err = context.Cause(hard) // takes precedence: the cause of soft may be a query that hard aborted
	}
	if err == nil {
		err = context.Cause(soft)
	}
	stopDrain()
	end()
	<-renewed
	if err != nil {
		err = fmt.Errorf("run stopped early: %w", err)
	}
	r.report.Duration = c.now().Sub(started)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return r.report, errors.Join(err, s.EndRun(last, r.id, c.now(), r.report.Duration, err == nil &&
		r.report.Unresolved == 0))
}

// renewLease renews the lease until ctx ends. If renewal keeps failing, it aborts the run before
// another run can take the lease.
func (r *run) renewLease(ctx context.Context, until time.Time) {
	for sleep(ctx, renewInterval) {
		limited, cancel := context.WithTimeout(ctx, renewInterval)
		next := r.now().Add(leaseTTL)
		ok, err := r.store.RenewRun(limited, r.id, next)
		cancel()
		switch {
		case err == nil && ok:
			until = next
		case err == nil:
			r.fail(errLostLease)
			return
		case ctx.Err() == nil && r.now().Add(2*renewInterval).After(until):
			r.fail(fmt.Errorf("%w: %w", errLostLease, err))
			return
		}
	}
}
