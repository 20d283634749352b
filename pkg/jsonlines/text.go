package jsonlines

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
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

// any checks a value of any type.
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

// text checks a string.
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

// halfPair returns the first escape sequence of a JSON string that is half of a surrogate pair, or
// an empty text.
func halfPair(literal []byte) string {
	for i := bytes.IndexByte(literal, '\\'); i >= 0 && i < len(literal); i++ {
		if literal[i] != '\\' {
			continue
		}
		if i++; literal[i] != 'u' {
			continue
		}
		first := unit(literal[i-1:])
		if i += 4; !utf16.IsSurrogate(first) {
			continue
		}
		if utf16.DecodeRune(first, unit(literal[i+1:])) == utf8.RuneError {
			return string(literal[i-5 : i+1])
		}
		i += 6
	}
	return ""
}

// unit returns the value of the escape sequence \uXXXX that text begins with, or -1.
func unit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n) //nolint:gosec // 16 bits
}
