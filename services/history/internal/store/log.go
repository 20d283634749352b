package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

type logTileRow struct {
	Level  int   `gorm:"primaryKey;autoIncrement:false"`
	Number int64 `gorm:"primaryKey;autoIncrement:false"`
	Hashes []byte
}

func (logTileRow) TableName() string { return "log_tiles" }

type logCheckpointRow struct {
	Origin string `gorm:"primaryKey"`
	Size   int64  `gorm:"primaryKey;autoIncrement:false"`
	MadeAt int64
	Note   string
}

func (logCheckpointRow) TableName() string { return "log_checkpoints" }

type logCosignatureRow struct {
	Origin    string `gorm:"primaryKey"`
	Size      int64  `gorm:"primaryKey;autoIncrement:false"`
	Witness   string `gorm:"primaryKey"`
	Signature string
	MadeAt    int64
}

func (logCosignatureRow) TableName() string { return "log_cosignatures" }

// NewestCheckpoint returns the newest checkpoint of an origin, or of all if it is empty. It has
// size 0 if there is none. The caller must verify the note.
func (s *Store) NewestCheckpoint(ctx context.Context, origin string) (checkpoint.Checkpoint, error) {
	return oneCheckpoint(s.db.WithContext(ctx).Where("origin = ? OR ? = ''", origin, origin))
}

// oneCheckpoint returns the newest matching checkpoint, without cosignatures. Of two with the same
// size, it returns the one made last.
func oneCheckpoint(db *gorm.DB) (c checkpoint.Checkpoint, err error) {
	var rows []logCheckpointRow
	if err := db.Order("size DESC, made_at DESC").Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return c, database.Outage(err)
	}
	return rows[0].checkpoint(), nil
}

// checkpoint returns the checkpoint without its root, which is in the note. The caller must verify
// the note.
func (r logCheckpointRow) checkpoint() checkpoint.Checkpoint {
	c := checkpoint.Checkpoint{MadeAt: database.FromMicros(r.MadeAt), Note: r.Note}
	c.Origin, c.N = r.Origin, r.Size
	return c
}

// PublishedCheckpoint implements checkpoint.Store.
func (s *Store) PublishedCheckpoint(
	ctx context.Context, origin string, size int64, witnesses []string, threshold int, unseen time.Time,
) (c checkpoint.Checkpoint, err error) {
	db := s.db.WithContext(ctx).Where("origin = ?", origin)
	if size != 0 {
		db = db.Where("size = ?", size)
	}
	if len(witnesses) > 0 {
		db = db.Where(`made_at < ? OR ? <= (SELECT count(*) FROM log_cosignatures c
			WHERE c.origin = log_checkpoints.origin AND c.size = log_checkpoints.size AND c.witness IN ?)`,
			unseen.UnixMicro(), threshold, witnesses)
	}
	if c, err = oneCheckpoint(db); err != nil || c.N == 0 {
		return c, err
	}
	rows, err := s.cosignatures(ctx, c)
	for _, r := range rows {
		c.Cosignatures = append(c.Cosignatures, note.Signature{Name: r.Witness, Base64: r.Signature})
	}
	return c, err
}

// SaveCheckpoint implements checkpoint.Store.
func (s *Store) SaveCheckpoint(
	ctx context.Context, c checkpoint.Checkpoint, tiles []tlog.Tile, data [][]byte,
) (saved bool, err error) {
	rows := make([]logTileRow, len(tiles))
	for i, t := range tiles {
		rows[i] = logTileRow{t.L, t.N, data[i]}
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// Check first, because SQLite's trigger fires before the constraint. On Postgres another
		// transaction may still come first.
		var taken int64
		err := tx.Model(&logCheckpointRow{}).Where("origin = ? AND size >= ?", c.Origin, c.N).Count(&taken).Error
		if err != nil {
			return err
		}
		if taken > 0 {
			return gorm.ErrDuplicatedKey
		}
		err = tx.Create(&logCheckpointRow{c.Origin, c.N, c.MadeAt.UnixMicro(), c.Note}).Error
		if err != nil || len(rows) == 0 {
			return err
		}
		longer := clause.OnConflict{
			Columns:   []clause.Column{{Name: "level"}, {Name: "number"}},
			DoUpdates: clause.AssignmentColumns([]string{"hashes"}),
			Where: clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "length(excluded.hashes) > " +
				"length(log_tiles.hashes)"}}},
		}
		return tx.Clauses(longer).CreateInBatches(rows, batchSize).Error
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return false, nil
	}
	return err == nil, database.Outage(err)
}

// Tiles implements checkpoint.Store.
func (s *Store) Tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	return tilesOf(s.db.WithContext(ctx), tiles)
}

