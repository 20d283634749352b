package database

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/problem"
)

// Bounds of the lines of an upload in memory.
const (
	uploadBatch = 500
	uploadBytes = 4 << 20 // without the last line
)

// uploadTimeout limits a statement of an upload.
const uploadTimeout = time.Minute

// abandonedAfter is the age at which an upload is deleted that a stopped process left.
const abandonedAfter = 24 * time.Hour

// Upload holds the lines of a file in the table uploads while the file arrives, so that the transaction that applies them neither waits for
// the sender nor needs the whole file in memory. On Postgres the table is unlogged: a crash or a failover empties it, which Batches reports.
type Upload[T any] struct {
	Lines int64 // number of lines

	ctx     context.Context
	db      *DB
	id      string
	begun   int64
	pending []uploadRow
	size    int        // bytes of pending
	written chan error // receives the result of the insert in progress; nil without one
}

type uploadRow struct {
	Upload  string
	BegunAt int64 // microseconds
	Place   int64
	Number  int64
	Size    int64 // of Content in bytes
	Content string
}

func (uploadRow) TableName() string { return "uploads" }

// NewUpload returns an empty upload. It also deletes those that were abandoned a day before now. The caller must call Delete at the end.
func NewUpload[T any](ctx context.Context, db *DB, now time.Time) (*Upload[T], error) {
	u := &Upload[T]{ctx: ctx, db: db, id: rand.Text(), begun: Micros(now)}
	return u, u.run(ctx, func(tx *gorm.DB) error {
		return tx.Exec("DELETE FROM uploads WHERE begun_at < ?", Micros(now.Add(-abandonedAfter))).Error
	})
}

func (u *Upload[T]) run(ctx context.Context, statement func(*gorm.DB) error) error {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	return Outage(statement(u.db.WithContext(ctx)))
}

// Add adds a line, as JSON. Place and number, which together must be unique, order the lines. Lines are inserted in the background, a
// bounded number at once.
func (u *Upload[T]) Add(place, number int, line T) error {
	content, err := json.Marshal(line)
	if err != nil {
		return err
	}
	u.pending = append(u.pending, uploadRow{u.id, u.begun, int64(place), int64(number), int64(len(content)), string(content)})
	u.Lines++
	if u.size += len(content); u.size < uploadBytes && len(u.pending) < uploadBatch {
		return nil
	}
	return u.insert()
}

// insert begins to insert the pending lines when the insert in progress has ended.
func (u *Upload[T]) insert() error {
	if err := u.wait(); err != nil || len(u.pending) == 0 {
		return err
	}
	rows := u.pending
	u.pending, u.size, u.written = nil, 0, make(chan error, 1)
	go func() {
		u.written <- u.run(u.ctx, func(tx *gorm.DB) error { return Insert(tx, rows, "") })
	}()
	return nil
}

// wait returns the result of the insert in progress.
func (u *Upload[T]) wait() error {
	if u.written == nil {
		return nil
	}
	err := <-u.written
	u.written = nil
	return err
}

// End ends the upload. Call it after the last Add.
func (u *Upload[T]) End() error {
	if err := u.insert(); err != nil {
		return err
	}
	return u.wait()
}

// Delete deletes the lines, even if the context of the upload is done.
func (u *Upload[T]) Delete() error {
	_ = u.wait() // after an error of Add or of the file
	return u.run(context.WithoutCancel(u.ctx), func(tx *gorm.DB) error {
		return tx.Exec("DELETE FROM uploads WHERE upload = ?", u.id).Error
	})
}

// Batches yields the lines in order, through tx, a bounded number at once. It stops after an error. While the caller works on a batch, the
// next one is decoded.
func (u *Upload[T]) Batches(tx *gorm.DB) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		last, read := uploadRow{Place: -1, Number: -1}, int64(0)
		var next chan decoded[T] // nil before the first batch
		for {
			more := read < u.Lines
			ahead := next
			if more {
				rows, err := u.read(tx, last)
				if err != nil {
					yield(nil, err)
					return
				}
				last, read = rows[len(rows)-1], read+int64(len(rows))
				next = make(chan decoded[T], 1)
				go func(to chan decoded[T]) { to <- decode[T](rows) }(next)
			}
			if ahead != nil {
				if batch := <-ahead; !yield(batch.lines, batch.err) || batch.err != nil {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// read returns at least one line after last.
func (u *Upload[T]) read(tx *gorm.DB, last uploadRow) (rows []uploadRow, err error) {
	err = tx.Raw(`SELECT place, number, content FROM (
			SELECT place, number, content, sum(size) OVER (ORDER BY place, number) - size AS before FROM (
				SELECT place, number, content, size FROM uploads WHERE upload = ? AND (place, number) > (?, ?) ORDER BY place, number LIMIT ?
			) AS next
		) AS sized WHERE before < ? ORDER BY place, number`, u.id, last.Place, last.Number, uploadBatch, uploadBytes).Scan(&rows).Error
	if err == nil && len(rows) == 0 {
		err = problem.Unavailable(errLost)
	}
	return rows, err
}

type decoded[T any] struct {
	lines []T
	err   error
}

func decode[T any](rows []uploadRow) decoded[T] {
	lines := make([]T, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal([]byte(row.Content), &lines[i]); err != nil {
			return decoded[T]{err: err}
		}
	}
	return decoded[T]{lines: lines}
}

var errLost = errors.New("the database lost lines of an upload, as after a crash or a failover")
