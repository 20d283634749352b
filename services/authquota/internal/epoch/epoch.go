// Package epoch keeps the epochs of the accounts in Redis: a number per account that changes with everything that decides what
// its calls may do.
//
// A gateway keeps principals, each with the epoch under which it was resolved, and compares that epoch at every admission. So a
// change is in force on the next call everywhere as soon as the epoch was raised. Two rules make it exact:
//
//   - who resolves a key reads the epoch first and the database after it: what a change between the two adds is seen, what a
//     change after both adds comes with another epoch;
//   - who changes an account notes in the same transaction that the epoch must be raised, raises it, and only then strikes the
//     note out. A note that is left over, because Redis or this process was gone, is delivered by whoever finds it.
//
// Raising twice does no harm beyond one more question to the database. An empty Redis heals itself: a missing epoch equals none.
//
// Known limit: a Redis that comes back with an older state than it had (an old snapshot, a replica that lagged) may show an
// epoch from before a change. A gateway that kept a principal from then believes it until it drops it by age.
package epoch

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

//go:embed read.lua
var readSource string

//go:embed raise.lua
var raiseSource string

var (
	read  = redis.NewScript(readSource)
	raise = redis.NewScript(raiseSource)
)

// Outbox keeps the raises that changes have made necessary.
type Outbox interface {
	// Owed are raises not yet delivered, oldest first, at most limit: those of one account or, where it is empty, of all.
	Owed(ctx context.Context, account string, limit int) ([]account.Raise, error)
	// Delivered strikes raises out.
	Delivered(ctx context.Context, ids []int64) error
}

// Epochs are the epochs of all accounts. Its errors are service_unavailable.
type Epochs struct {
	redis  *redis.Client
	outbox Outbox
}

// New makes Epochs that deliver from outbox.
func New(client *redis.Client, outbox Outbox) *Epochs { return &Epochs{client, outbox} }

// Read is the epoch of an account. It never returns one that the account had before a change that was delivered.
func (e *Epochs) Read(ctx context.Context, id string) (int64, error) {
	epoch, err := e.run(ctx, read, id).Int64()
	if err != nil {
		return 0, problem.Unavailable(err)
	}
	return epoch, nil
}

// Reachable reports whether the counter store answers.
func (e *Epochs) Reachable(ctx context.Context) error {
	if err := e.redis.Ping(ctx).Err(); err != nil {
		return problem.Unavailable(err)
	}
	return nil
}

// Interval is how often raises that are left over are looked for.
const Interval = 200 * time.Millisecond

const batch = 500

// Deliver raises what is owed for one account, or for all where id is empty, and returns how many raises are owed still. When it
// returns no error for an account, everything that was committed for it before the call is in force.
func (e *Epochs) Deliver(ctx context.Context, id string) (owed int, err error) {
	raises, err := e.outbox.Owed(ctx, id, batch)
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
	return 0, e.outbox.Delivered(ctx, delivered)
}

func (e *Epochs) run(ctx context.Context, script *redis.Script, id string) *redis.Cmd {
	return script.Run(ctx, e.redis, []string{counter.Epochs}, id, strconv.Itoa(int(counter.EpochsTTL.Seconds())))
}
