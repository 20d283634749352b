package store

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/audit"
	"opportunity.internal/services/history/internal/checkpoint"
)

// Audited gives check the history as it stands at one instant. Appends go on meanwhile.
func (s *Store) Audited(ctx context.Context, check func(audit.Source) error) error {
	options := &sql.TxOptions{ReadOnly: true} // on SQLite, that it takes no lock that appends wait for
	if s.db.Dialect == database.Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return check(snapshot{tx}) }, options))
}

// snapshot is an audit.Source.
type snapshot struct{ tx *gorm.DB }

// Totals gives every checkpoint and the number of the last append.
func (s snapshot) Totals() (appended int64, checkpoints []checkpoint.Stored, err error) {
	if err := s.tx.Raw("SELECT value FROM change_sequence WHERE id = 1").Scan(&appended).Error; err != nil {
		return 0, nil, err
	}
	var rows []checkpointRow
	if err := s.tx.Raw("SELECT * FROM checkpoints ORDER BY number").Scan(&rows).Error; err != nil {
		return 0, nil, err
	}
	for _, r := range rows {
		c, err := r.kept()
		if err != nil { // what was kept beside the note is no longer readable: the audit says so when it finds nothing there
			c = checkpoint.Stored{Checkpoint: checkpoint.Checkpoint{Number: r.Number, Time: database.FromMicros(r.MadeAt), Size: r.Size}, Note: r.Note}
		}
		checkpoints = append(checkpoints, c)
	}
	return appended, checkpoints, nil
}

// Events reads the next events after a sequence, and the leaves kept for the sequences up to the last of them; after the last
// event of all, the leaves of whatever was signed beyond.
func (s snapshot) Events(after int64, limit int) (p audit.Page, err error) {
	if p.Records, err = recordsAfter(s.tx, after, limit); err != nil {
		return p, err
	}
	var rows []leavesRow
	query, args := "SELECT * FROM checkpoint_leaves WHERE first > ? AND first <= ? ORDER BY first", []any{max(after, 0) - leavesAtOnce, int64(0)}
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

// Heads are those that were kept with a checkpoint.
func (s snapshot) Heads(number int64) ([]checkpoint.Head, error) { return headsOf(s.tx, number) }

// Summaries reads the next summaries after a slug, in its order, each with what its events come to.
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
		out[i] = audit.Summary{Slug: r.Slug, Sequence: r.Sequence, Events: r.Events, Kept: r.Summary}
		if chain := chains[r.Slug]; len(chain) > 0 {
			due, err := summarize(r.Slug, chain)
			if err != nil {
				continue // an event that cannot be read; the hashes tell
			}
			out[i].Due, out[i].DueSequence, out[i].DueEvents = due.Summary, due.Sequence, due.Events
			if r.Derived != r.Sequence { // derived by older rules, and to be derived again before it is served
				out[i].Kept = due.Summary
			}
		}
	}
	return out, nil
}
