package usage

import (
	"context"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

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
func MoveUsage(tx *dbtx.Tx, from, to string) error {
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

// DeleteMove deletes a delivered move.
func (s *Store) DeleteMove(ctx context.Context, m Move) error {
	return database.Outage(s.db.WithContext(ctx).Model(&moveRow{}).
		Where("day = ? AND from_account = ? AND moved_at IS NULL", m.Day, m.From).Update("moved_at", database.Micros(s.db.Now())).Error)
}