func tilesOf(db *gorm.DB, tiles []tlog.Tile) ([][]byte, error) {
	keys := make([][]any, len(tiles))
	for i, t := range tiles {
		keys[i] = []any{t.L, t.N}
	}
	var rows []logTileRow
	if err := db.Where("(level, number) IN ?", keys).Find(&rows).Error; err != nil {
		return nil, database.Outage(err)
	}
	stored := make(map[[2]int64][]byte, len(rows))
	for _, r := range rows {
		stored[[2]int64{int64(r.Level), r.Number}] = r.Hashes
	}
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		hashes := stored[[2]int64{int64(t.L), t.N}]
		if len(hashes) < t.W*tlog.HashSize {
			return nil, fmt.Errorf("%w: level %d, number %d has %d bytes, want %d", checkpoint.ErrNoTile, t.L, t.N,
				len(hashes), t.W*tlog.HashSize)
		}
		out[i] = hashes[:t.W*tlog.HashSize]
	}
	return out, nil
}

func (s *Store) cosignatures(ctx context.Context, c checkpoint.Checkpoint) (rows []logCosignatureRow, err error) {
	err = s.db.WithContext(ctx).Where("origin = ? AND size = ?", c.Origin, c.N).Order("witness").Find(&rows).Error
	return rows, database.Outage(err)
}

// Cosigned implements checkpoint.Store.
func (s *Store) Cosigned(ctx context.Context, c checkpoint.Checkpoint) (names []string, err error) {
	rows, err := s.cosignatures(ctx, c)
	for _, r := range rows {
		names = append(names, r.Witness)
	}
	return names, err
}

// LastCosigned implements checkpoint.Store.
func (s *Store) LastCosigned(ctx context.Context, origin, witness string) (size int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT coalesce(max(size), 0) FROM log_cosignatures WHERE origin = ? AND witness = ?",
		origin, witness).Scan(&size).Error
	return size, database.Outage(err)
}

// SaveCosignature implements checkpoint.Store.
func (s *Store) SaveCosignature(
	ctx context.Context, c checkpoint.Checkpoint, witness, signature string, now time.Time,
) error {
	row := logCosignatureRow{c.Origin, c.N, witness, signature, now.UnixMicro()}
	return database.Outage(s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error)
}

// Generation names the generation of the history: its number, counted from 1, and its id. The name
// is empty for the first. It also returns the greatest sequence of its events that the catalog has
// seen.
func (s *Store) Generation(ctx context.Context) (name string, covered int64, err error) {
	var began []struct {
		ID      string
		Covered int64
	}
	err = s.db.WithContext(ctx).Raw("SELECT id, covered FROM generations WHERE began_at > 0 ORDER BY began_at").
		Scan(&began).Error
	if err != nil || len(began) == 0 {
		return "", 0, database.Outage(err)
	}
	newest := began[len(began)-1]
	if len(began) > 1 {
		name = fmt.Sprintf("%d-%s", len(began), newest.ID)
	}
	return name, newest.Covered, nil
}

// Record returns the event with an id.
func (s *Store) Record(ctx context.Context, id string) (r event.Record, found bool, err error) {
	return oneRecord(s.db.WithContext(ctx), "id = ?", id)
}

// PublicRecord returns the event with an id. found is false unless there is one and its listing is
// public.
func (s *Store) PublicRecord(ctx context.Context, id string) (r event.Record, found bool, err error) {
	return oneRecord(s.db.WithContext(ctx),
		"id = ? AND EXISTS (SELECT 1 FROM listings l WHERE l.id = slug AND l.published)", id)
}

func oneRecord(db *gorm.DB, condition string, args ...any) (r event.Record, found bool, err error) {
	records, err := findRecords(db, allColumns, 1, condition, args...)
	if err != nil || len(records) == 0 {
		return r, false, err
	}
	return records[0], true, nil
}

// Records implements checkpoint.Store.
func (s *Store) Records(ctx context.Context, after int64, limit int) ([]event.Record, error) {
	return recordsAfter(s.db.WithContext(ctx), after, limit)
}

func recordsAfter(db *gorm.DB, after int64, limit int) ([]event.Record, error) {
	return findRecords(db, allColumns, limit, "sequence > ? ORDER BY sequence LIMIT ?", after, limit)
}

// The columns of event.Record, and the part of them that summaries depend on.
const (
	eventColumns = "sequence, id, slug, checked_at, check_type, outcome, source_urls, facts, note, evidence"
	allColumns   = eventColumns + ", actor, recorded_at, content_hash"
)

// findRecords returns the columns of the matching events. n is their approximate number. It avoids
// gorm's reflection, because verification reads all events.
func findRecords(db *gorm.DB, columns string, n int, condition string, args ...any) ([]event.Record, error) {
	rows, err := db.Raw("SELECT "+columns+" FROM verification_events WHERE "+condition, args...).Rows()
	if err != nil {
		return nil, database.Outage(err)
	}
	defer rows.Close()
	records := make([]event.Record, 0, n)
	var r event.Record
	into := []any{&r.Sequence, &r.ID, &r.Slug, &r.CheckedAt, (*string)(&r.CheckType), (*string)(&r.Outcome),
		&r.SourceURLs, &r.Facts, &r.Note, &r.Evidence,
		&r.Actor, &r.RecordedAt, &r.ContentHash}
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
