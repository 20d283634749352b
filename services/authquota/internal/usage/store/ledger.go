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

// batch limits the parameters of one statement.
const batch = 1000

// SaveDay stores the counts of a day that are greater than the stored ones, all in one transaction, because a count and the
// marker of a move included in it must not be separated.
func (s *Store) SaveDay(ctx context.Context, day string, counts []usage.Count) error {
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

// Day returns the ledger's counts of a UTC day, including pending moves. It reads the moves last, because a move recorded after
// the counts were read does not change them.
func (s *Store) Day(ctx context.Context, day string) (api.DayUsage, error) {
	var rows []usageRow
	var moves []moveRow
	db := s.db.WithContext(ctx)
	err := errors.Join(db.Find(&rows, "day = ?", day).Error, db.Find(&moves, "day = ?", day).Error)
	counts := api.DayUsage{Day: day, Accounts: make(map[string]int, len(rows))}
	for _, r := range rows {
		if r.AccountID == counter.ServiceField {
			counts.Service = r.Calls
		} else {
			counts.Accounts[r.AccountID] = r.Calls
		}
	}
	usage.Moved(counts.Accounts, toMoves(moves))
	return counts, database.Outage(err)
}
