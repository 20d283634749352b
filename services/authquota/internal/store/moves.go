package store

import (
	"context"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/usage"
)

type moveRow struct {
	Day         string `gorm:"primaryKey"`
	FromAccount string `gorm:"primaryKey"`
	ToAccount   string
	MovedAt     *int64
}

func (moveRow) TableName() string { return "usage_moves" }

func toMoves(rows []moveRow) []usage.Move {
	moves := make([]usage.Move, len(rows))
	for i, r := range rows {
		moves[i] = usage.Move{Day: r.Day, From: r.FromAccount, To: r.ToAccount}
	}
	return moves
}

// Moves returns the moves not yet applied in Redis, oldest day first, to one account, or all if to is empty.
func (s *Store) Moves(ctx context.Context, to string) ([]usage.Move, error) {
	var rows []moveRow
	q := s.db.WithContext(ctx).Where("moved_at IS NULL").Order("day, from_account")
	if to != "" {
		q = q.Where("to_account = ?", to)
	}
	err := q.Find(&rows).Error
	return toMoves(rows), database.Outage(err)
}

// DeleteMove deletes a delivered move.
func (s *Store) DeleteMove(ctx context.Context, m usage.Move) error {
	return database.Outage(s.db.WithContext(ctx).Model(&moveRow{}).
		Where("day = ? AND from_account = ? AND moved_at IS NULL", m.Day, m.From).Update("moved_at", database.Micros(s.now())).Error)
}
