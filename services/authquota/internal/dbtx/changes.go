package dbtx

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/journal"
	"opportunity.internal/services/authquota/internal/secretbox"
)

// journaled is a table whose changes are in the journal.
type journaled struct {
	key     []string // primary key; only its last column differs between rows with the same value of an earlier one
	updated bool     // rows are only updated: what began after a backup, such as a session, is not restored
}

// tables has the tables that Changed accepts.
var tables = map[string]journaled{
	"accounts":          {key: []string{"id"}},
	"people":            {key: []string{"account_id"}},
	"api_keys":          {key: []string{"id"}},
	"key_requests":      {key: []string{"id"}},
	"recovery_codes":    {key: []string{"account_id", "hash"}},
	"passkeys":          {key: []string{"id"}},
	"entitlements":      {key: []string{"account_id"}},
	"feed_copies":       {key: []string{"feed"}},
	"announcements":     {key: []string{"id"}},
	"key_notices":       {key: []string{"key_id", "days"}},
	"terms_acceptances": {key: []string{"account_id", "version"}},
	"devices":           {key: []string{"account_id", "token_hash"}},
	"sessions":          {key: []string{"id"}, updated: true},
	"links":             {key: []string{"token_hash"}, updated: true},
}

// Changed puts rows of a table into the journal as they are at the end of tx: those with one of the values in a column. Call it for every
// change that a restored backup must not undo. Without columns it includes every column, and a replay deletes other rows with the values.
// Use a column whose rows are not moved to another value.
func (tx *Tx) Changed(table, column string, values []string, columns ...string) {
	if len(values) == 0 {
		return
	}
	tx.numbered = true
	tx.changed = append(tx.changed, changed{journal.Changed{Table: table, Column: column, Values: values, Whole: len(columns) == 0}, columns})
}

type changed struct {
	journal.Changed // without rows

	columns []string
}

type changeRow struct {
	Sequence int64  `gorm:"primaryKey;autoIncrement:false"`
	ID       string `gorm:"primaryKey"`
	At       int64
	Line     string
	Pending  bool
}

func (changeRow) TableName() string { return "changes" }

// writeLine numbers the change and stores its line. It is the last statement of the transaction, so that the order of sequences is that of
// commits and other changes wait only for the commit.
func (tx *Tx) writeLine() (*journal.Line, error) {
	content := journal.Content{Audit: tx.audit}
	for _, c := range tx.changed {
		if err := tx.readRows(&c); err != nil {
			return nil, err
		}
		content.Changed = append(content.Changed, c.Changed)
	}
	plain, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	l := journal.Line{ID: uuid.NewString(), At: tx.Now.UTC(), Acts: make([]journal.Act, len(tx.audit))}
	for i, entry := range tx.audit {
		l.Acts[i] = entry.Act
	}
	if l.Sequence, err = database.NextSequence(tx.DB); err != nil {
		return nil, err
	}
	l.Sealed = tx.Box.Seal(plain, l.Contexts()[0])
	return &l, tx.addChange(l, true)
}

func (tx *Tx) readRows(c *changed) error {
	key := tables[c.Table].key
	q := tx.Session(&gorm.Session{NewDB: true}).Table(c.Table).Where(c.Column+" IN ?", c.Values).Order(key[len(key)-1])
	if !c.Whole {
		q = q.Select(slices.Concat(key, c.columns))
	}
	c.Rows = []map[string]any{}
	err := q.Find(&c.Rows).Error
	for _, row := range c.Rows {
		if c.Table == "api_keys" {
			delete(row, "sequence") // the database sets it
		}
	}
	return err
}

func (tx *Tx) addChange(l journal.Line, pending bool) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return tx.Create(&changeRow{Sequence: l.Sequence, ID: l.ID, At: database.Micros(l.At), Line: string(text), Pending: pending}).Error
}

// deliverTimeout limits what follows the commit of a change.
const deliverTimeout = 2 * time.Second

