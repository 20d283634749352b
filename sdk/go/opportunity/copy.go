package opportunity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// FileCopy is a Store that writes all records to a file: CSV if its name ends in .csv, otherwise
// one JSON object on each line. A file beside it, whose name ends in .copy.json, has the records
// and the state.
//
// The file has the status of each record at the time of the last Sync. In CSV, a text that a
// spreadsheet would take for a formula begins with an apostrophe.
type FileCopy struct {
	path    string
	content fileContent
}

// fileContent is the content of the file beside a FileCopy.
type fileContent struct {
	SDK     string                 `json:"sdk"`
	State   SyncState              `json:"state"`
	Records map[string]Opportunity `json:"records"`
}

// OpenFileCopy opens the copy in a file, which may not exist yet.
func OpenFileCopy(path string) (*FileCopy, error) {
	c := &FileCopy{path: path, content: fileContent{Records: map[string]Opportunity{}}}
	text, err := os.ReadFile(c.memory())
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	return c, json.Unmarshal(text, &c.content)
}

func (c *FileCopy) memory() string { return c.path + ".copy.json" }

// State returns the progress of the copy. Another SDK's is not used: the next Sync then reads
// everything.
func (c *FileCopy) State(context.Context) (SyncState, error) {
	if c.content.SDK != "go" {
		return SyncState{}, nil
	}
	return c.content.State, nil
}

// IDs returns the ids of the copied records.
func (c *FileCopy) IDs(context.Context) ([]string, error) {
	return slices.Collect(maps.Keys(c.content.Records)), nil
}

// Apply replaces both files. A crash leaves the old ones, or an old file of records that the next
// Apply replaces.
func (c *FileCopy) Apply(_ context.Context, changes Changes) error {
	for _, record := range changes.Put {
		c.content.Records[record.ID] = record
	}
	for _, id := range changes.Remove {
		delete(c.content.Records, id)
	}
	c.content.SDK, c.content.State = "go", changes.State
	memory, err := json.Marshal(c.content)
	if err != nil {
		return err
	}
	if err := replace(c.memory(), memory); err != nil {
		return err
	}
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	csv := strings.HasSuffix(c.path, ".csv")
	if csv {
		out.WriteString(csvHeader())
	}
	for _, id := range slices.Sorted(maps.Keys(c.content.Records)) {
		record, start := current(c.content.Records[id], time.Now()), out.Len()
		if err := lines.Encode(record); err != nil {
			return err
		}
		if csv {
			row := csvRow(bytes.Clone(out.Bytes()[start:]))
			out.Truncate(start)
			out.WriteString(row)
		}
	}
	return replace(c.path, out.Bytes())
}

// replace writes a new file and then renames it, so a crash leaves the old one.
func replace(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// current returns a record with the status that it has at now: it becomes stale without a change.
func current(record Opportunity, now time.Time) Opportunity {
	until := record.Verification.FreshUntil
	if record.Verification.Status == VerificationStatusVerified && until != nil && now.After(*until) {
		record.Verification.Status = VerificationStatusStale
	}
	return record
}

func csvHeader() string {
	names := make([]string, 0, len(columns))
	for _, column := range columns {
		names = append(names, column[0])
	}
	return strings.Join(names, ",") + "\r\n"
}

// csvRow returns the line of a record in CSV.
func csvRow(record json.RawMessage) string {
	values := map[string]json.RawMessage{}
	flatten("$", record, values)
	cells := make([]string, 0, len(columns))
	for _, column := range columns {
		cells = append(cells, cell(values[column[1]]))
	}
	return strings.Join(cells, ",") + "\r\n"
}

// flatten collects a value and, if it is an object, the values in it by their paths.
func flatten(path string, value json.RawMessage, into map[string]json.RawMessage) {
	value = bytes.TrimSpace(value)
	into[path] = value
	var object map[string]json.RawMessage
	if value[0] != '{' || json.Unmarshal(value, &object) != nil {
		return
	}
	for name, inner := range object {
		flatten(path+"."+name, inner, into)
	}
}

var (
	breaks = regexp.MustCompile(`[\r\n\t]+`)
	// formula matches a formula at the start of a cell, or after a semicolon, which separates cells
	// in some countries. Before it there can be apostrophes, and characters that show nothing,
	// which spreadsheets skip.
	formula = regexp.MustCompile(`(^|;)('*[\x00-\x20\x7f-\xa0\xad\x{34f}\x{61c}\x{115f}\x{1160}\x{1680}\x{17b4}\x{17b5}` +
		`\x{180b}-\x{180f}\x{2000}-\x{200f}` +
		`\x{2028}-\x{202f}\x{205f}-\x{206f}\x{3000}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{fff0}-\x{fffb}` +
		`\x{1d173}-\x{1d17a}\x{e0000}-\x{e0fff}]*` +
		`[=+\-@＝＋－＠])`)
)

// cell returns a value in CSV: nothing for null, and JSON for lists and objects.
func cell(value json.RawMessage) string {
	text := string(value)
	if text == "" || text == "null" {
		return ""
	}
	if !strings.ContainsAny(text[:1], `"[{`) {
		return text // a number or boolean
	}
	if text[0] == '"' {
		_ = json.Unmarshal(value, &text) // an encoded string
	}
	text = formula.ReplaceAllString(breaks.ReplaceAllString(text, " "), "$1'$2")
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}
