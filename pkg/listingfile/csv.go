package listingfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
)

// A CSV file has one row for each listing and one column for each leaf field of Line, named by its
// path. ToCSV and FromCSV convert between JSON Lines and CSV without loss.

type kind int

const (
	text     kind = iota
	nullable      // text; an empty cell is null
	boolean       // true or false; an empty cell is null
	number
	items  // one text per line, or a JSON array
	pages  // one source per line: the URL and, after a space, checkedAt; or a JSON array
	object // JSON array of objects
)

type column struct {
	name   string
	groups []string // optional objects that contain the field, outermost first
	kind   kind
}

var columns = leaves(nil, reflect.TypeFor[Line](), "", nil)

func leaves(all []column, t reflect.Type, prefix string, groups []string) []column {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" {
			continue
		}
		name = prefix + name
		add := func(k kind) { all = append(all, column{name, groups, k}) }
		element, optional := f.Type, f.Type.Kind() == reflect.Pointer
		if optional {
			element = element.Elem()
		}
		switch {
		case element.Kind() == reflect.Slice && element.Elem() == reflect.TypeFor[api.Source]():
			add(pages)
		case element.Kind() == reflect.Slice && element.Elem().Kind() == reflect.String:
			add(items)
		case element.Kind() == reflect.Slice:
			add(object)
		case element == reflect.TypeFor[time.Time](), element.Kind() == reflect.String && optional:
			add(nullable)
		case element.Kind() == reflect.String:
			add(text)
		case element.Kind() == reflect.Bool:
			add(boolean)
		case element.Kind() == reflect.Float64, element.Kind() == reflect.Int:
			add(number)
		case optional:
			all = leaves(all, element, name+".", append(slices.Clone(groups), name))
		default:
			all = leaves(all, element, name+".", groups)
		}
	}
	return all
}

// mayBeAbsent reports whether the column is optional. An import leaves only these fields unchanged
// if a line omits them.
func (c column) mayBeAbsent() bool {
	return c.name == "publishedAt" || c.name == "visibility" || slices.Contains(c.groups, "curation")
}

// Columns returns the names of all columns in the order of ToCSV.
func Columns() []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return names
}

// ToCSV converts a JSON Lines file, such as an export, to CSV.
func ToCSV(in io.Reader, out io.Writer) error {
	w := csv.NewWriter(out)
	_ = w.Write(Columns()) // w.Error returns the error
	dec := json.NewDecoder(in)
	for {
		var text json.RawMessage
		err := dec.Decode(&text)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = jsonlines.Check(text)
		}
		var line map[string]any
		if err == nil {
			values := json.NewDecoder(bytes.NewReader(text))
			values.UseNumber()
			err = values.Decode(&line)
		}
		if err != nil {
			return fmt.Errorf("reading listings: %w", err)
		}
		if line["format"] != nil {
			continue
		}
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = escape(c.cell(lookup(line, c.name)))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return w.Error()
}

func lookup(line map[string]any, path string) any {
	var v any = line
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func (c column) cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		return c.list(v)
	case json.Number:
		return api.FormatNumber(v)
	default:
		return fmt.Sprint(v) // a string or a bool
	}
}

func (c column) list(values []any) string {
	if c.kind == object {
		return encoded(values)
	}
	lines := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			if lines[i] = v; v != strings.TrimSpace(v) || strings.ContainsAny(v, "\r\n") {
				return encoded(values)
			}
		case map[string]any:
			address, _ := v["url"].(string)
			checked, _ := v["checkedAt"].(string)
			lines[i] = strings.TrimSpace(address + " " + checked)
			if len(strings.Fields(address)) != 1 || strings.ContainsFunc(checked, isSpace) {
				return encoded(values)
			}
		}
		if lines[i] == "" || lines[i][0] == '[' {
			return encoded(values)
		}
	}
	return strings.Join(lines, "\n")
}

func isSpace(r rune) bool { return strings.TrimSpace(string(r)) == "" }

func encoded(v any) string {
	text, _ := api.Encode(v) // was decoded from JSON
	return string(text)
}

