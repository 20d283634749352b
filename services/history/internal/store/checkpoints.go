package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

type checkpointRow struct {
	Number      int64 `gorm:"primaryKey;autoIncrement:false"`
	Day         *string
	MadeAt      int64
	Size        int64
	Note        string
	Consistency string
	Frontier    string
}

func (checkpointRow) TableName() string { return "checkpoints" }

type headRow struct {
	Checkpoint int64  `gorm:"primaryKey;autoIncrement:false"`
	Chain      string `gorm:"primaryKey"`
	Slug       string
	Events     int64
	Hash       string
}

func (headRow) TableName() string { return "checkpoint_heads" }

func (r headRow) head() checkpoint.Head {
	return checkpoint.Head{Chain: r.Chain, Slug: r.Slug, Events: r.Events, Hash: r.Hash}
}

type leavesRow struct {
	First  int64 `gorm:"primaryKey;autoIncrement:false"`
	Hashes []byte
}

func (leavesRow) TableName() string { return "checkpoint_leaves" }

const leavesPerRow = 1024

// SaveCheckpoint saves a checkpoint with the heads of the chains that grew and the hashes of the new leaves in one transaction. saved
// is false if another checkpoint has the number or the day.
func (s *Store) SaveCheckpoint(ctx context.Context, c checkpoint.Stored, heads []checkpoint.Head, leaves [][]byte) (saved bool, err error) {
	row := checkpointRow{
		Number: c.Number, MadeAt: c.Time.UnixMicro(), Size: c.Size, Note: c.Note,
		Consistency: encodeHashes(c.Consistency), Frontier: encodeHashes(c.Frontier),
	}
	if c.Day != "" {
		row.Day = &c.Day
	}
	headRows := make([]headRow, len(heads))
	for i, h := range heads {
		headRows[i] = headRow{c.Number, h.Chain, h.Slug, h.Events, h.Hash}
	}
	var leavesRows []leavesRow
	first := c.Size - int64(len(leaves)) + 1
	for some := range slices.Chunk(leaves, leavesPerRow) {
		leavesRows = append(leavesRows, leavesRow{first, slices.Concat(some...)})
		first += int64(len(some))
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// Check first, because SQLite's trigger fires before the constraint. On Postgres another transaction may still come first.
		var taken int64
		if err := tx.Model(&checkpointRow{}).Where("number = ? OR day = ?", row.Number, row.Day).Count(&taken).Error; err != nil {
			return err
		}
		if taken > 0 {
			return gorm.ErrDuplicatedKey
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		if len(headRows) > 0 {
			if err := tx.CreateInBatches(headRows, batchSize).Error; err != nil {
				return err
			}
		}
		if len(leavesRows) == 0 {
			return nil
		}
		return tx.CreateInBatches(leavesRows, batchSize).Error
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return false, nil
	}
	return err == nil, database.Outage(err)
}

// LastCheckpoint returns the newest checkpoint, with number 0 if there is none, and the newest UTC day with a daily checkpoint. The
// caller must verify the note.
func (s *Store) LastCheckpoint(ctx context.Context) (c checkpoint.Stored, lastDay string, err error) {
	c, _, err = s.oneCheckpoint(ctx, "true")
	if err != nil {
		return c, "", err
	}
	err = s.db.WithContext(ctx).Raw("SELECT coalesce(max(day), '') FROM checkpoints").Scan(&lastDay).Error
	return c, lastDay, database.Outage(err)
}

// CheckpointOf returns the last checkpoint of the UTC day that starts at day. ok is false if there is none.
func (s *Store) CheckpointOf(ctx context.Context, day time.Time) (c checkpoint.Stored, ok bool, err error) {
	return s.oneCheckpoint(ctx, "made_at >= ? AND made_at < ?", day.UnixMicro(), day.Add(24*time.Hour).UnixMicro())
}

// CheckpointNumber returns the checkpoint with that number. ok is false if there is none.
func (s *Store) CheckpointNumber(ctx context.Context, number int64) (c checkpoint.Stored, ok bool, err error) {
	return s.oneCheckpoint(ctx, "number = ?", number)
}

// oneCheckpoint returns the newest checkpoint that matches the condition.
func (s *Store) oneCheckpoint(ctx context.Context, condition string, args ...any) (c checkpoint.Stored, found bool, err error) {
	var rows []checkpointRow // the match and the one before it
	err = s.db.WithContext(ctx).Raw(`SELECT * FROM checkpoints WHERE number <= (SELECT max(number) FROM checkpoints WHERE `+condition+`)
		ORDER BY number DESC LIMIT 2`, args...).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return c, false, database.Outage(err)
	}
	c, err = rows[0].stored()
	if len(rows) > 1 {
		c.Before = rows[1].Number
	}
	return c, true, err
}

