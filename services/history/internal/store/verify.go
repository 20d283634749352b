package store

import (
	"context"
	"database/sql"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/verify"
)

// Snapshot calls check with a consistent snapshot of the history. It does not block appends.
func (s *Store) Snapshot(ctx context.Context, check func(verify.Source) error) error {
	options := &sql.TxOptions{ReadOnly: true} // on SQLite, avoids the lock that appends need
	if s.db.Dialect == database.Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return check(snapshot{tx}) },
		options))
}

// snapshot is a verify.Source.
type snapshot struct{ tx *gorm.DB }

func (s snapshot) Appended() (last int64, err error) {
	err = s.tx.Raw("SELECT value FROM change_sequence WHERE id = 1").Scan(&last).Error
	return last, err
}

func (s snapshot) Events(after int64, limit int) ([]event.Record, error) {
	return recordsAfter(s.tx, after, limit)
}

func (s snapshot) Checkpoints(after, upTo int64, limit int) ([]checkpoint.Checkpoint, error) {
	var rows []logCheckpointRow
	err := s.tx.Where("size > ? AND size <= ?", after, upTo).Order("size, made_at").Limit(limit).Find(&rows).Error
	all := make([]checkpoint.Checkpoint, len(rows))
	for i, r := range rows {
		all[i] = r.checkpoint()
	}
	return all, err
}

func (s snapshot) Newest(below int64) (checkpoint.Checkpoint, error) {
	return oneCheckpoint(s.tx.Where("size < ?", below))
}

func (s snapshot) Tiles(_ context.Context, tiles []tlog.Tile) ([][]byte, error) {
	return tilesOf(s.tx, tiles)
}

func (s snapshot) Summaries(after string, maxEvents int) ([]verify.Summary, error) {
	var rows []summaryRow
	if err := s.tx.Raw("SELECT * FROM summaries WHERE slug > ? ORDER BY slug LIMIT ?", after,
		batchSize).Scan(&rows).Error; err != nil {
		return nil, err
	}
	var slugs []string
	events := 0
	for _, r := range rows {
		if events += max(r.Events, 0); events > maxEvents && len(slugs) > 0 {
			break
		}
		slugs = append(slugs, r.Slug)
	}
	histories, err := load(s.tx, eventColumns, min(events, maxEvents), slugs)
	out := make([]verify.Summary, len(slugs))
	for i, r := range rows[:len(slugs)] {
		out[i] = verify.Summary{
			Slug: r.Slug, Sequence: r.Sequence, Events: r.Events, Stored: r.Summary, Records: histories[r.Slug],
		}
	}
	return out, err
}
