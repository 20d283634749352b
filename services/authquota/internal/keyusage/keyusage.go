// Package keyusage counts the requests of accounts.
//
// Counters are those in Redis, which limits are checked against, with their copy in the database,
// the ledger. A Move assigns the usage of an account to the one that it was merged into. A Batch of
// a gateway adds the outcomes of requests by key (KeySum). Pages and reports show sums of them
// (Bar, Figures, Chart). The request log has the latest single requests.
package keyusage

import (
	"context"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// ValidDay reports whether s is a day as counter.DayOf formats it.
func ValidDay(s string) bool {
	t, err := time.Parse(time.DateOnly, s)
	return err == nil && counter.DayOf(t) == s
}

// Store stores usage. It reads the names of keys from their table, and writes when each was last
// used.
type Store struct{ db *accountdb.DB }

// NewStore returns a Store.
func NewStore(db *accountdb.DB) *Store { return &Store{db} }

type usageRow struct {
	Day       string `gorm:"primaryKey"`
	AccountID string `gorm:"primaryKey"`
	Calls     int
}

func (usageRow) TableName() string { return "usage_days" }

// saveBatch limits the parameters of one statement.
const saveBatch = 1000

// SaveDay stores the counts of a day, by account, that are greater than the stored ones.
// counter.ServiceField stands for all accounts.
func (s *Store) SaveDay(ctx context.Context, day string, counts map[string]int) error {
	if len(counts) == 0 {
		return nil
	}
	rows := make([]usageRow, 0, len(counts))
	for _, account := range slices.Sorted(maps.Keys(counts)) { // two writers lock rows in the same order
		rows = append(rows, usageRow{day, account, counts[account]})
	}
	return database.Outage(s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "day"}, {Name: "account_id"}},
		DoUpdates: clause.AssignmentColumns([]string{"calls"}),
		Where:     clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "excluded.calls > usage_days.calls"}}},
	}).CreateInBatches(rows, saveBatch).Error)
}

// EachPage calls do with the ledger's accounts and counts of a UTC day, in pairs, at most size
// accounts at a time. One statement reads them, so they are as of one point in time. It holds a
// connection during do.
func (s *Store) EachPage(ctx context.Context, day string, size int, do func(pairs []any) error) error {
	rows, err := s.db.WithContext(ctx).Model(&usageRow{}).Select("account_id", "calls").Where("day = ?", day).Rows()
	if err != nil {
		return database.Outage(err)
	}
	defer rows.Close()
	page := make([]any, 0, 2*size)
	for rows.Next() {
		var account string
		var calls int
		if err := rows.Scan(&account, &calls); err != nil {
			return database.Outage(err)
		}
		if page = append(page, account, calls); len(page) == cap(page) {
			if err := do(page); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	if err := rows.Err(); err != nil || len(page) == 0 {
		return database.Outage(err)
	}
	return do(page)
}
