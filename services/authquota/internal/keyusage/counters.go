package keyusage

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

// CopyInterval is the time between copies.
const CopyInterval = 500 * time.Millisecond

//go:embed changed.lua
var changedSource string

//go:embed copied.lua
var copiedSource string

var (
	changed = redis.NewScript(changedSource)
	copied  = redis.NewScript(copiedSource)
)

// Counters are the daily counters in Redis, which limits are checked against, with their copy in
// the database: the ledger. If Redis loses its data, Restore brings a day back from the ledger, so
// that no quota can be used twice.
//
// The admission script adds each account that it charges to a set. A copy reads the accounts of
// that set, saves their counters, and then removes those whose counters have not changed since. So
// a process that stops in between loses nothing, and several may copy at the same time.
//
// The ledger stores the greater of both values. A counter in Redis is smaller than its copy after
// charges were refunded or after Redis lost data; the two cases look alike. So the ledger may
// include refunded requests, but it never loses a copied one.
//
// Known limitation: a loss of Redis data also loses the requests counted since the last copy,
// normally at most one second.
type Counters struct {
	redis *redis.Client
	store *Store

	settled string                    // day whose counters can no longer change
	copied  atomic.Pointer[time.Time] // time of the last successful copy
}

// NewCounters returns Counters.
func NewCounters(client *redis.Client, store *Store) *Counters {
	c := &Counters{redis: client, store: store}
	c.copied.Store(new(store.db.Now()))
	return c
}

// Used returns the requests charged to an account on a UTC day. It is exact, while the ledger lags
// by up to a second. It returns an error if Redis is unavailable.
func (c *Counters) Used(ctx context.Context, account string, day time.Time) (int, error) {
	text, err := c.redis.HGet(ctx, counter.Day(counter.DayOf(day)), account).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, problem.Unavailable(err)
	}
	calls, _ := strconv.ParseUint(text, 10, 31) // 0 for what is no count, as in admit.lua until the ledger has replaced it
	return int(calls), nil
}

// Recent returns the requests of an account that count against its limit of 60 seconds now. It
// returns an error if Redis is unavailable.
func (c *Counters) Recent(ctx context.Context, account string) (n int, err error) {
	pipe := c.redis.Pipeline()
	admitted, now := pipe.LRange(ctx, counter.Window(account), 0, -1), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, problem.Unavailable(err)
	}
	since := now.Val().Add(-time.Minute).UnixMicro()
	for _, text := range admitted.Val() {
		if at, err := strconv.ParseInt(text, 10, 64); err == nil && at > since {
			n++
		}
	}
	return n, nil
}

// Copy saves the counters that changed since the last copy: today's and, until they are final,
// yesterday's. After a failure, saved counters may be saved again; none is left out. It must not be
// called concurrently in one process; other processes may copy at the same time.
func (c *Counters) Copy(ctx context.Context) error {
	now := c.store.db.Now()
	today, before, settled := Days(now)
	if c.settled != before {
		if err := c.copyDay(ctx, before); err != nil {
			return err
		}
		if settled {
			c.settled = before
		}
	}
	if err := c.copyDay(ctx, today); err != nil {
		return err
	}
	c.copied.Store(&now)
	return nil
}

func (c *Counters) copyDay(ctx context.Context, day string) error {
	keys := []string{counter.Day(day), counter.Changed(day)}
	for cursor := "0"; ; {
		p, err := c.read(ctx, keys, cursor)
		if err != nil {
			return err
		}
		if counts := p.counts(); len(counts) > 0 {
			if err := c.store.SaveDay(ctx, day, counts); err != nil {
				return err
			}
		}
		if err := c.remove(ctx, keys, p); err != nil {
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

// counts returns the counters. It leaves out values that cannot be one: the ledger has the latest
// before them.
func (p page) counts() []Count {
	calls := make(map[string]int, len(p.fields))
	for i, field := range p.fields {
		if n, err := strconv.ParseUint(p.values[i], 10, 31); err == nil {
			calls[field] = int(n)
		}
	}
	return Counts(calls)
}

func (c *Counters) read(ctx context.Context, keys []string, cursor string) (p page, err error) {
	reply, err := changed.Run(ctx, c.redis, keys, cursor, pageSize).Slice()
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
func (c *Counters) remove(ctx context.Context, keys []string, p page) error {
	args := make([]any, 0, 2*len(p.fields))
	for i, field := range p.fields {
		args = append(args, field, p.values[i])
	}
	for part := range slices.Chunk(args, 2*pageSize) {
		if err := copied.Run(ctx, c.redis, keys, part...).Err(); err != nil {
			return problem.Unavailable(err)
		}
	}
	return nil
}

// Lag returns the age of the last successful copy.
func (c *Counters) Lag() time.Duration { return c.store.db.Now().Sub(*c.copied.Load()) }
