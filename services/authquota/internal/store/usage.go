package store

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/usage"
)

type usageRow struct {
	Day       string `gorm:"primaryKey"`
	AccountID string `gorm:"primaryKey"`
	Calls     int
}

func (usageRow) TableName() string { return "usage_days" }

// batch bounds the parameters of one statement.
const batch = 1000

// Keep writes counts of a day to the ledger where they are greater than what it has: all of them or none, because a count and the
// mark of a move that is in it belong together.
func (s *Store) Keep(ctx context.Context, day string, counts []usage.Count) error {
	rows := make([]usageRow, len(counts))
	for i, c := range counts {
		rows[i] = usageRow{day, c.Account, c.Calls}
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "day"}, {Name: "account_id"}},
			DoUpdates: clause.AssignmentColumns([]string{"calls"}),
			Where:     clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "excluded.calls > usage_days.calls"}}},
		}).CreateInBatches(rows, batch).Error
	}))
}

// Day is what the ledger has of a UTC day, after the moves of that day. The moves are read last: one that comes between the two makes
// no difference to counts that were read before it.
func (s *Store) Day(ctx context.Context, day string) (api.DayUsage, error) {
	var rows []usageRow
	var moves []moveRow
	db := s.db.WithContext(ctx)
	err := errors.Join(db.Find(&rows, "day = ?", day).Error, db.Find(&moves, "day = ?", day).Error)
	kept := api.DayUsage{Day: day, Accounts: make(map[string]int, len(rows))}
	for _, r := range rows {
		if r.AccountID == counter.ServiceField {
			kept.Service = r.Calls
		} else {
			kept.Accounts[r.AccountID] = r.Calls
		}
	}
	usage.Moved(kept.Accounts, toMoves(moves))
	return kept, database.Outage(err)
}
