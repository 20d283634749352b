package store

import (
	"context"
	"database/sql"
	"sync"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/audit"
	"opportunity.internal/services/history/internal/checkpoint"
)

// Audit calls check with a consistent snapshot of the history. It does not block appends.
func (s *Store) Audit(ctx context.Context, check func(audit.Source) error) error {
	options := &sql.TxOptions{ReadOnly: true} // on SQLite, avoids the lock that appends need
	if s.db.Dialect == database.Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return check(&snapshot{tx: tx}) }, options))
}

// snapshot is an audit.Source.
type snapshot struct {
	mu sync.Mutex // a transaction has one connection
	tx *gorm.DB
}

// Totals returns the last assigned sequence and all checkpoints in order.
func (s *snapshot) Totals() (appended int64, checkpoints []checkpoint.Stored, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.tx.Raw("SELECT value FROM change_sequence WHERE id = 1").Scan(&appended).Error; err != nil {
		return 0, nil, err
	}
	var rows []checkpointRow
	if err := s.tx.Raw("SELECT * FROM checkpoints ORDER BY number").Scan(&rows).Error; err != nil {
		return 0, nil, err
	}
	for _, r := range rows {
		c, err := r.stored()
		if err != nil { // the audit reports missing data for an unreadable row
			c = checkpoint.Stored{Checkpoint: checkpoint.Checkpoint{Number: r.Number, Time: database.FromMicros(r.MadeAt), Size: r.Size}, Note: r.Note}
		}
		checkpoints = append(checkpoints, c)
	}
	return appended, checkpoints, nil
}

// Events returns up to limit events with a sequence above after, and the stored leaves up to the last of these events. Without
// further events, it returns all stored leaves above after.
func (s *snapshot) Events(after int64, limit int) (p audit.Page, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Records, err = recordsAfter(s.tx, after, limit); err != nil {
		return p, err
	}
	var rows []leavesRow
	query, args := "SELECT * FROM checkpoint_leaves WHERE first > ? AND first <= ? ORDER BY first", []any{max(after, 0) - leavesPerRow, int64(0)}
	if len(p.Records) > 0 {
		args[1] = p.Records[len(p.Records)-1].Sequence
	} else {
		args[1] = int64(1<<63 - 1)
	}
	if err := s.tx.Raw(query, args...).Scan(&rows).Error; err != nil {
		return p, err
	}
	p.Leaves = map[int64][]byte{}
	for _, r := range rows {
		for i := range len(r.Hashes) / checkpoint.HashSize {
			if at := r.First + int64(i); at > after && at <= args[1].(int64) {
				p.Leaves[at] = r.Hashes[i*checkpoint.HashSize : (i+1)*checkpoint.HashSize]
			}
		}
	}
	return p, nil
}

// Heads returns the heads stored with a checkpoint.
func (s *snapshot) Heads(number int64) ([]checkpoint.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return headsOf(s.tx, number)
}

// Logged returns the newest checkpoint of the log of each origin.
func (s *snapshot) Logged() ([]checkpoint.LogCheckpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []logCheckpointRow
	err := s.tx.Raw(`SELECT * FROM log_checkpoints c WHERE size = (SELECT max(size) FROM log_checkpoints WHERE origin = c.origin)
		ORDER BY size, made_at`).Scan(&rows).Error
	all := make([]checkpoint.LogCheckpoint, len(rows))
	for i, r := range rows {
		all[i] = checkpoint.LogCheckpoint{Origin: r.Origin, Size: r.Size, MadeAt: database.FromMicros(r.MadeAt), Note: r.Note}
	}
	return all, err
}

// Tiles returns the hashes of tiles of the log.
func (s *snapshot) Tiles(_ context.Context, tiles []tlog.Tile) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return tilesOf(s.tx, tiles)
}

// Summaries returns summaries with a slug above after, ordered by slug, with the events of their listings. It returns as many as have up to
// maxEvents events, and at least one.
func (s *snapshot) Summaries(after string, maxEvents int) ([]audit.Summary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []summaryRow
	if err := s.tx.Raw("SELECT * FROM summaries WHERE slug > ? ORDER BY slug LIMIT ?", after, batchSize).Scan(&rows).Error; err != nil {
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
	chains, err := load(s.tx, eventColumns, min(events, maxEvents), slugs)
	out := make([]audit.Summary, len(slugs))
	for i, r := range rows[:len(slugs)] {
		out[i] = audit.Summary{
			Slug: r.Slug, Sequence: r.Sequence, Events: r.Events, Stored: r.Summary, Records: chains[r.Slug],
		}
	}
	return out, err
}
