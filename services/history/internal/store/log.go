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

type logReplyRow struct {
	Origin    string `gorm:"primaryKey"`
	Size      int64  `gorm:"primaryKey;autoIncrement:false"`
	Witness   string `gorm:"primaryKey"`
	Signature string
	Rejection string
	MadeAt    int64
}

func (logReplyRow) TableName() string { return "log_replies" }

// NewestLogCheckpoint returns the newest checkpoint of an origin, or of all if it is empty. It has size 0 if there is none. The caller must
// verify the note.
func (s *Store) NewestLogCheckpoint(ctx context.Context, origin string) (checkpoint.LogCheckpoint, error) {
	return oneLogCheckpoint(s.db.WithContext(ctx).Where("origin = ? OR ? = ''", origin, origin))
}

// oneLogCheckpoint returns the newest matching checkpoint, without cosignatures. Of two with the same size, it returns the one made last.
func oneLogCheckpoint(db *gorm.DB) (c checkpoint.LogCheckpoint, err error) {
	var rows []logCheckpointRow
	if err := db.Order("size DESC, made_at DESC").Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return c, database.Outage(err)
	}
	r := rows[0]
	return checkpoint.LogCheckpoint{Origin: r.Origin, Size: r.Size, MadeAt: database.FromMicros(r.MadeAt), Note: r.Note}, nil
}

// PublishedLogCheckpoint returns the newest checkpoint of an origin that none of the witnesses has rejected, and that was made before unseen or
// has a number of cosignatures of them. It has size 0 if there is none. A size other than 0 selects the checkpoint of that size.
func (s *Store) PublishedLogCheckpoint(
	ctx context.Context, origin string, size int64, witnesses []string, threshold int, unseen time.Time,
) (c checkpoint.LogCheckpoint, err error) {
	const replies = "FROM log_replies r WHERE r.origin = log_checkpoints.origin AND r.size = log_checkpoints.size AND r.witness IN ?"
	db := s.db.WithContext(ctx).Where("origin = ?", origin)
	if size != 0 {
		db = db.Where("size = ?", size)
	}
	if len(witnesses) > 0 {
		db = db.Where("NOT EXISTS (SELECT 1 "+replies+" AND r.rejection <> '')", witnesses).
			Where("made_at < ? OR (SELECT count(*) "+replies+" AND r.signature <> '') >= ?", unseen.UnixMicro(), witnesses, threshold)
	}
	if c, err = oneLogCheckpoint(db); err != nil || c.Size == 0 {
		return c, err
	}
	all, err := s.Replies(ctx, origin, c.Size)
	for _, r := range all {
		if r.Signature != "" {
			c.Cosignatures = append(c.Cosignatures, note.Signature{Name: r.Witness, Base64: r.Signature})
		}
	}
	return c, err
}

// SaveLogCheckpoint saves a checkpoint with the tiles that grew, in one transaction. It saves nothing and returns false if the origin has one of
// the size.
func (s *Store) SaveLogCheckpoint(ctx context.Context, c checkpoint.LogCheckpoint, tiles []tlog.Tile, data [][]byte) (saved bool, err error) {
	rows := make([]logTileRow, len(tiles))
	for i, t := range tiles {
		rows[i] = logTileRow{t.L, t.N, data[i]}
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// Check first, because SQLite's trigger fires before the constraint. On Postgres another transaction may still come first.
		var taken int64
		if err := tx.Model(&logCheckpointRow{}).Where("origin = ? AND size >= ?", c.Origin, c.Size).Count(&taken).Error; err != nil {
			return err
		}
		if taken > 0 {
			return gorm.ErrDuplicatedKey
		}
		if err := tx.Create(&logCheckpointRow{c.Origin, c.Size, c.MadeAt.UnixMicro(), c.Note}).Error; err != nil || len(rows) == 0 {
			return err
		}
		longer := clause.OnConflict{
			Columns: []clause.Column{{Name: "level"}, {Name: "number"}}, DoUpdates: clause.AssignmentColumns([]string{"hashes"}),
			Where: clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "length(excluded.hashes) > length(log_tiles.hashes)"}}},
		}
		return tx.Clauses(longer).CreateInBatches(rows, batchSize).Error
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return false, nil
	}
	return err == nil, database.Outage(err)
}

// Tiles returns the hashes of tiles. It returns checkpoint.ErrNoTile if one is missing or shorter.
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
		if len(hashes) < t.W*checkpoint.HashSize {
			return nil, fmt.Errorf("%w: level %d, number %d has %d bytes, want %d", checkpoint.ErrNoTile, t.L, t.N, len(hashes), t.W*checkpoint.HashSize)
		}
		out[i] = hashes[:t.W*checkpoint.HashSize]
	}
	return out, nil
}

// Replies returns the replies of witnesses to a checkpoint.
func (s *Store) Replies(ctx context.Context, origin string, size int64) ([]checkpoint.Reply, error) {
	var rows []logReplyRow
	err := s.db.WithContext(ctx).Where("origin = ? AND size = ?", origin, size).Order("witness").Find(&rows).Error
	replies := make([]checkpoint.Reply, len(rows))
	for i, r := range rows {
		replies[i] = checkpoint.Reply{Witness: r.Witness, Signature: r.Signature, Rejection: r.Rejection}
	}
	return replies, database.Outage(err)
}

// LastCosigned returns the size of the newest checkpoint of an origin that a witness has cosigned, 0 if there is none.
func (s *Store) LastCosigned(ctx context.Context, origin, witness string) (size int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT coalesce(max(size), 0) FROM log_replies WHERE origin = ? AND witness = ? AND signature <> ''", origin, witness).
		Scan(&size).Error
	return size, database.Outage(err)
}

// SaveReply saves the first reply of a witness to a checkpoint.
func (s *Store) SaveReply(ctx context.Context, c checkpoint.LogCheckpoint, r checkpoint.Reply, now time.Time) error {
	row := logReplyRow{c.Origin, c.Size, r.Witness, r.Signature, r.Rejection, now.UnixMicro()}
	return database.Outage(s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error)
}

// Record returns the event with an id.
func (s *Store) Record(ctx context.Context, id string) (r event.Record, found bool, err error) {
	return oneRecord(s.db.WithContext(ctx), "id = ?", id)
}

// PublicRecord returns the event with an id. found is false unless there is one and its listing is public.
func (s *Store) PublicRecord(ctx context.Context, id string) (r event.Record, found bool, err error) {
	return oneRecord(s.db.WithContext(ctx), "id = ? AND EXISTS (SELECT 1 FROM listings l WHERE l.id = slug AND l.published)", id)
}

func oneRecord(db *gorm.DB, condition string, args ...any) (r event.Record, found bool, err error) {
	records, err := findRecords(db, allColumns, 1, condition, args...)
	if err != nil || len(records) == 0 {
		return r, false, err
	}
	return records[0], true, nil
}
