package store

import (
	"context"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/usage"
)

type batchRow struct {
	ID        string `gorm:"primaryKey"`
	CountedAt int64
}

func (batchRow) TableName() string { return "tally_batches" }

type keyUsageRow struct {
	KeyID   string `gorm:"primaryKey"`
	Day     string `gorm:"primaryKey"`
	Outcome string `gorm:"primaryKey"`
	Calls   int
}

func (keyUsageRow) TableName() string { return "usage_keys" }

// Count adds a batch to what was counted, unless it was counted already. Keys that nobody has are left out, and their number is
// returned: they must not cost the others their count.
func (s *Store) Count(ctx context.Context, b usage.Batch) (unknown int, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		claim := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&batchRow{b.ID, database.Micros(now)})
		if claim.Error != nil || claim.RowsAffected == 0 {
			return claim.Error
		}
		known, err := lockKeys(tx, b)
		if err != nil {
			return err
		}
		unknown = len(b.LastUsed) - len(known)
		return count(tx, b, known)
	})
	return unknown, err
}

// lockKeys keeps the batch's keys, in their order, from being written by anybody else until tx ends, so that batches cannot wait
// for each other in a ring. It returns those that there are.
func lockKeys(tx *gorm.DB, b usage.Batch) (map[string]bool, error) {
	var ids []string
	for i, sum := range b.Sums {
		if i == 0 || sum.Key != b.Sums[i-1].Key {
			ids = append(ids, sum.Key)
		}
	}
	known := make(map[string]bool, len(ids))
	for ; len(ids) > 0; ids = ids[min(batch, len(ids)):] {
		var found []string
		err := tx.Model(&keyRow{}).Clauses(clause.Locking{Strength: "NO KEY UPDATE"}).
			Where("id IN ?", ids[:min(batch, len(ids))]).Order("id").Pluck("id", &found).Error
		if err != nil {
			return nil, err
		}
		for _, id := range found {
			known[id] = true
		}
	}
	return known, nil
}

func count(tx *gorm.DB, b usage.Batch, known map[string]bool) error {
	var rows []keyUsageRow
	for _, sum := range b.Sums {
		if known[sum.Key] {
			rows = append(rows, keyUsageRow{sum.Key, sum.Day, string(sum.Outcome), sum.Calls})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	err := tx.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "key_id"}, {Name: "day"}, {Name: "outcome"}},
		DoUpdates: clause.Assignments(map[string]any{"calls": gorm.Expr("usage_keys.calls + excluded.calls")}),
	}).CreateInBatches(rows, batch).Error
	if err != nil {
		return err
	}
	var used []any
	for id, at := range b.LastUsed {
		if known[id] {
			used = append(used, id, database.Micros(at))
		}
	}
	for ; len(used) > 0; used = used[min(2*batch, len(used)):] {
		values := used[:min(2*batch, len(used))]
		err := tx.Exec(`UPDATE api_keys SET last_used_at = v.column2 FROM (VALUES `+
			strings.TrimSuffix(strings.Repeat("(CAST(? AS text), CAST(? AS bigint)),", len(values)/2), ",")+
			`) AS v WHERE api_keys.id = v.column1 AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < v.column2)`, values...).Error
		if err != nil {
			return err
		}
	}
	return nil
}

// Forget removes what is older than it is kept for: batches that no gateway repeats any more, and how the calls of each key ended.
func (s *Store) Forget(ctx context.Context) error {
	now := s.now().UTC()
	tx := s.db.WithContext(ctx)
	err := tx.Where("counted_at < ?", database.Micros(now.Add(-usage.Remembered))).Delete(&batchRow{}).Error
	if err == nil {
		err = tx.Where("day < ?", usage.Last(now, usage.Kept).From).Delete(&keyUsageRow{}).Error
	}
	return database.Outage(err)
}
