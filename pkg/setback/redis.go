package setback

import (
	"context"
	_ "embed" // the script
	"slices"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

//go:embed replace.lua
var replaceSource string

var replace = redis.NewScript(replaceSource)

// Replace replaces a mark in a hash if the stored one is verified, "" for none; newest is "" to
// keep it. mode and epochs are the arguments of replace.lua from 5 on. It returns the stored mark
// before, of at most 100 bytes. Errors are problem.Unavailable.
func Replace(ctx context.Context, client *redis.Client, hash, field, verified, newest, mode string,
	epochs ...any) (stored string, err error) {
	args := append([]any{field, verified, newest, int(counter.EpochsTTL.Seconds()), mode}, epochs...)
	if stored, err = replace.Run(ctx, client, []string{hash}, args...).Text(); err != nil {
		return "", problem.Unavailable(err)
	}
	return stored, nil
}

// Memory is the memory of a gateway for the mark of one store. It is a keeper, and keeps a copy in
// Redis for gateways that start later.
type Memory struct {
	Store string
	Redis *redis.Client
	// Verify presents marks to the owner of the store, and returns its newest one.
	Verify func(ctx context.Context, seen []string) (newest string, err error)

	seen string
}

// Exchange presents the marks in memory and in Redis to the owner, and stores the newest one in
// both. stored is the mark in Redis, empty if there is none. If Redis did not reply, reachable is
// false, and nothing is stored there. Call it every second. If the owner does not verify the marks,
// because it is unavailable or set back, both stay, and a Redis that lost its data gets the one in
// memory.
func (m *Memory) Exchange(ctx context.Context, stored string, reachable bool) error {
	seen := slices.DeleteFunc(slices.Compact([]string{m.seen, stored}),
		func(text string) bool { _, ok := Parse(text); return !ok })
	newest, err := m.Verify(ctx, seen)
	if _, ok := Parse(newest); err == nil && ok {
		m.seen = newest
	}
	if m.seen == "" || m.seen == stored || !reachable {
		return err
	}
	if _, ok := Parse(stored); ok && err != nil { // not verified
		return err
	}
	if len(stored) > 100 { // as replace.lua reads it
		stored = ""
	}
	_, _ = Replace(ctx, m.Redis, counter.Marks, m.Store, stored, m.seen, "") // requests report an outage of Redis
	return err
}
