// Package usage moves today's usage of an account to the account that took over its keys.
//
// Each request counts once, whatever fails in between:
//
//   - The move is recorded in the transaction that moves the keys, and deleted only after Redis has applied it.
//   - One Redis script adds the counts and sets a marker in the day's hash. It does nothing if the marker exists. It also
//     increments the epoch of the source account, so that no later request is charged to it.
//   - The ledger copies the marker in the same transaction as the target account's count. A day that Redis has lost is restored from the
//     ledger's counts after all moves without a marker (usage.Moved), and with the markers.
//   - A Redis that took over from another may lack an applied move, with its marker: Redeliver applies the moves of the day again.
//   - A charge made before the move and refunded after it is refunded to the target account (refund.lua of the gateway).
//
// The script also merges the windows of the last minute, so that connecting keys does not free capacity. The ledger does not
// contain windows: a loss of Redis data empties all of them.
package usage

import (
	"context"
	_ "embed"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

//go:embed move.lua
var moveSource string

var move = redis.NewScript(moveSource)

// MoveOutbox stores the moves.
type MoveOutbox interface {
	// Moves returns the pending moves to one account, or all if to is empty.
	Moves(ctx context.Context, to string) ([]Move, error)
	// MovesOn returns all moves of a day, applied in Redis or not.
	MovesOn(ctx context.Context, day string) ([]Move, error)
	// DeleteMove deletes a delivered move from the pending ones.
	DeleteMove(ctx context.Context, m Move) error
}

// Interval is the time between retries of pending moves, and between checks for a new primary.
const MergeInterval = time.Second

// Merges delivers moves.
type Merges struct {
	redis      *redis.Client
	outbox     MoveOutbox
	now        func() time.Time
	newPrimary *atomic.Bool
}

// NewMerges returns Merges that deliver from outbox. newPrimary is set when client has reached another primary; Redeliver resets it.
func NewMerges(client *redis.Client, outbox MoveOutbox, now func() time.Time, newPrimary *atomic.Bool) *Merges {
	return &Merges{client, outbox, now, newPrimary}
}

// Deliver applies the pending moves to one account, or all if to is empty. After it returns nil, usage counts for the target
// account and no request is charged to the source accounts. Redis errors are service_unavailable.
func (m *Merges) Deliver(ctx context.Context, to string) error {
	pending, err := m.outbox.Moves(ctx, to)
	if err != nil {
		return err
	}
	for _, next := range pending {
		moved, err := m.apply(ctx, next)
		if err != nil {
			return err
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

// apply reports whether the counters of the day in Redis include the move, which it applies if they do not.
func (m *Merges) apply(ctx context.Context, next Move) (moved bool, err error) {
	keys := []string{
		counter.Epochs, counter.Merged, counter.Day(next.Day), counter.Window(next.From), counter.Window(next.To), counter.Moves(next.Day),
	}
	moved, err = move.Run(ctx, m.redis, keys,
		next.From, next.To, counter.Moved(next.From), int(counter.EpochsTTL.Seconds()), int(counter.DayTTL.Seconds())).Bool()
	if err != nil {
		return false, problem.Unavailable(err)
	}
	return moved, nil
}

// Redeliver applies all moves of the current days again, once after each change of the primary: a replica that took over may lack moves
// that were delivered. The accounts would get the usage of their connected keys as additional quota.
func (m *Merges) Redeliver(ctx context.Context) error {
	if !m.newPrimary.Swap(false) {
		return nil
	}
	err := m.redeliver(ctx)
	if err != nil {
		m.newPrimary.Store(true)
	}
	return err
}

func (m *Merges) redeliver(ctx context.Context) error {
	now := m.now()
	for _, days := range []int{-1, 0, 1} {
		moves, err := m.outbox.MovesOn(ctx, counter.DayOf(now.AddDate(0, 0, days)))
		if err != nil {
			return err
		}
		for _, next := range moves {
			if next.Over(now) {
				continue
			}
			if _, err := m.apply(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}
