// Package merge moves today's usage of an account to the account that took over its keys.
//
// Each request counts once, whatever fails in between:
//
//   - The move is recorded in the transaction that moves the keys, and deleted only after Redis has applied it.
//   - One Redis script adds the counts and sets a marker in the day's hash. It does nothing if the marker exists. It also
//     increments the epoch of the source account, so that no later request is charged to it.
//   - The ledger copies the marker in the same transaction as the counts. A day that Redis has lost is restored from the
//     ledger's counts after all moves without a marker (usage.Moved), and with the markers.
//   - A charge made before the move and refunded after it is refunded to the target account (refund.lua of the gateway).
//
// The script also merges the windows of the last minute, so that connecting keys does not free capacity. The ledger does not
// contain windows: a loss of Redis data empties all of them.
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

// Outbox stores the moves that Redis has not applied yet.
type Outbox interface {
	// Moves returns the pending moves to one account, or all if to is empty.
	Moves(ctx context.Context, to string) ([]usage.Move, error)
	// MoveDone deletes a delivered move.
	DeleteMove(ctx context.Context, m usage.Move) error
}

// Interval is the time between retries of pending moves.
const Interval = time.Second

// Merges delivers moves.
type Merges struct {
	redis  *redis.Client
	outbox Outbox
	now    func() time.Time
}

// New returns Merges that deliver from outbox.
func New(client *redis.Client, outbox Outbox, now func() time.Time) *Merges {
	return &Merges{client, outbox, now}
}

// Deliver applies the pending moves to one account, or all if to is empty. After it returns nil, usage counts for the target
// account and no request is charged to the source accounts. Redis errors are service_unavailable.
func (m *Merges) Deliver(ctx context.Context, to string) error {
	pending, err := m.outbox.Moves(ctx, to)
	if err != nil {
		return err
	}
	for _, next := range pending {
		moved, err := move.Run(ctx, m.redis, []string{
			counter.Epochs, counter.Merged, counter.Day(next.Day), counter.Window(next.From), counter.Window(next.To),
		},
			next.From, next.To, counter.Moved(next.From), int(counter.EpochsTTL.Seconds()), int(counter.DayTTL.Seconds())).Bool()
		if err != nil {
			return problem.Unavailable(err)
		}
		// A missing day may be in the middle of being restored from the ledger without the move, so the move stays pending
		// until the day is over.
		if moved || next.Over(m.now()) {
			if err := m.outbox.DeleteMove(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}
