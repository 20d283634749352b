package keyusage

import (
	"context"
	_ "embed" // the script
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Move assigns the usage of one account on one day to another, which took over its keys. No further requests are charged to
// From.
type Move struct{ Day, From, To string }

// Moves returns the moves for a takeover at now: for today, and for the adjacent day near midnight, because the clock of Redis
// may differ.
func Moves(from, to string, now time.Time) []Move {
	day, before, settled := Days(now)
	moves := []Move{{day, from, to}}
	if !settled {
		moves = append(moves, Move{before, from, to})
	}
	if after := counter.DayOf(now.Add(FinalAfter)); after != day {
		moves = append(moves, Move{after, from, to})
	}
	return moves
}

// Moved returns the counts with which to restore a day that Redis has lost: the ledger's counts after the moves of that day.
//
// The marker of a move is stored like a count, in the same transaction as the counts it belongs to. If the ledger has the
// marker, its counts already include the move. If not, Moved applies it. Either way each request counts once.
func Moved(counts map[string]int, moves []Move) map[string]int {
	for _, m := range moves {
		mark := counter.Moved(m.From)
		if counts[mark] == 0 {
			counts[m.To] += counts[m.From]
		}
		delete(counts, m.From)
		counts[mark] = 1
	}
	return counts
}

// Over reports whether the counters of the move's day can no longer change.
func (m Move) Over(now time.Time) bool {
	today, before, settled := Days(now)
	return m.Day < before || m.Day < today && settled
}

type moveRow struct {
	Day         string `gorm:"primaryKey"`
	FromAccount string `gorm:"primaryKey"`
	ToAccount   string
	MovedAt     *int64
}

func (moveRow) TableName() string { return "usage_moves" }

func toMoves(rows []moveRow) []Move {
	moves := make([]Move, len(rows))
	for i, r := range rows {
		moves[i] = Move{Day: r.Day, From: r.FromAccount, To: r.ToAccount}
	}
	return moves
}

// MoveUsage assigns the usage of one account's keys to another, in the transaction that moves the keys. Their rows are locked, so no
// batch adds to the old account concurrently. Redis applies the move of today's requests later.
func MoveUsage(tx *accountdb.Tx, from, to string) error {
	err := tx.Model(&keyUsageRow{}).Where("account_id = ?", from).Update("account_id", to).Error
	if err == nil {
		err = tx.Exec(`INSERT INTO usage_outcomes (account_id, day, outcome, calls)
			SELECT ?, day, outcome, calls FROM usage_outcomes WHERE account_id = ? ORDER BY day, outcome
			ON CONFLICT (account_id, day, outcome) DO UPDATE SET calls = usage_outcomes.calls + excluded.calls`, to, from).Error
	}
	if err == nil {
		err = tx.Where("account_id = ?", from).Delete(&outcomeRow{}).Error
	}
	for _, m := range Moves(from, to, tx.Now) {
		if err == nil {
			err = tx.Create(&moveRow{Day: m.Day, FromAccount: m.From, ToAccount: m.To}).Error
		}
	}
	return err
}

// Moves returns the moves not yet applied in Redis, oldest day first, to one account, or all if to is empty.
func (s *Store) Moves(ctx context.Context, to string) ([]Move, error) {
	var rows []moveRow
	q := s.db.WithContext(ctx).Where("moved_at IS NULL").Order("day, from_account")
	if to != "" {
		q = q.Where("to_account = ?", to)
	}
	err := q.Find(&rows).Error
	return toMoves(rows), database.Outage(err)
}

// MovesOn returns all moves of a day, applied in Redis or not.
func (s *Store) MovesOn(ctx context.Context, day string) ([]Move, error) {
	var rows []moveRow
	err := s.db.WithContext(ctx).Find(&rows, "day = ?", day).Error
	return toMoves(rows), database.Outage(err)
}

// deleteMove deletes a delivered move from the pending ones.
func (s *Store) deleteMove(ctx context.Context, m Move) error {
	return database.Outage(s.db.WithContext(ctx).Model(&moveRow{}).
		Where("day = ? AND from_account = ? AND moved_at IS NULL", m.Day, m.From).Update("moved_at", database.Micros(s.db.Now())).Error)
}

// reopenMoves makes all moves of the days whose counters can change pending again.
func (s *Store) reopenMoves(ctx context.Context) error {
	first, before, settled := Days(s.db.Now())
	if !settled {
		first = before
	}
	return database.Outage(s.db.WithContext(ctx).Model(&moveRow{}).Where("day >= ?", first).Update("moved_at", nil).Error)
}

//go:embed move.lua
var moveSource string

var move = redis.NewScript(moveSource)

// MoveInterval is the time between calls of DeliverMoves for all accounts, which notice a new primary.
const MoveInterval = time.Second

// DeliverMoves applies the pending moves to one account in Redis, or all if to is empty. After it returns nil, usage counts for the target
// account and no request is charged to the source accounts. Redis errors are service_unavailable.
//
// Each request counts once, whatever fails in between:
//
//   - The move is recorded in the transaction that moves the keys, and pending until Redis has applied it.
//   - One Redis script adds the counts and sets a marker in the day's hash. It does nothing if the marker exists. It also
//     increments the epoch of the source account, so that no later request is charged to it.
//   - The ledger copies the marker in the same transaction as the target account's count. A day that Redis has lost is restored from the
//     ledger's counts after all moves without a marker (Moved), and with the markers.
//   - A Redis that took over from another may lack an applied move, with its marker. So the moves of the day are pending again.
//   - A charge made before the move and refunded after it is refunded to the target account (refund.lua of the gateway).
//
// The script also merges the windows of the last minute, so that connecting keys does not free capacity. The ledger does not
// contain windows: a loss of Redis data empties all of them.
func (c *Counters) DeliverMoves(ctx context.Context, to string) error {
	if c.newPrimary.Swap(false) {
		if err := c.store.reopenMoves(ctx); err != nil {
			c.newPrimary.Store(true)
			return err
		}
	}
	pending, err := c.store.Moves(ctx, to)
	if err != nil {
		return err
	}
	for _, next := range pending {
		moved, err := c.apply(ctx, next)
		if err != nil {
			return err
		}
		// A missing day may be in the middle of being restored from the ledger without the move, so the move stays pending
		// until the day is over.
		if moved || next.Over(c.store.db.Now()) {
			if err := c.store.deleteMove(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply reports whether the counters of the day in Redis include the move, which it applies if they do not.
func (c *Counters) apply(ctx context.Context, next Move) (moved bool, err error) {
	keys := []string{
		counter.Epochs, counter.Merged, counter.Day(next.Day), counter.Window(next.From), counter.Window(next.To), counter.Moves(next.Day),
	}
	moved, err = move.Run(ctx, c.redis, keys,
		next.From, next.To, counter.Moved(next.From), int(counter.EpochsTTL.Seconds()), int(counter.DayTTL.Seconds())).Bool()
	if err != nil {
		return false, problem.Unavailable(err)
	}
	return moved, nil
}
