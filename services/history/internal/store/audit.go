package store

import (
	"context"
	"database/sql"

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
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return check(snapshot{tx}) }, options))
}

// snapshot is an audit.Source.
type snapshot struct{ tx *gorm.DB }

// Totals returns the last assigned sequence and all checkpoints in order.
func (s snapshot) Totals() (appended int64, checkpoints []checkpoint.Stored, err error) {
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
func (s snapshot) Events(after int64, limit int) (p audit.Page, err error) {
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
func (s snapshot) Heads(number int64) ([]checkpoint.Head, error) { return headsOf(s.tx, number) }

// Summaries returns up to limit summaries with a slug above after, ordered by slug, each with the summary derived from its events.
func (s snapshot) Summaries(after string, limit int) ([]audit.Summary, error) {
	var rows []summaryRow
	if err := s.tx.Raw("SELECT * FROM summaries WHERE slug > ? ORDER BY slug LIMIT ?", after, limit).Scan(&rows).Error; err != nil {
		return nil, err
	}
	slugs := make([]string, len(rows))
	for i, r := range rows {
		slugs[i] = r.Slug
	}
	chains, err := load(s.tx, slugs)
	if err != nil {
		return nil, err
	}
	out := make([]audit.Summary, len(rows))
	for i, r := range rows {
		out[i] = audit.Summary{Slug: r.Slug, Sequence: r.Sequence, Events: r.Events, Stored: r.Summary}
		if chain := chains[r.Slug]; len(chain) > 0 {
			derived, err := summarize(r.Slug, chain)
			if err != nil {
				continue // an unreadable event; its hashes have a finding
			}
			out[i].Derived, out[i].DerivedSequence, out[i].DerivedEvents = derived.Summary, derived.Sequence, derived.Events
			if r.Derived != r.Sequence { // derived by older rules; the service derives it again before it serves it
				out[i].Stored = derived.Summary
			}
		}
	}
	return out, nil
}
