package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

// Counters are the counters themselves, as far as pages show them: to the call, where the copy is behind by up to a second.
type Counters struct{ Redis *redis.Client }

// Used is how many calls were charged to an account on a UTC day. It is as ready to fail as Redis is.
func (c Counters) Used(ctx context.Context, account string, day time.Time) (int, error) {
	calls, err := c.Redis.HGet(ctx, counter.Day(counter.DayOf(day)), account).Int()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, problem.Unavailable(err)
	}
	return calls, nil
}
