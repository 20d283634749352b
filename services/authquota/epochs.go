package authquota

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

//go:embed readepoch.lua
var readEpochSource string

//go:embed raiseepoch.lua
var raiseEpochSource string

var (
	readEpoch  = redis.NewScript(readEpochSource)
	raiseEpoch = redis.NewScript(raiseEpochSource)
)

// epochs reads and increments the epochs of accounts, which invalidate cached principals. Redis stores one number per account, its epoch.
// Any change to what the account may do increments it. Gateways cache a principal together with its epoch and compare the two on every
// admission, so a change applies to the next request on every gateway.
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
//
// Redis errors are service_unavailable.
type epochs struct {
	redis *redis.Client
	db    *dbtx.DB
}

// Read returns the epoch of an account. It is never older than the last delivered increment.
func (e epochs) Read(ctx context.Context, id string) (int64, error) {
	epoch, err := e.run(ctx, readEpoch, id).Int64()
	if err != nil {
		return 0, problem.Unavailable(err)
	}
	return epoch, nil
}

// Reachable returns an error if Redis does not reply.
func (e epochs) Reachable(ctx context.Context) error {
	if err := e.redis.Ping(ctx).Err(); err != nil {
		return problem.Unavailable(err)
	}
	return nil
}

// epochInterval is the time between retries of pending increments.
const epochInterval = 200 * time.Millisecond

const epochBatch = 500

// Deliver applies the pending increments of one account, or of all if id is empty, and returns the number that remain. If it
// returns nil for an account, every change committed before the call is in effect.
func (e epochs) Deliver(ctx context.Context, id string) (left int, err error) {
	raises, err := e.db.PendingRaises(ctx, id, epochBatch)
	if err != nil || len(raises) == 0 {
		return 0, err
	}
	delivered := make([]int64, 0, len(raises))
	raised := map[string]bool{}
	for _, r := range raises {
		if !raised[r.Account] {
			if err := e.run(ctx, raiseEpoch, r.Account).Err(); err != nil {
				return len(raises), problem.Unavailable(err)
			}
			raised[r.Account] = true
		}
		delivered = append(delivered, r.ID)
	}
	return 0, e.db.DeleteRaises(ctx, delivered)
}

func (e epochs) run(ctx context.Context, script *redis.Script, id string) *redis.Cmd {
	return script.Run(ctx, e.redis, []string{counter.Epochs}, id, strconv.Itoa(int(counter.EpochsTTL.Seconds())))
}

// effects are the epochs, with the journal and the mark in Redis: a change of what an account may do is acknowledged after all of them, also if
// the request is repeated.
type effects struct {
	epochs

	marks *marks
}

// Deliver makes committed changes of an account take effect, on gateways and for a restored database.
func (e effects) Deliver(ctx context.Context, account string) (left int, err error) {
	if left, err = e.epochs.Deliver(ctx, account); err != nil || account == "" {
		return left, err
	}
	if err = e.marks.db.DeliverPending(ctx); err == nil {
		err = e.marks.guard.Report(ctx, e.marks.redis)
	}
	return left, err
}
