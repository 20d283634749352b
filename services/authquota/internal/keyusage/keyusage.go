// Package keyusage counts the requests of accounts.
//
// Counters are those in Redis, which limits are checked against, with their copy in the database,
// the ledger. A Move assigns the usage of an account to the one that it was merged into. A Batch of
// a gateway adds the outcomes of requests by key (KeySum). Pages and reports show sums of them
// (Bar, Figures, Chart). The request log has the latest single requests.
package keyusage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Count is the number of requests charged to an account on one day. counter.ServiceField stands for
// all accounts.
type Count struct {
	Account string
	Calls   int
}

// Counts returns the counters that are not zero, sorted by account. The order prevents deadlocks
// between two writers.
func Counts(counters map[string]int) []Count {
	var counts []Count
	for account, calls := range counters {
		if calls > 0 {
			counts = append(counts, Count{account, calls})
		}
	}
	slices.SortFunc(counts, func(a, b Count) int { return cmp.Compare(a.Account, b.Account) })
	return counts
}

// FinalAfter is the time after midnight when yesterday's counters are copied for the last time.
// Requests are charged by the clock of Redis, which may lag by less than that.
const FinalAfter = 10 * time.Minute

// Days returns the UTC days at now and before, and whether yesterday's counters are final.
func Days(now time.Time) (today, before string, settled bool) {
	now = now.UTC()
	return counter.DayOf(now), counter.DayOf(now.AddDate(0, 0, -1)), now.Sub(now.Truncate(24*time.Hour)) >= FinalAfter
}

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

// SaveDay stores the counts of a day that are greater than the stored ones, in one transaction.
func (s *Store) SaveDay(ctx context.Context, day string, counts []Count) error {
	rows := make([]usageRow, len(counts))
	for i, c := range counts {
		rows[i] = usageRow{day, c.Account, c.Calls}
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "day"}, {Name: "account_id"}},
			DoUpdates: clause.AssignmentColumns([]string{"calls"}),
			Where:     clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "excluded.calls > usage_days.calls"}}},
		}).CreateInBatches(rows, saveBatch).Error
	}))
}

// EachPage calls do with the ledger's counts of a UTC day, at most size at a time. One statement
// reads them, so they are as of one point in time. It holds a connection during do.
func (s *Store) EachPage(ctx context.Context, day string, size int, do func([]Count) error) error {
	rows, err := s.db.WithContext(ctx).Model(&usageRow{}).Select("account_id", "calls").Where("day = ?", day).Rows()
	if err != nil {
		return database.Outage(err)
	}
	defer rows.Close()
	page := make([]Count, 0, size)
	for rows.Next() {
		var c Count
		if err := rows.Scan(&c.Account, &c.Calls); err != nil {
			return database.Outage(err)
		}
		if page = append(page, c); len(page) == size {
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
