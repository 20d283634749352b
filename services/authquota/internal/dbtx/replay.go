package dbtx

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/services/authquota/internal/journal"
)

// Replayed reports what a replay did.
type Replayed struct {
	Changes int // that the database lacked
	Missing []Gap
}

// Gap is a range of changes that neither the database nor the journal has.
type Gap struct{ First, Last int64 }

// Lacks returns the lines of changes that the database lacks, without duplicates, in the order of changes.
func (db *DB) Lacks(ctx context.Context, lines []journal.Line) ([]journal.Line, error) {
	type mark struct {
		sequence int64
		id       string
	}
	missing := map[mark]journal.Line{}
	for part := range slices.Chunk(lines, deliverBatch) {
		sequences := make([]int64, len(part))
		for i, l := range part {
			sequences[i], missing[mark{l.Sequence, l.ID}] = l.Sequence, l
		}
		var rows []changeRow
		if err := db.WithContext(ctx).Select("sequence", "id").Find(&rows, "sequence IN ?", sequences).Error; err != nil {
			return nil, database.Outage(err)
		}
		for _, r := range rows {
			delete(missing, mark{r.Sequence, r.ID})
		}
	}
	return slices.SortedFunc(maps.Values(missing), func(a, b journal.Line) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	}), nil
}

// Replay repeats the changes that Lacks returned, all or none. Changes that were made after the database was set back are repeated on top
// of them, because they are newer. It records an open Loss for each gap.
func (db *DB) Replay(ctx context.Context, missing []journal.Line) (report Replayed, err error) {
	if len(missing) == 0 {
		return report, nil
	}
	now := db.Now().UTC().Truncate(time.Microsecond)
	err = db.WithContext(ctx).Transaction(func(gormTx *gorm.DB) error {
		tx := &Tx{DB: gormTx, Now: now, Box: db.Box, Mails: db.Mails}
		if _, err := database.NextSequence(tx.DB); err != nil { // locks out other changes
			return err
		}
		newer, err := tx.linesFrom(missing[0].Sequence)
		if err != nil {
			return err
		}
		accounts := map[string]bool{}
		for _, l := range missing {
			if err := tx.repeat(l, true, accounts); err != nil {
				return err
			}
			if err := tx.addChange(l, false); err != nil {
				return err
			}
		}
		for _, l := range newer {
			if err := tx.repeat(l, false, accounts); err != nil {
				return err
			}
		}
		for _, id := range slices.Sorted(maps.Keys(accounts)) {
			if err := tx.QueueRaise(id); err != nil {
				return err
			}
		}
		report.Changes = len(missing)
		report.Missing, err = tx.recordGaps()
		return err
	})
	return report, database.Outage(err)
}

// linesFrom returns the lines of the stored changes from a sequence on.
func (tx *Tx) linesFrom(sequence int64) ([]journal.Line, error) {
	var rows []changeRow
	if err := tx.Order("sequence, at").Find(&rows, "sequence >= ?", sequence).Error; err != nil {
		return nil, err
	}
	lines := make([]journal.Line, len(rows))
	for i, r := range rows {
		if r.Line == "" {
			return nil, fmt.Errorf("change %d was recorded after change %d, more than %d days ago: too late to replay it", r.Sequence, sequence, lineRetention/(24*time.Hour))
		}
		if err := json.Unmarshal([]byte(r.Line), &lines[i]); err != nil {
			return nil, fmt.Errorf("change %d: %w", r.Sequence, err)
		}
	}
	return lines, nil
}

// repeat makes the change of a line, with its entries in the audit log if withAudit is set. It adds the accounts whose calls it may affect
// to accounts.
func (tx *Tx) repeat(l journal.Line, withAudit bool, accounts map[string]bool) error {
	failed := func(err error) error { return fmt.Errorf("change %d %s: %w", l.Sequence, l.ID, err) }
	plain, err := open(tx.Box, l)
	if err != nil {
		return failed(errors.New("the line does not open: add the encryption key of that time to OPPORTUNITY_ENCRYPTION_KEYS"))
	}
	var content journal.Content
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber()
	if err := dec.Decode(&content); err != nil {
		return failed(err)
	}
	for _, c := range content.Changed {
		if err := tx.repeatRows(c, accounts); err != nil {
			return failed(err)
		}
	}
	for _, entry := range content.Audit {
		if !withAudit {
			break
		}
		var detail map[string]any
		if err := json.Unmarshal(entry.Detail, &detail); err != nil {
			return failed(err)
		}
		detail["replayedAt"] = tx.Now
		encoded, err := json.Marshal(detail)
		if err != nil {
			return failed(err)
		}
		row := AuditRow{At: database.Micros(l.At), Actor: entry.Actor, Action: entry.Action, Subject: entry.Subject, Detail: string(encoded)}
		if err := tx.Create(&row).Error; err != nil {
			return failed(err)
		}
	}
	return nil
}

