// Package jsonlines reads JSON Lines files from curators strictly: each line either decodes exactly, or is returned with all its problems.
//
// It is stricter than encoding/json, which silently accepts many mistakes. Names are case-sensitive. Unknown names, repeated names,
// nulls in non-nullable fields, and missing numbers (which would decode as zero) are problems. So are invalid UTF-8 and U+0000, which
// Postgres cannot store.
package jsonlines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// MaxLine is the maximum length of a line in bytes.
const MaxLine = 1 << 20

// Line is a line that is not blank. If it has Problems, Value has only the fields that could be read.
type Line[T any] struct {
	Number   int // from 1, counting blank lines
	Value    T
	Problems api.Problems
}

// Read returns an iterator over the lines of r that are not blank. T must be a struct. An error of r ends the iteration; an invalid line
// does not.
func Read[T any](r io.Reader) iter.Seq2[Line[T], error] {
	return func(yield func(Line[T], error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for number := 1; ; number++ {
			text, tooLong, err := readLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Line[T]{Number: number}, err)
				return
			}
			if number == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff"))
			}
			text = bytes.TrimSpace(text)
			line := Line[T]{Number: number}
			if tooLong {
				line.Problems.Add("line", "must have at most %d bytes", MaxLine)
			} else if len(text) > 0 {
				line.Problems = decode(text, &line.Value)
			}
			if (len(text) > 0 || tooLong) && !yield(line, nil) || err != nil {
				return
			}
		}
	}
}

// readLine reads up to the next line feed. It discards lines longer than MaxLine, to limit memory for files without line feeds.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > MaxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

func decode(text []byte, out any) api.Problems {
	var p api.Problems
	if !utf8.Valid(text) {
		p.Add("line", "must be UTF-8")
		return p
	}
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil { // after this, the text is valid JSON
		p.Add("line", "must be one JSON object: %v", err)
		return p
	}
	c := checker{tokens: json.NewDecoder(bytes.NewReader(text)), problems: &p}
	c.tokens.UseNumber()
	c.value(reflect.TypeOf(out).Elem(), "")
	if err := json.Unmarshal(text, out); err != nil && len(p) == 0 {
		p.Add("line", "has a number that is too large, or a fraction where an integer is required")
	}
	return p
}

// checker compares the tokens of a line with a Go type.
type checker struct {
	tokens   *json.Decoder
	problems *api.Problems
}

func (c checker) next() json.Token {
	t, _ := c.tokens.Token() // cannot fail: decode has validated the text
	return t
}

// skip skips the rest of a value with first token t.
func (c checker) skip(t json.Token) {
	for depth := 0; ; t = c.next() {
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return
		}
	}
}

func (c checker) value(t reflect.Type, path string) {
	first := c.next()
	if t.Kind() == reflect.Pointer {
		if first == nil {
			return
		}
		t = t.Elem()
	}
	text, isText := first.(string)
	_, isNumber := first.(json.Number)
	_, isBool := first.(bool)
	switch {
	case t == reflect.TypeFor[time.Time]():
		if _, err := time.Parse(time.RFC3339, text); !isText || err != nil {
			c.reject(first, path, "a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z")
		}
	case t.Kind() == reflect.Struct:
		if first != json.Delim('{') {
			c.reject(first, path, "an object")
			return
		}
		c.object(t, path)
	case t.Kind() == reflect.Slice:
		if first != json.Delim('[') {
			c.reject(first, path, "an array")
			return
		}
		for i := 0; c.tokens.More(); i++ {
			c.value(t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
		c.next()
	case t.Kind() == reflect.String:
		if !isText {
			c.reject(first, path, "a string")
		} else if strings.ContainsRune(text, 0) {
			c.problems.Add(name(path), "must not contain U+0000")
		}
	case t.Kind() == reflect.Bool:
		if !isBool {
			c.reject(first, path, "true or false")
		}
	case isNumberKind(t):
		if !isNumber {
			c.reject(first, path, "a number")
		}
	default:
		panic("jsonlines: no rule for " + t.String())
	}
}

func (c checker) object(t reflect.Type, path string) {
	fields := map[string]reflect.Type{}
	collect(t, fields)
	seen := map[string]bool{}
	for c.tokens.More() {
		key, _ := c.next().(string)
		at := strings.TrimPrefix(path+"."+key, ".")
		field, known := fields[key]
		switch {
		case !known:
			c.problems.Add(fmt.Sprintf("%.100s", at), "is not a known field")
			c.skip(c.next())
		case seen[key]:
			c.problems.Add(at, "is given twice")
			c.skip(c.next())
		default:
			seen[key] = true
			c.value(field, at)
		}
	}
	c.next()
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if isNumberKind(fields[key]) && !seen[key] {
			c.problems.Add(strings.TrimPrefix(path+"."+key, "."), "is missing")
		}
	}
}

// collect adds the fields of a struct by JSON name, including those of embedded structs.
func collect(t reflect.Type, fields map[string]reflect.Type) {
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			collect(f.Type, fields)
		case f.IsExported() && tag != "-" && tag != "":
			fields[tag] = f.Type
		}
	}
}

func isNumberKind(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64
}

func (c checker) reject(first json.Token, path, want string) {
	c.problems.Add(name(path), "must be %s", want)
	c.skip(first)
}

func name(path string) string {
	if path == "" {
		return "line"
	}
	return path
}
