// Package journal defines the journal of authquota: one line of JSON for each change of accounts, keys and sign-ins, written outside the
// database. After the database was restored from a backup, a replay of the journal repeats the changes that the backup lacks.
//
// A line names the change and what was done, by whom. Everything else is sealed: email addresses, hashes, and the rows as they were after
// the change.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Line is a change.
type Line struct {
	Sequence int64     `json:"sequence"` // in the order of commits
	ID       string    `json:"id"`       // random
	At       time.Time `json:"at"`
	Acts     []Act     `json:"acts"`
	Sealed   string    `json:"sealed"` // Content
}

// Act is an entry of the audit log without its detail.
type Act struct {
	Actor   string `json:"actor"`
	Action  string `json:"action"`
	Subject string `json:"subject"`
}

// Content is the sealed part of a line.
type Content struct {
	Audit   []Entry   `json:"audit,omitempty"`
	Changed []Changed `json:"changed,omitempty"`
}

// Entry is an entry of the audit log.
type Entry struct {
	Act

	Detail json.RawMessage `json:"detail"`
}

// Changed has rows of a table as they were after the change: all rows with one of the values in a column.
type Changed struct {
	Table  string           `json:"table"`
	Column string           `json:"column"`
	Values []string         `json:"values"`
	Whole  bool             `json:"whole"` // the rows have every column, and other rows with the values are deleted
	Rows   []map[string]any `json:"rows"`
}

// Contexts returns the texts that bind the sealed part to its line, newest first: lines of releases before this one do not bind the time.
func (l Line) Contexts() []string {
	before := fmt.Sprintf("change %d %s", l.Sequence, l.ID)
	return []string{before + " at " + l.At.UTC().Format(time.RFC3339Nano), before}
}

// mark begins each line, so that a journal can be read from a log with other lines and with prefixes.
const mark = `{"journal":"authquota",`

// Encode returns the line with a line end.
func (l Line) Encode() ([]byte, error) {
	encoded, err := json.Marshal(l)
	return append([]byte(mark), append(encoded[1:], '\n')...), err
}

// Read calls each with every line of a journal. It skips other lines and incomplete ones, such as the last one of a crash.
func Read(in io.Reader, each func(Line) error) error {
	for lines := bufio.NewReaderSize(in, 64<<10); ; {
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if l, ok := parse(text); ok {
			if err := each(l); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func parse(text []byte) (l Line, ok bool) {
	_, rest, found := bytes.Cut(text, []byte(mark))
	if !found {
		return l, false
	}
	err := json.NewDecoder(io.MultiReader(bytes.NewReader([]byte("{")), bytes.NewReader(rest))).Decode(&l)
	return l, err == nil && l.Sequence > 0 && l.ID != "" && l.Sealed != ""
}
