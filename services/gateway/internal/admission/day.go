package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

// Day is a UTC day, counted from 1970-01-01.
type Day int64

func dayOf(t time.Time) Day { return Day(t.Unix() / 86400) }

// Start returns the first instant of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String formats the day as 2026-11-20.
func (d Day) String() string { return counter.DayOf(d.Start()) }

func (d Day) key() string { return counter.Day(d.String()) }

// OpenInterval is the time between calls of OpenNextDay.
const OpenInterval = 10 * time.Second

// openBefore is the time before a day from which on its counters are created.
const openBefore = time.Hour

// OpenNextDay creates the counters of the next UTC day with zeros during the hour before it starts.
// No call can have been charged to a day that has not started, which open.lua checks, so midnight
// needs no other service. After an error, the first call of the day restores them.
func (l *Limiter) OpenNextDay(ctx context.Context) error {
	now := l.clock.own()
	if micros, known := l.clock.now(); known {
		now = time.UnixMicro(micros)
	}
	next := dayOf(now) + 1
	if next.Start().Sub(now) > openBefore {
		return nil
	}
	_, err := l.open(ctx, next, "")
	return err
}

// begin creates the counters of a day that has started without them, because they were deleted or
// the clocks were moved. It reports whether they exist now. It creates them only if this gateway
// decided on a call in the last hour of the day before, and no gateway has charged one since: a
// gateway that has not seen that hour cannot know whether Redis has lost newer charges.
func (l *Limiter) begin(ctx context.Context, day Day) bool {
	decided := time.UnixMicro(l.decided.Load())
	if dayOf(decided) != day-1 || day.Start().Sub(decided) > openBefore {
		return false
	}
	exists, err := l.open(ctx, day, int64(day-1))
	return err == nil && exists
}

// open creates the counters of a day, unless they exist or the day has started with another latest
// day of a charge than charged. It reports whether they exist now.
func (l *Limiter) open(ctx context.Context, day Day, charged any) (exists bool, err error) {
	return l.run(ctx, openScript, []string{day.key(), counter.Clock},
		counter.DayTTL.Milliseconds(), day.Start().UnixMicro(), l.testClock(), counter.ServiceField, charged).Bool()
}

// restoreTimeout limits a restore, which takes up to seconds.
const restoreTimeout = 30 * time.Second

// errRestoring is the error of a call that did not wait for the end of a restore.
var errRestoring = errors.New("counters are being restored from the ledger")

// restore requests the counters of a day that Redis lacks, and waits as long as for one round trip:
// a call that needs a longer restore fails with 503. Concurrent calls share one request, which
// continues when they have returned.
func (l *Limiter) restore(ctx context.Context, day Day) error {
	name := day.String()
	restored := l.restores.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
		defer cancel()
		return nil, l.cfg.Restore(ctx, name)
	})
	err := errRestoring
	select {
	case r := <-restored:
		err = r.Err
	case <-time.After(l.batches.budget):
	}
	if err != nil {
		return problem.Unavailable(fmt.Errorf("restoring counters of %s: %w", name, err))
	}
	return nil
}

// Used returns the used share of today's capacity, as of the latest decision of this process. It is
// 0 if there was none today, so take the maximum of all replicas.
func (l *Limiter) Used() float64 { return l.share(&l.used, l.cfg.Capacity) }

// UsedByBase is like Used, for the part of the capacity that the base tier may use.
func (l *Limiter) UsedByBase() float64 { return l.share(&l.ofBase, l.cfg.BaseCap) }

func (l *Limiter) share(calls *atomic.Int64, of int) float64 {
	used := calls.Load()
	if Day(used>>32) != dayOf(l.cfg.Now()) {
		return 0
	}
	return float64(used&(1<<32-1)) / float64(of)
}
