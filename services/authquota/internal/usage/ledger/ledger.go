// Package ledger copies the daily counters from Redis to the database. If Redis loses its data, the gateways restore the day's
// counters from the ledger, so that no quota can be used twice.
//
// The ledger stores the greater of both values. A counter in Redis is smaller than its copy after charges were refunded or
// after Redis lost data; the two cases look alike. So the ledger may include refunded requests, but it never loses a copied
// one.
//
// Known limitation: a loss of Redis data also loses the requests counted since the last copy, normally at most one second.
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

// Interval is the time between copies.
const Interval = time.Second

// Store saves the counts of a day that are greater than the stored ones.
type Store interface {
	SaveDay(ctx context.Context, day string, counts []usage.Count) error
}

// Ledger copies counters. Copy must not be called concurrently.
type Ledger struct {
	redis *redis.Client
	store Store
	now   func() time.Time

	written map[string]map[string]int // by day and account: counts that are at least in the database
	settled string                    // day whose counters can no longer change
	copied  atomic.Int64              // time of the last successful copy, in microseconds
}

// New returns a Ledger.
func New(client *redis.Client, store Store, now func() time.Time) *Ledger {
	l := &Ledger{redis: client, store: store, now: now, written: map[string]map[string]int{}}
	l.copied.Store(now().UnixMicro())
	return l
}

// Copy saves the counters that grew since the last copy: today's and, until they are final, yesterday's.
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
	if err := l.store.SaveDay(ctx, day, grown); err != nil {
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

// Lag returns the age of the last successful copy.
func (l *Ledger) Lag() time.Duration { return l.now().Sub(time.UnixMicro(l.copied.Load())) }
