package jsonlines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"opportunity.internal/pkg/api"
)

// checker compares a line, which must be valid JSON, with a Go type. It reads the text itself:
// encoding/json allocates memory for each token.
type checker struct {
	line     []byte
	at       int // start of the next token, or space before it
	problems *api.Problems
}

// place is the position of a value in a line.
type place struct {
	parent *place
	name   string
	index  int // in an array; -1 in an object
}

// String returns the path of the value, such as pays[0].unit, or line.
func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.index >= 0:
		return fmt.Sprintf("%s[%d]", p.parent, p.index)
	case p.parent == nil:
		return p.name
	}
	return p.parent.String() + "." + p.name
}

func (p *place) short() string { return fmt.Sprintf("%.100s", p) }

func (c *checker) value(t reflect.Type, at *place) {
	first := c.peek()
	if t.Kind() == reflect.Pointer {
		if first == 'n' {
			c.skip()
			return
		}
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		if c.expect('"', "a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z", at) {
			if _, err := api.ParseTimestamp(string(unquoted(c.skip()))); err != nil {
				c.problems.Add(at.String(), "%v", err)
			}
		}
	case t.Kind() == reflect.Struct:
		if c.expect('{', "an object", at) {
			c.object(t, at)
		}
	case t.Kind() == reflect.Slice:
		if c.expect('[', "an array", at) {
			c.array(t.Elem(), at)
		}
	case t.Kind() == reflect.String:
		if c.expect('"', "a string", at) {
			c.text(c.skip(), at)
		}
	case t.Kind() == reflect.Bool:
		if first != 't' && first != 'f' {
			c.problems.Add(at.String(), "must be true or false; it is %.40s", c.skip())
			return
		}
		c.skip()
	case isNumberKind(t):
		switch literal := string(c.skip()); {
		case first != '-' && (first < '0' || first > '9'):
			c.problems.Add(at.String(), "must be a number, without quotes; it is %.40s", literal)
		case t.Kind() != reflect.Float64 && strings.ContainsAny(literal, ".eE"):
			c.problems.Add(at.String(), "must be a whole number, with all its digits; it is %.40s", literal)
		default:
			if err := api.CheckNumber(literal); err != nil {
				c.problems.Add(at.String(), "%v", err)
			}
		}
	default:
		panic("jsonlines: no rule for " + t.String())
	}
}

// expect reports whether the next value begins with first. If not, it records a problem and skips
// the value.
func (c *checker) expect(first byte, what string, at *place) bool {
	if c.peek() == first {
		return true
	}
	c.problems.Add(at.String(), "must be %s", what)
	c.skip()
	return false
}

func (c *checker) array(element reflect.Type, at *place) {
	c.at++ // the bracket
	for i := 0; c.peek() != ']'; i++ {
		c.value(element, &place{at, "", i})
		c.separator()
	}
	c.at++
}

func (c *checker) object(t reflect.Type, at *place) {
	o := objectOf(t)
	seen := make([]bool, len(o.fields))
	for c.at++; c.peek() != '}'; c.separator() {
		key := unquoted(c.skip())
		c.separator()
		f, known := o.fields[string(key)]
		switch {
		case !known:
			c.problems.Add((&place{at, string(key), -1}).short(), "is not a known field")
			c.skip()
		case seen[f.number]:
			c.problems.Add((&place{at, f.name, -1}).String(), "is given twice")
			c.skip()
		default:
			seen[f.number] = true
			c.value(f.of, &place{at, f.name, -1})
		}
	}
	c.at++
	for _, f := range o.required {
		if !seen[f.number] {
			c.problems.Add((&place{at, f.name, -1}).String(), "is missing")
		}
	}
}

func (c *checker) peek() byte {
	for {
		switch b := c.line[c.at]; b {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return b
		}
	}
}

func (c *checker) separator() {
	if b := c.peek(); b == ',' || b == ':' {
		c.at++
	}
}

func (c *checker) skip() []byte {
	c.peek()
	begin := c.at
	c.at = c.end()
	return c.line[begin:c.at]
}

// delimiters end a number, true, false or null.
var delimiters = []byte(",]} \t\r\n")

func (c *checker) end() int {
	depth := 0
	for i := c.at; ; {
		switch c.line[i] {
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case '"':
			i = endOfString(c.line, i)
		default:
			i++ // of a literal, or between values
			for depth == 0 && i < len(c.line) && bytes.IndexByte(delimiters, c.line[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

func endOfString(text []byte, i int) int {
	for i++; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func unquoted(literal []byte) []byte {
	if bytes.IndexByte(literal, '\\') < 0 {
		return literal[1 : len(literal)-1]
	}
	var s string
	_ = json.Unmarshal(literal, &s) // it is valid
	return []byte(s)
}

type object struct {
	fields   map[string]field // by JSON name, including those of embedded structs
	required []field          // numbers, which would decode as zero if missing; ordered by name
}

type field struct {
	name   string
	number int
	of     reflect.Type
}

var objects sync.Map // object by reflect.Type

func objectOf(t reflect.Type) object {
	if known, ok := objects.Load(t); ok {
		return known.(object) //nolint:errcheck,forcetypeassert // it has no others
	}
	o := object{fields: map[string]field{}}
	o.collect(t)
	for _, f := range o.fields {
		if isNumberKind(f.of) {
			o.required = append(o.required, f)
		}
	}
	slices.SortFunc(o.required, func(a, b field) int { return strings.Compare(a.name, b.name) })
	objects.Store(t, o)
	return o
}

func (o object) collect(t reflect.Type) {
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			o.collect(f.Type)
		case f.IsExported() && tag != "-" && tag != "":
			o.fields[tag] = field{tag, len(o.fields), f.Type}
		}
	}
}

func isNumberKind(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64
}