// deliver writes the line of a committed change to the journal. If it fails, DeliverChanges retries.
func (db *DB) deliver(ctx context.Context, l journal.Line) error {
	if db.Journal == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	if err := db.Journal.Write(l); err != nil {
		return problem.New(problem.ServiceUnavailable,
			"The change is saved, but it is not in the journal yet. The service writes it automatically as soon as it can.").
			Retry(time.Second).Because(err)
	}
	// If this fails, the line is written again, which changes nothing.
	_ = db.WithContext(ctx).Model(&changeRow{}).Where("sequence = ? AND id = ?", l.Sequence, l.ID).Update("pending", false).Error
	if db.Committed != nil {
		db.Committed(ctx, api.Change{Sequence: l.Sequence, ID: l.ID})
	}
	return nil
}

// DeliverChanges writes lines to the journal that were not written with their change, for example because the process stopped.
func (db *DB) DeliverChanges(ctx context.Context) error {
	return db.deliverPending(ctx, db.Now().Add(-deliverAfter))
}

// DeliverPending writes all pending lines to the journal. Call it before a repeated change is acknowledged, which has no line of its own.
func (db *DB) DeliverPending(ctx context.Context) error {
	return db.deliverPending(ctx, db.Now())
}

func (db *DB) deliverPending(ctx context.Context, until time.Time) error {
	var rows []changeRow
	err := db.WithContext(ctx).Order("sequence").Limit(deliverBatch).Find(&rows, "pending AND at <= ?", database.Micros(until)).Error
	if err != nil {
		return database.Outage(err)
	}
	for _, r := range rows {
		var l journal.Line
		if err := json.Unmarshal([]byte(r.Line), &l); err != nil {
			return err
		}
		if err := db.deliver(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// Open returns the sealed part of a line. It returns an error unless the line has been sealed under a current encryption key.
func (db *DB) Open(l journal.Line) ([]byte, error) { return open(db.Box, l) }

func open(box secretbox.Box, l journal.Line) (plain []byte, err error) {
	for _, context := range l.Contexts() {
		if plain, err = box.Open(l.Sealed, context); err == nil {
			return plain, nil
		}
	}
	return nil, err
}

const (
	deliverBatch = 500
	deliverAfter = 10 * time.Second // other processes are writing newer lines
)

// lineRetention is the time for which the database has the lines of changes. A replay needs those of changes after the restore.
const lineRetention = 7 * 24 * time.Hour

// DeleteOldLines deletes the lines of old changes. The changes stay, to recognize them.
func (db *DB) DeleteOldLines(ctx context.Context) error {
	return database.Outage(db.WithContext(ctx).Model(&changeRow{}).
		Where("line <> '' AND NOT pending AND at < ?", database.Micros(db.Now().Add(-lineRetention))).Update("line", "").Error)
}

// HasChange reports whether the database has a change.
func (db *DB) HasChange(ctx context.Context, l highwater.Loss) (bool, error) {
	q := db.WithContext(ctx).Model(&changeRow{}).Where("sequence = ?", l.Number)
	if l.ID != "" {
		q = q.Where("id = ?", l.ID)
	}
	var n int64
	err := q.Count(&n).Error
	return n > 0, database.Outage(err)
}

// NewestChange returns the newest change, or the zero mark.
func (db *DB) NewestChange(ctx context.Context) (highwater.Mark, error) {
	var rows []changeRow
	err := db.WithContext(ctx).Select("sequence", "id").Order("sequence DESC, at DESC").Limit(1).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return highwater.Mark{}, database.Outage(err)
	}
	return highwater.Mark{Change: api.Change{Sequence: rows[0].Sequence, ID: rows[0].ID}}, nil
}

// PassLostChanges writes an entry to the audit log that operator accepts the loss of changes. Its sequence is above those of all lost
// changes, so that the changes after it are newer for everyone who has seen those. It does nothing unless the database is set back.
func (db *DB) PassLostChanges(ctx context.Context, operator string) error {
	all, err := highwater.Losses(db.WithContext(ctx))
	if err != nil {
		return err
	}
	lost := int64(0)
	for _, s := range all {
		if s.Open() {
			lost = max(lost, s.Number)
		}
	}
	if lost == 0 {
		return nil
	}
	return db.Change(ctx, func(tx *Tx) error {
		tx.numbered = true
		err := tx.Exec("UPDATE change_sequence SET value = ? WHERE value < ?", lost, lost).Error
		return errors.Join(err, tx.Record(operator, "database.accept", "authquota", map[string]any{"lostUpTo": lost}))
	})
}
