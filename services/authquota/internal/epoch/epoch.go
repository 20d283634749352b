// Package epoch invalidates cached principals. Redis stores one number per account, its epoch. Any change to what the account
// may do increments it. Gateways cache a principal together with its epoch and compare the two on every admission, so a change
// applies to the next request on every gateway.
//
// Two rules make this exact:
//
//   - Readers load the epoch before the account. A change in between is already in the account; a later change has a later
//     epoch.
//   - Writers record a pending increment in the same transaction as the change, increment the epoch, then delete the pending
//     record. A background loop retries interrupted increments.
//
// Incrementing twice is harmless: it costs one extra lookup. An empty Redis recovers automatically, because a missing epoch
// never matches.
//
// A Redis that took over from another, or restarted, may have an epoch from before a change: it restored an old snapshot, or was a
// lagging replica. So a gateway trusts no principal that it looked up before it reached that Redis.
package epoch

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/dbtx"
)

//go:embed read.lua
var readSource string

//go:embed raise.lua
var raiseSource string

var (
	read  = redis.NewScript(readSource)
	raise = redis.NewScript(raiseSource)
)

// Epochs reads and increments the epochs of accounts. Redis errors are service_unavailable.
type Epochs struct {
	redis *redis.Client
	db    *dbtx.DB
}

// New returns Epochs that deliver the pending increments of db.
func New(client *redis.Client, db *dbtx.DB) *Epochs { return &Epochs{client, db} }

// Read returns the epoch of an account. It is never older than the last delivered increment.
func (e *Epochs) Read(ctx context.Context, id string) (int64, error) {
	epoch, err := e.run(ctx, read, id).Int64()
	if err != nil {
		return 0, problem.Unavailable(err)
	}
	return epoch, nil
}

// Reachable returns an error if Redis does not reply.
func (e *Epochs) Reachable(ctx context.Context) error {
	if err := e.redis.Ping(ctx).Err(); err != nil {
		return problem.Unavailable(err)
	}
	return nil
}

// Interval is the time between retries of pending increments.
const Interval = 200 * time.Millisecond

const batch = 500

// Deliver applies the pending increments of one account, or of all if id is empty, and returns the number that remain. If it
// returns nil for an account, every change committed before the call is in effect.
func (e *Epochs) Deliver(ctx context.Context, id string) (left int, err error) {
	raises, err := e.db.PendingRaises(ctx, id, batch)
	if err != nil || len(raises) == 0 {
		return 0, err
	}
	delivered := make([]int64, 0, len(raises))
	raised := map[string]bool{}
	for _, r := range raises {
		if !raised[r.Account] {
			if err := e.run(ctx, raise, r.Account).Err(); err != nil {
				return len(raises), problem.Unavailable(err)
			}
			raised[r.Account] = true
		}
		delivered = append(delivered, r.ID)
	}
	return 0, e.db.DeleteRaises(ctx, delivered)
}

func (e *Epochs) run(ctx context.Context, script *redis.Script, id string) *redis.Cmd {
	return script.Run(ctx, e.redis, []string{counter.Epochs}, id, strconv.Itoa(int(counter.EpochsTTL.Seconds())))
}
