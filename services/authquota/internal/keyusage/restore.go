package keyusage

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

//go:embed claim.lua
var claimSource string

//go:embed fill.lua
var fillSource string

//go:embed finish.lua
var finishSource string

var (
	claim  = redis.NewScript(claimSource)
	fill   = redis.NewScript(fillSource)
	finish = redis.NewScript(finishSource)

	release = redis.NewScript("if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1")
)

const (
	pageSize = 500             // counters of one command: about 1 ms of Redis' time
	attempts = 3               // for each page
	lease    = 2 * time.Second // between two pages; after it another process may start over
	busyWait = 50 * time.Millisecond
)

// errInterrupted means that Redis lost the restored counters, or that another process claimed the
// restore.
var errInterrupted = errors.New("restore of counters interrupted")

// Restore returns nil once the day has counters in Redis: it restores them if they are missing, or
// waits while another process does. Errors of Redis are service_unavailable.
//
// The counters are collected, page by page, under a key of their own, and become those of the day
// in one step when they are complete. So no request is admitted on a part of them. Redis holds the
// lease of the one process that restores. Each page checks the lease and the number of counters
// before it: if Redis loses its data again, or a failover loses some pages, the restore starts over
// with what the ledger has then.
func (c *Counters) Restore(ctx context.Context, day string) error {
	for {
		token := uuid.NewString()
		claimed, err := claim.Run(ctx, c.redis, []string{counter.Day(day), counter.Restore(day), counter.Restorer(day)},
			token, lease.Milliseconds()).Text()
		if err != nil {
			return problem.Unavailable(err)
		}
		switch claimed {
		case "exists":
			return nil
		case "claimed":
			if err := c.fill(ctx, day, token); !errors.Is(err, errInterrupted) {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return problem.Unavailable(ctx.Err())
		case <-time.After(busyWait):
		}
	}
}

func (c *Counters) fill(ctx context.Context, day, token string) (err error) {
	keys := []string{counter.Restore(day), counter.Restorer(day)}
	defer func() {
		if err != nil {
			_ = release.Run(context.WithoutCancel(ctx), c.redis, keys[1:], token).Err() // otherwise the lease expires
		}
	}()
	restored := 0
	err = c.store.EachPage(ctx, day, pageSize, func(counts []Count) error {
		args := make([]any, 0, 4+2*len(counts))
		args = append(args, token, lease.Milliseconds(), counter.DayTTL.Milliseconds(), restored)
		for _, count := range counts {
			args = append(args, count.Account, count.Calls)
		}
		restored += len(counts)
		return c.step(ctx, fill, keys, args...)
	})
	if err != nil {
		return err
	}
	moves, err := c.store.MovesOn(ctx, day) // after the counts, which may include any of them
	if err != nil {
		return err
	}
	args := []any{token, restored, counter.ServiceField, counter.DayTTL.Milliseconds()}
	for _, m := range moves {
		args = append(args, m.From)
	}
	return c.step(ctx, finish, []string{counter.Day(day), keys[0], keys[1]}, args...)
}

// step runs a script that returns 0 if the restore was interrupted. It repeats a command that timed
// out: each has its effect once.
func (c *Counters) step(ctx context.Context, script *redis.Script, keys []string, args ...any) error {
	ok, err := script.Run(ctx, c.redis, keys, args...).Bool()
	for n := 1; err != nil && ctx.Err() == nil && n < attempts; n++ {
		ok, err = script.Run(ctx, c.redis, keys, args...).Bool()
	}
	if err != nil {
		return problem.Unavailable(err)
	}
	if !ok {
		return errInterrupted
	}
	return nil
}