// quoted is the prefix of a cell with a JSON string.
const quoted = "json:"

// escape protects a cell from evaluation by spreadsheets and from CSV readers, which change line
// ends. unescape reverses it.
func escape(cell string) string {
	if strings.Contains(cell, "\r") || strings.HasPrefix(cell, quoted) {
		cell = quoted + encoded(cell)
	}
	return api.EscapeFormulas(cell)
}

func unescape(cell string) (value string, err error) {
	value = api.UnescapeFormulas(cell)
	if literal, is := strings.CutPrefix(value, quoted); is {
		if err := json.Unmarshal([]byte(literal), &value); err != nil || value == "" {
			return "", errors.New(`must be a JSON string after json:, such as json:"text"`)
		}
		return value, jsonlines.Check([]byte(literal))
	}
	return value, nil
}

// FromCSV converts a CSV file to JSON Lines. Each listing is on the line number where its row
// begins, so problems reported by Read refer to the CSV file too. FromCSV omits rows that it cannot
// convert and returns them as rejected lines. It returns an error only if in or out fails.
func FromCSV(in io.Reader, out io.Writer) ([]api.RejectedLine, error) {
	w := bufio.NewWriter(out)
	fmt.Fprint(w, encoded(NewHeader()))
	buffered := bufio.NewReader(in)
	start, err := buffered.Peek(buffered.Size())
	if problem := jsonlines.WrongFile(start, false); problem != "" && (err == nil || errors.Is(err, io.EOF)) {
		return []api.RejectedLine{{Line: 1, Problems: api.Problems{{Message: problem}}}}, w.Flush()
	}
	if bytes.HasPrefix(start, []byte("\ufeff")) {
		_, _ = buffered.Discard(len("\ufeff"))
	}
	r := csv.NewReader(buffered)
	r.FieldsPerRecord = -1
	names, rejected, err := readRow(r)
	switch {
	case err != nil:
		return nil, err
	case rejected != nil:
		return rejected, w.Flush()
	}
	header, problems := headerOf(names)
	if len(problems) > 0 {
		return []api.RejectedLine{{Line: 1, Problems: problems}}, w.Flush()
	}
	for at := 1; ; {
		cells, wrong, err := readRow(r)
		if err != nil {
			return nil, err
		}
		if cells != nil && slices.ContainsFunc(cells, func(cell string) bool { return !utf8.ValidString(cell) }) {
			number, _ := r.FieldPos(0)
			wrong = []api.RejectedLine{{Line: number}}
			wrong[0].Problems.Add("", "%s; nothing after this line was read", jsonlines.NotUTF8)
			cells = nil
		}
		rejected = append(rejected, wrong...)
		if cells == nil {
			_, _ = w.WriteString("\n") // Flush returns the error
			return rejected, w.Flush()
		}
		number, _ := r.FieldPos(0)
		line, id, problems := header.line(cells)
		switch {
		case len(problems) > 0:
			rejected = append(rejected, api.RejectedLine{Line: number, ID: id, Problems: problems})
		case line != nil:
			_, _ = w.WriteString(strings.Repeat("\n", number-at))
			at = number
			_, _ = w.Write(line)
		}
	}
}

// readRow returns the next row, or nil at the end of the file and for a row that is not valid CSV.
func readRow(r *csv.Reader) ([]string, []api.RejectedLine, error) {
	cells, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, nil
	}
	if wrong := new(csv.ParseError); errors.As(err, &wrong) {
		rejected := api.RejectedLine{Line: wrong.StartLine}
		rejected.Problems.Add("", "is not CSV: %v at line %d, character %d; nothing after it was read",
			wrong.Err, wrong.Line, wrong.Column)
		return nil, []api.RejectedLine{rejected}, nil
	}
	return cells, nil, err
}

// rowHeader lists the columns of a file, in file order.
type rowHeader []column

