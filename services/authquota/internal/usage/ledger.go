// Package usage copies the daily counters that changed from Redis to the database. If Redis loses its data, the gateways restore the day's
// counters from the ledger, so that no quota can be used twice.
//
// The admission script adds each account that it charges to a set. A copy reads the accounts of that set, saves their counters, and
// then removes those whose counters have not changed since. So a process that stops in between loses nothing, and several may copy
// at the same time.
//
// The ledger stores the greater of both values. A counter in Redis is smaller than its copy after charges were refunded or
// after Redis lost data; the two cases look alike. So the ledger may include refunded requests, but it never loses a copied
// one.
//
// Known limitation: a loss of Redis data also loses the requests counted since the last copy, normally at most one second.
package usage

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

// Interval is the time between copies.
const CopyInterval = 500 * time.Millisecond

//go:embed changed.lua
var changedSource string

//go:embed copied.lua
var copiedSource string

var (
	changed = redis.NewScript(changedSource)
	copied  = redis.NewScript(copiedSource)
)

// DayStore saves the counts of a day that are greater than the stored ones, in one transaction.
type DayStore interface {
	SaveDay(ctx context.Context, day string, counts []Count) error
}

// Ledger copies counters. Copy must not be called concurrently in one process; other processes may copy at the same time.
type Ledger struct {
	redis *redis.Client
	store DayStore
	now   func() time.Time

	settled string       // day whose counters can no longer change
	copied  atomic.Int64 // time of the last successful copy, in microseconds
}

// NewLedger returns a Ledger.
func NewLedger(client *redis.Client, store DayStore, now func() time.Time) *Ledger {
	l := &Ledger{redis: client, store: store, now: now}
	l.copied.Store(now().UnixMicro())
	return l
}

// Copy saves the counters that changed since the last copy: today's and, until they are final, yesterday's. After a failure, saved
// counters may be saved again; none is left out.
func (l *Ledger) Copy(ctx context.Context) error {
	now := l.now()
	today, before, settled := Days(now)
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
	keys := []string{counter.Day(day), counter.Changed(day), counter.Moves(day)}
	for cursor := "0"; ; {
		p, err := l.read(ctx, keys, cursor)
		if err != nil {
			return err
		}
		counts, err := p.counts()
		if err != nil {
			return fmt.Errorf("counters of %s: %w", day, err)
		}
		if len(counts) > 0 {
			if err := l.store.SaveDay(ctx, day, counts); err != nil {
				return err
			}
		}
		if err := l.remove(ctx, keys, p); err != nil {
			return err
		}
		if cursor = p.next; cursor == "0" {
			return nil
		}
	}
}

// page holds counters that the ledger lacks.
type page struct {
	next   string   // cursor of the next page, or "0"
	fields []string // of the day; one may appear twice
	values []string // empty if the day no longer has the field
}

func (p page) counts() ([]Count, error) {
	calls := make(map[string]int, len(p.fields))
	for i, field := range p.fields {
		if p.values[i] == "" {
			continue
		}
		n, err := strconv.Atoi(p.values[i])
		if err != nil {
			return nil, fmt.Errorf("counter of %s is not a number", field)
		}
		calls[field] = n
	}
	return Counts(calls), nil
}

func (l *Ledger) read(ctx context.Context, keys []string, cursor string) (p page, err error) {
	reply, err := changed.Run(ctx, l.redis, keys, cursor, pageSize).Slice()
	if err != nil {
		return p, problem.Unavailable(err)
	}
	p.next, _ = reply[0].(string)
	p.fields, p.values = texts(reply[1]), texts(reply[2])
	return p, nil
}

func texts(reply any) []string {
	list, _ := reply.([]any)
	all := make([]string, len(list))
	for i, text := range list {
		all[i], _ = text.(string)
	}
	return all
}

// remove removes saved counters from the changed ones, unless they changed again.
func (l *Ledger) remove(ctx context.Context, keys []string, p page) error {
	args := make([]any, 0, 2*len(p.fields))
	for i, field := range p.fields {
		args = append(args, field, p.values[i])
	}
	for part := range slices.Chunk(args, 2*pageSize) {
		if err := copied.Run(ctx, l.redis, keys, part...).Err(); err != nil {
			return problem.Unavailable(err)
		}
	}
	return nil
}

// Lag returns the age of the last successful copy.
func (l *Ledger) Lag() time.Duration { return l.now().Sub(time.UnixMicro(l.copied.Load())) }
