package highwater

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

// Redis keeps the mark of a store in Redis.
type Redis struct {
	Store  string
	Client *redis.Client
}

// maxKept limits the length of a kept mark, in bytes.
const maxKept = 2048

// valid reports whether a text has the length and the characters of a mark. Any other text in Redis
// is ignored and overwritten: as a header, it would make each request to the owner fail.
func valid(text string) bool {
	return len(text) <= maxKept && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '.' && r != '_' && r != '-'
	})
}

// Marks implements Keeper.
func (k Redis) Marks(ctx context.Context) ([]string, error) {
	text, err := k.Client.Get(ctx, counter.Mark(k.Store)).Result()
	switch {
	case errors.Is(err, redis.Nil), err == nil && (text == "" || !valid(text)):
		return nil, nil
	case err != nil:
		return nil, problem.Unavailable(err)
	}
	return []string{text}, nil
}

// replace stores ARGV[2] for ARGV[3] seconds if the stored mark is ARGV[1] or ARGV[2]. It returns the
// stored one. A text longer than ARGV[4] bytes or with other characters is none, as for valid.
var replace = redis.NewScript(`
local stored = redis.call('GET', KEYS[1]) or ''
if #stored > tonumber(ARGV[4]) or string.find(stored, '[^%w%._-]') then
  stored = ''
end
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
	stored, err := replace.Run(ctx, k.Client, []string{counter.Mark(k.Store)}, before, newest,
		int(counter.MarkTTL.Seconds()), maxKept).Text()
	if err != nil {
		return false, problem.Unavailable(err)
	}
	return stored == newest, nil
}