func headerOf(names []string) (header rowHeader, p api.Problems) {
	if len(names) == 1 && strings.ContainsAny(names[0], ";\t") {
		p.Add("", "must separate columns by commas")
		return nil, p
	}
	if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(Columns(), name) }) {
		p.Add("", "must have the names of the columns, as listings export --format csv writes them; "+
			"it begins with %.100q", names[0])
		return nil, p
	}
	for _, name := range names {
		i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		switch {
		case i < 0:
			p.Add(fmt.Sprintf("%.100q", name), "is not a known column")
		case slices.ContainsFunc(header, func(c column) bool { return c.name == name }):
			p.Add(name, "is given twice")
		default:
			header = append(header, columns[i])
		}
	}
	var missing []string
	for _, c := range columns {
		if !c.mayBeAbsent() && !slices.Contains(names, c.name) {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		p.Add("columns missing", "%s. An import replaces the whole listing: include every column, "+
			"with empty cells where nothing is recorded",
			strings.Join(missing, ", "))
	}
	if slices.Contains(names, "curation.contact") != slices.Contains(names, "curation.notes") {
		p.Add("curation", "needs both columns, curation.contact and curation.notes, or none")
	}
	return header, p
}

// line converts a row. It returns nil if every cell is empty.
func (h rowHeader) line(cells []string) (line []byte, id string, p api.Problems) {
	if len(cells) != len(h) {
		p.Add("", "has %d cells, and the header names %d columns", len(cells), len(h))
		return nil, "", p
	}
	present := map[string]bool{}
	for i, c := range h {
		if c.name == "id" {
			id = cells[i]
		}
		for _, group := range c.groups {
			present[group] = present[group] || cells[i] != "" || group == "curation"
		}
	}
	if !slices.ContainsFunc(cells, func(cell string) bool { return cell != "" }) {
		return nil, "", nil
	}
	tree := map[string]any{}
	for i, c := range h {
		if slices.ContainsFunc(c.groups, func(group string) bool { return !present[group] }) {
			continue
		}
		cell, err := unescape(cells[i])
		var value any
		if err == nil {
			value, err = c.value(cell)
		}
		if err != nil {
			p.Add(c.name, "%v", err)
		} else if c.kind != number || cell != "" { // Read reports a missing number
			put(tree, c.name, value)
		}
	}
	return []byte(encoded(tree)), id, p
}

func put(tree map[string]any, path string, value any) {
	for {
		name, rest, more := strings.Cut(path, ".")
		if !more {
			tree[name] = value
			return
		}
		if tree[name] == nil {
			tree[name] = map[string]any{}
		}
		tree, path = tree[name].(map[string]any), rest
	}
}

// value returns the JSON value of a cell. Its errors follow the name of the column.
func (c column) value(cell string) (any, error) {
	if cell == "" && (c.kind == nullable || c.kind == boolean) {
		return nil, nil
	}
	if strings.HasPrefix(cell, "[") && (c.kind == items || c.kind == pages) {
		return array(cell)
	}
	switch c.kind {
	case boolean:
		if !strings.EqualFold(cell, "true") && !strings.EqualFold(cell, "false") {
			return nil, fmt.Errorf("must be true, false or empty; %.40q is none", cell)
		}
		return strings.EqualFold(cell, "true"), nil
	case number:
		if cell == "" {
			return json.Number(""), nil
		}
		return api.ParseNumber(cell)
	case items, pages:
		return c.perLine(cell)
	case object:
		if cell == "" {
			return []any{}, nil
		}
		return array(cell)
	default:
		return cell, nil
	}
}

func array(cell string) (any, error) {
	if !strings.HasPrefix(strings.TrimSpace(cell), "[") || !json.Valid([]byte(cell)) {
		return nil, errors.New("must be a JSON array")
	}
	return json.RawMessage(cell), nil
}

func (c column) perLine(cell string) (any, error) {
	values := []any{}
	for line := range strings.SplitSeq(cell, "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case c.kind == items:
			values = append(values, line)
		default:
			address, checked, dated := strings.Cut(line, " ")
			source := api.Source{URL: address}
			if dated {
				source.CheckedAt = new(api.CheckDate(strings.TrimSpace(checked)))
			}
			values = append(values, source)
		}
	}
	return values, nil
}
