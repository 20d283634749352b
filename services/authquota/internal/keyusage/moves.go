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

// Move assigns the usage of one account on one day to another, which took over its keys. No further
// requests are charged to From.
type Move struct{ Day, From, To string }

// movesOf returns the moves for a takeover at now: for today, and for the adjacent day near
// midnight, because the clock of Redis may differ.
func movesOf(from, to string, now time.Time) []moveRow {
	day, before, settled := Days(now)
	moves := []moveRow{{Day: day, FromAccount: from, ToAccount: to}}
	if !settled {
		moves = append(moves, moveRow{Day: before, FromAccount: from, ToAccount: to})
	}
	if after := counter.DayOf(now.Add(FinalAfter)); after != day {
		moves = append(moves, moveRow{Day: after, FromAccount: from, ToAccount: to})
	}
	return moves
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

// MoveUsage assigns the usage of one account's keys to another, in the transaction that moves the
// keys. Their rows are locked, so no batch adds to the old account concurrently. The ledger has the
// sum at once; Redis applies the move of today's requests later. The ledger's counts of the old
// account stay and may still grow: a restore leaves them out.
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
	for _, m := range movesOf(from, to, tx.Now) {
		if err == nil {
			err = tx.Create(&m).Error
		}
		if err == nil {
			err = tx.Exec(`INSERT INTO usage_days (day, account_id, calls)
				SELECT day, ?, calls FROM usage_days WHERE day = ? AND account_id = ?
				ON CONFLICT (day, account_id) DO UPDATE SET calls = usage_days.calls + excluded.calls`, to, m.Day, from).Error
		}
	}
	return err
}

// Moves returns the moves not yet applied in Redis, oldest day first, to one account, or all if to
// is empty.
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

//go:embed move.lua
var moveSource string

var move = redis.NewScript(moveSource)

// MoveInterval is the time between calls of DeliverMoves for all accounts.
const MoveInterval = time.Second

// DeliverMoves applies the pending moves to one account in Redis, or all if to is empty. After it
// returns nil, usage counts for the target account and no request is charged to the source
// accounts. Redis errors are service_unavailable.
//
// Without a fault the sum is exact, and no fault charges a request twice: one script moves the
// counts and increments the epoch of the source account, and finds nothing to move when it runs
// again. A restore of a day that Redis lost leaves out the source account, because the ledger's
// counts of the target include its counts as of the merge. So a fault may lose what a merge moved,
// and the account may make as many requests again that day:
//
//   - a failover to a replica that lacks an applied move loses all of it;
//   - a loss of Redis within a second of the merge loses the requests that were not yet copied.
//
// The script also merges the windows of the last minute, so that connecting keys does not free
// capacity. The ledger does not contain windows: a loss of Redis data empties all of them.
func (c *Counters) DeliverMoves(ctx context.Context, to string) error {
	pending, err := c.store.Moves(ctx, to)
	if err != nil {
		return err
	}
	for _, m := range pending {
		keys := []string{
			counter.Epochs, counter.Merged, counter.Day(m.Day), counter.Window(m.From), counter.Window(m.To), counter.Changed(m.Day),
		}
		err := move.Run(ctx, c.redis, keys, m.From, m.To, int(counter.EpochsTTL.Seconds()), int(counter.DayTTL.Seconds())).Err()
		if err != nil {
			return problem.Unavailable(err)
		}
		err = c.store.db.WithContext(ctx).Model(&moveRow{}).Where("day = ? AND from_account = ? AND moved_at IS NULL", m.Day, m.From).
			Update("moved_at", database.Micros(c.store.db.Now())).Error
		if err != nil {
			return database.Outage(err)
		}
	}
	return nil
}
