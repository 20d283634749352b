package highwater

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

// Redis keeps the mark of a store in Redis.
type Redis struct {
	Store  string
	Client *redis.Client
}

// Marks implements Keeper.
func (k Redis) Marks(ctx context.Context) ([]string, error) {
	text, err := k.Client.Get(ctx, counter.Mark(k.Store)).Result()
	switch {
	case errors.Is(err, redis.Nil), err == nil && text == "":
		return nil, nil
	case err != nil:
		return nil, problem.Unavailable(err)
	}
	return []string{text}, nil
}

// replace stores ARGV[2] for ARGV[3] seconds if the stored mark is ARGV[1] or ARGV[2]. It returns the stored one.
var replace = redis.NewScript(`
local stored = redis.call('GET', KEYS[1]) or ''
if stored == ARGV[1] or stored == ARGV[2] then
  stored = ARGV[2]
  redis.call('SET', KEYS[1], stored, 'EX', ARGV[3])
end
return stored`)

// Replace implements Keeper.
func (k Redis) Replace(ctx context.Context, seen []string, newest string, _ bool) (replaced bool, err error) {
	before := ""
	if len(seen) > 0 {
		before = seen[0]
	}
	stored, err := replace.Run(ctx, k.Client, []string{counter.Mark(k.Store)}, before, newest, int(counter.MarkTTL.Seconds())).Text()
	if err != nil {
		return false, problem.Unavailable(err)
	}
	return stored == newest, nil
}
