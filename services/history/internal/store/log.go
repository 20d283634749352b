package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

type tileRow struct {
	Level  int   `gorm:"primaryKey;autoIncrement:false"`
	Number int64 `gorm:"primaryKey;autoIncrement:false"`
	Hashes []byte
}

func (tileRow) TableName() string { return "log_tiles" }

// Checkpoint is a stored checkpoint of the log. Its note decides, which the reader must verify.
type Checkpoint struct {
	Origin string `gorm:"primaryKey"`
	Size   int64  `gorm:"primaryKey;autoIncrement:false"` // events
	MadeAt int64  // microseconds since 1970 UTC
	Note   string // signed by the log
}

// TableName is the table of checkpoints.
func (Checkpoint) TableName() string { return "log_checkpoints" }

// Cosignature is the cosignature of a witness of a checkpoint.
type Cosignature struct {
	Origin    string `gorm:"primaryKey"`
	Size      int64  `gorm:"primaryKey;autoIncrement:false"`
	Witness   string `gorm:"primaryKey"`
	Signature string // base64
	MadeAt    int64  // microseconds since 1970 UTC
}

// TableName is the table of cosignatures.
func (Cosignature) TableName() string { return "log_cosignatures" }

// NewestCheckpoint returns the newest checkpoint of an origin, or of all if it is empty, with a
// size below below. Its size is 0 if there is none.
func (s *Store) NewestCheckpoint(ctx context.Context, origin string, below int64) (Checkpoint, error) {
	return newest(s.db.WithContext(ctx).Where("(origin = ? OR ? = '') AND size < ?", origin, origin, below))
}

// newest returns the newest matching checkpoint. Of two with the same size, it returns the one made
// last.
func newest(db *gorm.DB) (c Checkpoint, err error) {
	err = db.Order("size DESC, made_at DESC").Limit(1).Find(&c).Error
	return c, database.Outage(err)
}

// PublishedCheckpoint returns the newest checkpoint of an origin that was made before unseen or has
// a number of cosignatures of the witnesses. Its size is 0 if there is none. A size other than 0
// selects the checkpoint of that size.
func (s *Store) PublishedCheckpoint(
	ctx context.Context, origin string, size int64, witnesses []string, threshold int, unseen time.Time,
) (Checkpoint, error) {
	db := s.db.WithContext(ctx).Where("origin = ?", origin)
	if size != 0 {
		db = db.Where("size = ?", size)
	}
	if len(witnesses) > 0 {
		db = db.Where(`made_at < ? OR ? <= (SELECT count(*) FROM log_cosignatures c
			WHERE c.origin = log_checkpoints.origin AND c.size = log_checkpoints.size AND c.witness IN ?)`,
			unseen.UnixMicro(), threshold, witnesses)
	}
	return newest(db)
}

// Checkpoints returns up to limit checkpoints of all origins with a size above after and up to
// upTo, ordered by size. A limit of -1 is none.
func (s *Store) Checkpoints(ctx context.Context, after, upTo int64, limit int) (all []Checkpoint, err error) {
	err = s.db.WithContext(ctx).Where("size > ? AND size <= ?", after, upTo).Order("size, made_at").Limit(limit).
		Find(&all).Error
	return all, database.Outage(err)
}

// SaveCheckpoint saves a checkpoint with the tiles that grew, and their hashes. It saves nothing
// and returns false if the origin has one of the size.
func (s *Store) SaveCheckpoint(ctx context.Context, c Checkpoint, tiles []tlog.Tile, hashes [][]byte) (saved bool,
	err error) {
	rows := make([]tileRow, len(tiles))
	for i, t := range tiles {
		rows[i] = tileRow{t.L, t.N, hashes[i]}
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// Check first, because SQLite's trigger fires before the constraint. On Postgres another
		// transaction may still come first.
		var taken int64
		err := tx.Model(&Checkpoint{}).Where("origin = ? AND size >= ?", c.Origin, c.Size).Count(&taken).Error
		if err != nil {
			return err
		}
		if taken > 0 {
			return gorm.ErrDuplicatedKey
		}
		if err := tx.Create(&c).Error; err != nil || len(rows) == 0 {
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

// ErrNoTile is the error of ReadTiles for a tile that is missing or shorter.
var ErrNoTile = errors.New("no such tile")

// ReadTiles returns the hashes of tiles of the log. It implements torchwood.TileReader.
func (s *Store) ReadTiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	keys := make([][]any, len(tiles))
	for i, t := range tiles {
		keys[i] = []any{t.L, t.N}
	}
	var rows []tileRow
	if err := s.db.WithContext(ctx).Where("(level, number) IN ?", keys).Find(&rows).Error; err != nil {
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
			return nil, fmt.Errorf("%w: level %d, number %d has %d bytes, want %d", ErrNoTile, t.L, t.N, len(hashes),
				t.W*tlog.HashSize)
		}
		out[i] = hashes[:t.W*tlog.HashSize]
	}
	return out, nil
}

// SaveTiles implements torchwood.TileReader. SaveCheckpoint saves tiles.
func (*Store) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadEndpoint implements torchwood.TileReader, whose callers here need tiles only.
func (*Store) ReadEndpoint(context.Context, string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// Cosignatures returns the cosignatures of a checkpoint, ordered by witness.
func (s *Store) Cosignatures(ctx context.Context, origin string, size int64) (all []Cosignature, err error) {
	err = s.db.WithContext(ctx).Where("origin = ? AND size = ?", origin, size).Order("witness").Find(&all).Error
	return all, database.Outage(err)
}

// LastCosigned returns the size of the newest checkpoint of an origin that a witness has cosigned,
// 0 if there is none.
func (s *Store) LastCosigned(ctx context.Context, origin, witness string) (size int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT coalesce(max(size), 0) FROM log_cosignatures WHERE origin = ? AND witness = ?",
		origin, witness).Scan(&size).Error
	return size, database.Outage(err)
}

// SaveCosignature saves the first cosignature of a witness of a checkpoint.
func (s *Store) SaveCosignature(ctx context.Context, c Cosignature) error {
	return database.Outage(s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&c).Error)
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
	last := began[len(began)-1]
	if len(began) > 1 {
		name = fmt.Sprintf("%d-%s", len(began), last.ID)
	}
	return name, last.Covered, nil
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

// Records returns up to limit events with a sequence above after, ordered by sequence.
func (s *Store) Records(ctx context.Context, after int64, limit int) ([]event.Record, error) {
	return findRecords(s.db.WithContext(ctx), allColumns, limit, "sequence > ? ORDER BY sequence LIMIT ?", after, limit)
}
