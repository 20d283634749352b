// Package ledger copies the day's counters from Redis to the database, so that a Redis that loses them gives no allowance twice:
// the gateway seeds a day that Redis does not know from what the ledger has of it.
//
// What is copied is the greater of both values. A counter in Redis is smaller than its copy after calls were given back, or
// after Redis was lost, and from outside the two look alike; so the ledger may count a call that was given back, and it never
// forgets one that it has seen.
//
// Known hole: a loss of Redis forgets the calls since the last copy, which is at most a second old while all is well.
package ledger

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/usage"
)

// Interval is how often the counters are copied.
const Interval = time.Second

// Keeper writes counts of a day where they are greater than what it has.
type Keeper interface {
	Keep(ctx context.Context, day string, counts []usage.Count) error
}

// Ledger copies counters. One goroutine at a time may call Copy.
type Ledger struct {
	redis  *redis.Client
	keeper Keeper
	now    func() time.Time

	written map[string]map[string]int // by day and account: what the database is known to have, at least
	settled string                    // the day that will not change any more
	copied  atomic.Int64              // when the last copy succeeded, in microseconds
}

// New makes a Ledger that has copied nothing yet.
func New(client *redis.Client, keeper Keeper, now func() time.Time) *Ledger {
	l := &Ledger{redis: client, keeper: keeper, now: now, written: map[string]map[string]int{}}
	l.copied.Store(now().UnixMicro())
	return l
}

// Copy writes what has grown since the last copy: today's counters and, until they have settled, those of the day before.
func (l *Ledger) Copy(ctx context.Context) error {
	now := l.now()
	today, before, settled := usage.Days(now)
	for day := range l.written {
		if day != today && day != before {
			delete(l.written, day)
		}
	}
	if l.settled != before {
		if err := l.copyDay(ctx, before); err != nil {
			return err
		}
		if settled {
			l.settled = before
		}
	}
	if err := l.copyDay(ctx, today); err != nil {
		return err
	}
	l.copied.Store(now.UnixMicro())
	return nil
}

func (l *Ledger) copyDay(ctx context.Context, day string) error {
	fields, err := l.redis.HGetAll(ctx, counter.Day(day)).Result()
	if err != nil {
		return problem.Unavailable(err)
	}
	delete(fields, counter.LatestField)
	read := make(map[string]int, len(fields))
	for account, calls := range fields {
		if read[account], err = strconv.Atoi(calls); err != nil {
			return fmt.Errorf("counter of %s on %s is not a number", account, day)
		}
	}
	grown := usage.Growth(l.written[day], read)
	if len(grown) == 0 {
		return nil
	}
	if err := l.keeper.Keep(ctx, day, grown); err != nil {
		return err
	}
	if l.written[day] == nil {
		l.written[day] = map[string]int{}
	}
	for _, count := range grown {
		l.written[day][count.Account] = count.Calls
	}
	return nil
}

// Lag is how old the copy is.
func (l *Ledger) Lag() time.Duration { return l.now().Sub(time.UnixMicro(l.copied.Load())) }
