package keyusage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// KeySum is the number of requests of a key with one outcome on one day.
type KeySum struct {
	Account string          `gorm:"primaryKey;column:account_id"` // of the key; empty in a Batch
	Day     string          `gorm:"primaryKey"`
	Key     string          `gorm:"primaryKey;column:key_id"`
	Outcome api.CallOutcome `gorm:"primaryKey"`
	Calls   int
}

// TableName implements gorm's Tabler.
func (KeySum) TableName() string { return "usage_keys" }

// outcomesTable has the sums of KeySums by account.
const outcomesTable = "usage_outcomes"

// Batch is a validated usage batch of one gateway. It has one sum per key, day and outcome. The
// sums are sorted by key, so that concurrent writers lock rows in the same order and cannot
// deadlock.
type Batch struct {
	ID       string
	Sums     []KeySum
	LastUsed map[string]time.Time // by key
}

// BatchRetention is the time for which duplicate batches are recognized. Gateways retry a batch
// within seconds.
const BatchRetention = 48 * time.Hour

// maxCalls is far above what a gateway can count in one batch.
const maxCalls = 1_000_000_000

// Check validates a batch. Times in the future, from a gateway whose clock is ahead, count as now.
func Check(sent api.UsageBatch, now time.Time) (Batch, error) {
	if id, err := uuid.Parse(sent.ID); err != nil || id.Version() != 7 || id.String() != sent.ID {
		return Batch{}, problem.Invalid("id", "must be a UUID of version 7 in lower case")
	}
	if len(sent.Counts) > api.MaxUsageCounts {
		return Batch{}, problem.Invalid("counts", fmt.Sprintf("must have at most %d entries", api.MaxUsageCounts))
	}
	retained := Last(now.AddDate(0, 0, 1), RetentionDays+1) // tomorrow: a gateway's clock may be ahead at midnight
	sums, last := map[KeySum]int{}, map[string]time.Time{}
	for i, t := range sent.Counts {
		if field, what := checkCount(t, retained); field != "" {
			return Batch{}, problem.Invalid(fmt.Sprintf("counts[%d].%s", i, field), what)
		}
		sums[KeySum{Key: t.Key, Day: t.Day, Outcome: t.Outcome}] += t.Calls
		at := t.LastAt
		if at.After(now) {
			at = now
		}
		if at.After(last[t.Key]) {
			last[t.Key] = at
		}
	}
	return Batch{ID: sent.ID, Sums: sorted(sums), LastUsed: last}, nil
}

func checkCount(t api.UsageCount, retained Range) (field, what string) {
	switch {
	case !accountdb.ValidID("key_", t.Key):
		return "key", "must be a key ID"
	case !t.Outcome.Known():
		return "outcome", "must be a known outcome"
	case !ValidDay(t.Day) || !retained.Includes(t.Day):
		return "day", "must be a UTC day such as " + counter.DayOf(time.Unix(0, 0)) +
			", not in the future and within the retention"
	case t.Calls < 1 || t.Calls > maxCalls:
		return "calls", fmt.Sprintf("must be an integer from 1 to %d", maxCalls)
	case t.LastAt.Year() < 2000 || t.LastAt.Year() > 9999:
		return "lastAt", "must be the time of the last request"
	}
	return "", ""
}

// sorted returns sums in the order of locking, with their calls.
func sorted(sums map[KeySum]int) []KeySum {
	list := slices.SortedFunc(maps.Keys(sums), func(a, b KeySum) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Day, b.Day),
			cmp.Compare(a.Outcome, b.Outcome))
	})
	for i := range list {
		list[i].Calls = sums[list[i]]
	}
	return list
}

type batchRow struct {
	ID        string `gorm:"primaryKey"`
	CountedAt int64
}

func (batchRow) TableName() string { return "usage_batches" }

