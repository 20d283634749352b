package jsonlines

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// Check returns an error unless text is one JSON value that can be stored and that every reader
// understands in the same way: in UTF-8, without U+0000 and halves of surrogate pairs (RFC 8259,
// section 8.2), and without names that repeat or differ only in case. encoding/json replaces halves
// by U+FFFD, ignores the case of a name and uses the last of its values.
func Check(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("must be UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return err
	}
	var p api.Problems
	c := checker{line: text, problems: &p}
	if c.any(nil); len(p) > 0 {
		return errors.New(p[0].String())
	}
	return nil
}

func (c *checker) any(at *place) {
	switch c.peek() {
	case '{':
		seen := map[string]string{}
		for c.at++; c.peek() != '}'; c.separator() {
			literal := c.skip()
			name := &place{at, string(unquoted(literal)), -1}
			c.text(literal, name)
			folded := strings.Map(foldCase, name.name)
			switch other, again := seen[folded]; {
			case again && other == name.name:
				c.problems.Add(name.short(), "is given twice")
			case again:
				c.problems.Add(name.short(), "differs from %.40q only in case: remove one of them", other)
			}
			seen[folded] = name.name
			c.separator()
			c.any(name)
		}
		c.at++
	case '[':
		c.at++
		for i := 0; c.peek() != ']'; i++ {
			c.any(&place{at, "", i})
			c.separator()
		}
		c.at++
	case '"':
		c.text(c.skip(), at)
	default:
		c.skip()
	}
}

// foldCase returns the same character for all that strings.EqualFold, and so encoding/json, takes
// for one.
func foldCase(r rune) rune {
	for next := unicode.SimpleFold(r); ; next = unicode.SimpleFold(next) {
		if next <= r {
			return next
		}
	}
}

func (c *checker) text(literal []byte, at *place) {
	if bytes.IndexByte(literal, '\\') < 0 {
		return
	}
	if half := halfPair(literal); half != "" {
		c.problems.Add(at.short(), "must not contain %s, half of a surrogate pair: write the character itself", half)
	}
	if bytes.IndexByte(unquoted(literal), 0) >= 0 {
		c.problems.Add(at.short(), "must not contain U+0000")
	}
}

// escapes matches the escape sequences of a JSON string. Its group is half of a surrogate pair.
var escapes = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.`)

// halfPair returns the first escape sequence of a JSON string that is half of a surrogate pair, or
// an empty text.
func halfPair(literal []byte) string {
	for _, match := range escapes.FindAllSubmatch(literal, -1) {
		if match[1] != nil {
			return string(match[1])
		}
	}
	return ""
}
