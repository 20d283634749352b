// Package jsonlines reads files of one JSON object per line as curators send them, strictly: a line either means exactly what
// it says or is named with everything that is wrong with it.
//
// Stricter than encoding/json, which would let a curator's slip pass in silence: names are case-sensitive; a name that the
// type does not have, a name given twice, a null where the type has none, and a number left out (zero would be a statement)
// are problems. Bytes that are not UTF-8 and U+0000, which Postgres cannot keep, are too.
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

// MaxLine is the greatest length of one line in bytes.
const MaxLine = 1 << 20

// Line is one line that is not blank. Where there are Problems, Value holds no more than what could be read, for a message.
type Line[T any] struct {
	Number   int // counted from 1, blank lines included
	Value    T
	Problems api.Problems
}

// Read yields the lines of r, blank ones left out. A failure of r ends the sequence with its error; a wrong line does not.
// T is a struct.
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

// readLine reads up to the next line feed. Of a line longer than MaxLine it keeps nothing, so that a file without line feeds
// costs no memory.
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
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil { // from here on the tokens are known to be well-formed
		p.Add("line", "must be one JSON object: %v", err)
		return p
	}
	c := checker{tokens: json.NewDecoder(bytes.NewReader(text)), problems: &p}
	c.tokens.UseNumber()
	c.value(reflect.TypeOf(out).Elem(), "")
	if err := json.Unmarshal(text, out); err != nil && len(p) == 0 {
		p.Add("line", "holds a number that is too large, or not whole where it must be")
	}
	return p
}

// checker holds the tokens of a line against a Go type.
type checker struct {
	tokens   *json.Decoder
	problems *api.Problems
}

func (c checker) next() json.Token {
	t, _ := c.tokens.Token() // decode has parsed the text once already
	return t
}

// skip passes over the rest of a value whose first token is t.
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
			c.refuse(first, path, "a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z")
		}
	case t.Kind() == reflect.Struct:
		if first != json.Delim('{') {
			c.refuse(first, path, "an object")
			return
		}
		c.object(t, path)
	case t.Kind() == reflect.Slice:
		if first != json.Delim('[') {
			c.refuse(first, path, "an array")
			return
		}
		for i := 0; c.tokens.More(); i++ {
			c.value(t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
		c.next()
	case t.Kind() == reflect.String:
		if !isText {
			c.refuse(first, path, "a string")
		} else if strings.ContainsRune(text, 0) {
			c.problems.Add(name(path), "must not contain U+0000")
		}
	case t.Kind() == reflect.Bool:
		if !isBool {
			c.refuse(first, path, "true or false")
		}
	case isNumberKind(t):
		if !isNumber {
			c.refuse(first, path, "a number")
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

// collect adds the JSON names of a struct, those of embedded structs included.
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

func (c checker) refuse(first json.Token, path, want string) {
	c.problems.Add(name(path), "must be %s", want)
	c.skip(first)
}

func name(path string) string {
	if path == "" {
		return "line"
	}
	return path
}
