// Package merge moves, in Redis, what an account used today to the account that has taken over its keys.
//
// Each call counts once, whatever is lost in between:
//
//   - the move is noted in the transaction that moves the keys, and is struck out only after Redis has it;
//   - in Redis it is one script, which adds the calls, leaves a mark in the hash of the day, and does nothing where it finds the mark.
//     It raises the epoch of the account that was taken over, so that nobody is charged to it afterwards;
//   - the ledger copies the mark in the same transaction as the counts that it belongs to. A day that Redis has lost begins with the
//     ledger's counts after all moves that have no mark there (usage.Moved), and with their marks;
//   - a call that was charged before the move and is given back after it is given back to the account that has it now (refund.lua of
//     the gateway).
//
// The windows of the last minute become one in the same script, so that connecting keys makes no room in it. They are in no ledger: a
// loss of Redis empties them, as it empties all windows.
package merge

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/usage"
)

//go:embed move.lua
var moveSource string

var move = redis.NewScript(moveSource)

// Outbox has the moves that Redis was not told yet.
type Outbox interface {
	// Moves are those to one account or, where it is empty, to all.
	Moves(ctx context.Context, to string) ([]usage.Move, error)
	// MoveDone strikes one out.
	MoveDone(ctx context.Context, m usage.Move) error
}

// Interval is how often moves that are left over are looked for.
const Interval = time.Second

// Merges delivers moves.
type Merges struct {
	redis  *redis.Client
	outbox Outbox
	now    func() time.Time
}

// New makes Merges that deliver from outbox.
func New(client *redis.Client, outbox Outbox, now func() time.Time) *Merges {
	return &Merges{client, outbox, now}
}

// Deliver moves what is owed to an account, or to all where to is empty. When it returns no error, calls count for the account that
// took over, and nobody is charged to the others any more. Its errors are service_unavailable.
func (m *Merges) Deliver(ctx context.Context, to string) error {
	owed, err := m.outbox.Moves(ctx, to)
	if err != nil {
		return err
	}
	for _, next := range owed {
		moved, err := move.Run(ctx, m.redis, []string{
			counter.Epochs, counter.Merged, counter.Day(next.Day), counter.Window(next.From), counter.Window(next.To),
		},
			next.From, next.To, counter.Moved(next.From), int(counter.EpochsTTL.Seconds()), int(counter.DayTTL.Seconds())).Bool()
		if err != nil {
			return problem.Unavailable(err)
		}
		// A day without counters may be getting them from the ledger at this moment, without the move: it is looked at again until
		// the day is over.
		if moved || next.Over(m.now()) {
			if err := m.outbox.MoveDone(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}