func (tx *Tx) repeatRows(c journal.Changed, accounts map[string]bool) error {
	table, ok := tables[c.Table]
	if !ok {
		return fmt.Errorf("unknown table %q: the journal is from a newer release", c.Table)
	}
	for _, row := range c.Rows {
		for name, value := range row {
			if n, ok := value.(json.Number); ok {
				whole, err := n.Int64()
				if err != nil {
					return err
				}
				row[name] = whole
			}
		}
	}
	if c.Whole {
		if err := tx.deleteOthers(c, table.key[len(table.key)-1]); err != nil {
			return err
		}
	}
	for _, row := range c.Rows {
		if err := tx.repeatRow(c, table, row); err != nil {
			return err
		}
		if err := tx.affected(c.Table, row, accounts); err != nil {
			return err
		}
	}
	return nil
}

// deleteOthers deletes the rows that a change covers and does not have, by the last column of their key.
func (tx *Tx) deleteOthers(c journal.Changed, last string) error {
	statement, values := "DELETE FROM "+c.Table+" WHERE "+c.Column+" IN ?", []any{c.Values}
	if len(c.Rows) > 0 { // NOT IN matches nothing without a value
		present := make([]any, len(c.Rows))
		for i, row := range c.Rows {
			present[i] = row[last]
		}
		statement, values = statement+" AND "+last+" NOT IN ?", append(values, present)
	}
	return tx.Exec(statement, values...).Error
}

// affected adds the account whose calls a row affects.
func (tx *Tx) affected(table string, row map[string]any, accounts map[string]bool) error {
	switch table {
	case "accounts":
		accounts[row["id"].(string)] = true
	case "api_keys":
		var owner string
		if err := tx.Raw("SELECT account_id FROM api_keys WHERE id = ?", row["id"]).Scan(&owner).Error; err != nil {
			return err
		}
		if owner != "" {
			accounts[owner] = true
		}
	}
	return nil
}

// repeatRow updates a row, or creates it if it is missing.
func (tx *Tx) repeatRow(c journal.Changed, table journaled, row map[string]any) error {
	q := tx.Session(&gorm.Session{NewDB: true}).Table(c.Table)
	values := maps.Clone(row)
	for _, name := range table.key {
		q = q.Where(name+" = ?", row[name])
		delete(values, name)
	}
	q = q.Session(&gorm.Session{}) // to be used twice
	var n int64
	if err := q.Count(&n).Error; err != nil {
		return err
	}
	switch {
	case n > 0 && len(values) > 0:
		return q.Updates(values).Error
	case n > 0 || table.updated || !c.Whole:
		return nil
	}
	return tx.Session(&gorm.Session{NewDB: true}).Table(c.Table).Create(row).Error
}

// recordGaps records an open Loss for each range of changes that are missing, under its last sequence. New changes are numbered after all.
func (tx *Tx) recordGaps() (gaps []Gap, err error) {
	err = tx.Raw(`SELECT c.sequence + 1 AS first, (SELECT min(n.sequence) FROM changes n WHERE n.sequence > c.sequence) - 1 AS last
		FROM (SELECT sequence FROM changes UNION SELECT 0) c WHERE c.sequence < (SELECT max(sequence) FROM changes)
		AND NOT EXISTS (SELECT 1 FROM changes n WHERE n.sequence = c.sequence + 1) ORDER BY 1`).Scan(&gaps).Error
	if err != nil {
		return nil, err
	}
	for _, g := range gaps {
		if err := highwater.AddLoss(tx.DB, highwater.Loss{Kind: highwater.Change, Number: g.Last, FoundAt: database.Micros(tx.Now)}); err != nil {
			return nil, err
		}
	}
	return gaps, tx.Exec("UPDATE change_sequence SET value = (SELECT max(sequence) FROM changes)").Error
}