// Generation returns the generation of the history, counted from 1, and its id, which is empty for the first one.
func (s *Store) Generation(ctx context.Context) (generation int64, id string, err error) {
	var ids []string
	err = s.db.WithContext(ctx).Raw("SELECT id FROM generations WHERE began_at > 0 ORDER BY began_at").Scan(&ids).Error
	if len(ids) > 1 {
		id = ids[len(ids)-1]
	}
	return int64(len(ids)), id, database.Outage(err)
}

// Heads returns the heads stored with a checkpoint.
func (s *Store) Heads(ctx context.Context, number int64) ([]checkpoint.Head, error) {
	return headsOf(s.db.WithContext(ctx), number)
}

func headsOf(db *gorm.DB, number int64) ([]checkpoint.Head, error) {
	var rows []headRow
	err := db.Raw("SELECT * FROM checkpoint_heads WHERE checkpoint = ?", number).Scan(&rows).Error
	heads := make([]checkpoint.Head, len(rows))
	for i, r := range rows {
		heads[i] = r.head()
	}
	return heads, database.Outage(err)
}

// LastHeads returns the newest signed heads of the chains of slugs, without those that have none.
func (s *Store) LastHeads(ctx context.Context, slugs []string) (map[string]checkpoint.Head, error) {
	heads := make(map[string]checkpoint.Head, len(slugs))
	for some := range slices.Chunk(slugs, batchSize) {
		var rows []headRow
		err := s.db.WithContext(ctx).Raw(`SELECT * FROM checkpoint_heads h WHERE slug IN ?
			AND checkpoint = (SELECT max(checkpoint) FROM checkpoint_heads WHERE slug = h.slug)`, some).Scan(&rows).Error
		if err != nil {
			return nil, database.Outage(err)
		}
		for _, r := range rows {
			heads[r.Slug] = r.head()
		}
	}
	return heads, nil
}

// Records returns up to limit events with a sequence above after, ordered by sequence.
func (s *Store) Records(ctx context.Context, after int64, limit int) ([]event.Record, error) {
	return recordsAfter(s.db.WithContext(ctx), after, limit)
}

// recordsAfter returns up to limit events with a sequence above after, ordered by sequence.
func recordsAfter(db *gorm.DB, after int64, limit int) ([]event.Record, error) {
	return findRecords(db, allColumns, limit, "sequence > ? ORDER BY sequence LIMIT ?", after, limit)
}

// The columns of event.Record, and the part of them that summaries depend on.
const (
	eventColumns = "sequence, id, slug, checked_at, check_type, outcome, source_urls, facts, note, evidence"
	allColumns   = eventColumns + ", form, actor, recorded_at, content_hash, prev_hash, hash"
)

// findRecords returns the columns of the matching events. n is their approximate number. It avoids gorm's reflection, because verification reads
// all events.
func findRecords(db *gorm.DB, columns string, n int, condition string, args ...any) ([]event.Record, error) {
	rows, err := db.Raw("SELECT "+columns+" FROM verification_events WHERE "+condition, args...).Rows()
	if err != nil {
		return nil, database.Outage(err)
	}
	defer rows.Close()
	records := make([]event.Record, 0, n)
	var r event.Record
	into := []any{&r.Sequence, &r.ID, &r.Slug, &r.CheckedAt, (*string)(&r.CheckType), (*string)(&r.Outcome), &r.SourceURLs, &r.Facts, &r.Note, &r.Evidence,
		&r.Form, &r.Actor, &r.RecordedAt, &r.ContentHash, &r.PrevHash, &r.Hash}
	if columns == eventColumns {
		into = into[:10]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, database.Outage(err)
		}
		records = append(records, r)
	}
	return records, database.Outage(rows.Err())
}

// stored returns the row as a checkpoint. The caller must verify the note.
func (r checkpointRow) stored() (checkpoint.Stored, error) {
	consistency, err1 := decodeHashes(r.Consistency)
	frontier, err2 := decodeHashes(r.Frontier)
	if err := errors.Join(err1, err2); err != nil {
		return checkpoint.Stored{}, fmt.Errorf("checkpoint %d: %w", r.Number, err)
	}
	c := checkpoint.Checkpoint{Number: r.Number, Time: database.FromMicros(r.MadeAt), Size: r.Size}
	stored := checkpoint.Stored{Checkpoint: c, Note: r.Note, Consistency: consistency, Frontier: frontier}
	if r.Day != nil {
		stored.Day = *r.Day
	}
	return stored, nil
}

func encodeHashes(hashes [][]byte) string {
	words := make([]string, len(hashes))
	for i, h := range hashes {
		words[i] = base64.StdEncoding.EncodeToString(h)
	}
	return strings.Join(words, " ")
}

func decodeHashes(text string) ([][]byte, error) {
	words := strings.Fields(text)
	hashes := make([][]byte, len(words))
	for i, w := range words {
		var err error
		if hashes[i], err = base64.StdEncoding.DecodeString(w); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}