// Count adds a usage batch, unless it was added before. It skips unknown keys and returns their
// number.
func (s *Store) Count(ctx context.Context, b Batch) (unknown int, err error) {
	err = s.db.Change(ctx, func(tx *accountdb.Tx) error {
		claim := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&batchRow{b.ID, database.Micros(tx.Now)})
		if claim.Error != nil || claim.RowsAffected == 0 {
			return claim.Error
		}
		accounts, err := lockKeys(tx, b)
		if err != nil {
			return err
		}
		unknown = len(b.LastUsed) - len(accounts)
		return count(tx, b, accounts)
	})
	return unknown, err
}

// lockKeys locks the keys of a batch until tx ends, and returns the accounts of the known ones.
// Locking in the order of IDs prevents deadlocks. The locks also prevent a key from moving to
// another account.
func lockKeys(tx *accountdb.Tx, b Batch) (map[string]string, error) {
	var ids []string
	for i, sum := range b.Sums {
		if i == 0 || sum.Key != b.Sums[i-1].Key {
			ids = append(ids, sum.Key)
		}
	}
	accounts := make(map[string]string, len(ids))
	for ; len(ids) > 0; ids = ids[min(saveBatch, len(ids)):] {
		var locked []struct{ ID, AccountID string }
		err := tx.Table("api_keys").Select("id", "account_id").Clauses(clause.Locking{Strength: "NO KEY UPDATE"}).
			Where("id IN ?", ids[:min(saveBatch, len(ids))]).Order("id").Find(&locked).Error
		if err != nil {
			return nil, err
		}
		for _, key := range locked {
			accounts[key.ID] = key.AccountID
		}
	}
	return accounts, nil
}

func count(tx *accountdb.Tx, b Batch, accounts map[string]string) error {
	var rows []KeySum
	byAccount := map[KeySum]int{}
	for _, sum := range b.Sums {
		if account, known := accounts[sum.Key]; known {
			sum.Account = account
			rows = append(rows, sum)
			byAccount[KeySum{Account: account, Day: sum.Day, Outcome: sum.Outcome}] += sum.Calls
		}
	}
	if len(rows) == 0 {
		return nil
	}
	err := tx.Clauses(added("usage_keys", "account_id", "day", "key_id", "outcome")).CreateInBatches(rows, saveBatch).Error
	if err == nil {
		err = tx.Table(outcomesTable).Omit("Key").Clauses(added(outcomesTable, "account_id", "day", "outcome")).
			CreateInBatches(sorted(byAccount), saveBatch).Error
	}
	if err != nil {
		return err
	}
	var used []any
	for id, at := range b.LastUsed {
		if _, known := accounts[id]; known {
			used = append(used, id, database.Micros(at))
		}
	}
	for ; len(used) > 0; used = used[min(2*saveBatch, len(used)):] {
		values := used[:min(2*saveBatch, len(used))]
		err := tx.Exec(`UPDATE api_keys SET last_used_at = v.column2 FROM (VALUES `+
			strings.TrimSuffix(strings.Repeat("(CAST(? AS text), CAST(? AS bigint)),", len(values)/2), ",")+
			`) AS v WHERE api_keys.id = v.column1 AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < v.column2)`,
			values...).Error
		if err != nil {
			return err
		}
	}
	return nil
}

// added makes an insert add its calls to those of an existing row.
func added(table string, key ...string) clause.OnConflict {
	columns := make([]clause.Column, len(key))
	for i, name := range key {
		columns[i].Name = name
	}
	return clause.OnConflict{
		Columns: columns, DoUpdates: clause.Assignments(map[string]any{
			"calls": gorm.Expr(table + ".calls + excluded.calls"),
		}),
	}
}

// DeleteExpired deletes data past its retention: batch IDs, and usage by key and by account. The
// latter expire together, so that they agree.
func (s *Store) DeleteExpired(ctx context.Context) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		err := tx.Where("counted_at < ?", database.Micros(tx.Now.Add(-BatchRetention))).Delete(&batchRow{}).Error
		for _, table := range []string{"usage_keys", outcomesTable} {
			if err == nil {
				err = tx.Exec("DELETE FROM "+table+" WHERE day < ?", Last(tx.Now, RetentionDays).From).Error
			}
		}
		return err
	})
}
