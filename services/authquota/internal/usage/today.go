package usage

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

// Counters reads the live counters for the account pages. They are exact, while the ledger lags by up to a second.
type Counters struct{ Redis *redis.Client }

// Used returns the requests charged to an account on a UTC day. It returns an error if Redis is unavailable.
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
