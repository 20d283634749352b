package opportunity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the depth of an event. Those of the API have 5.
const maxDepth = 64

// decodeEvent decodes the JSON of an event, which must have one meaning: no member twice, no half of a surrogate pair, no number that is too
// large for a float64.
func decodeEvent(text []byte) (any, error) {
	if !utf8.Valid(text) || !json.Valid(text) || halfPair(text) {
		return nil, errors.New("the event is not JSON in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	event, err := decodeValue(dec, maxDepth)
	if _, isObject := event.(map[string]any); err == nil && !isObject {
		err = errors.New("the event is not an object")
	}
	return event, err
}

// decodeValue decodes the next value. json.Unmarshal would drop members that appear twice.
func decodeValue(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if _, nested := token.(json.Delim); nested && depth == 0 {
		return nil, fmt.Errorf("the event has more than %d levels", maxDepth)
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			value, err := decodeValue(dec, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = dec.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			token, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name, _ := token.(string)
			if _, twice := object[name]; twice {
				return nil, fmt.Errorf("the event has the member %q twice", name)
			}
			if object[name], err = decodeValue(dec, depth-1); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return object, err
	}
	return token, nil
}

// halfPair reports whether valid JSON escapes half of a surrogate pair, which is no character. encoding/json would replace it.
func halfPair(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		first := unit(text[i:])
		if !utf16.IsSurrogate(first) {
			continue
		}
		if text[i+5] != '\\' || utf16.DecodeRune(first, unit(text[i+6:])) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

// unit returns the code unit of an escape such as u00e9, or 0 if it is another one.
func unit(text []byte) rune {
	if text[0] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(text[1:5]), 16, 16)
	return rune(n)
}

// canonical appends canonical JSON (RFC 8785) of a decoded value at a path, without the members that were added after the event was recorded.
// Those must not have a value, so that a proof cannot hide one.
func (e extra) canonical(out []byte, value any, path string) ([]byte, error) {
	var err error
	switch v := value.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name, member := range v {
			if at := strings.TrimPrefix(path+"."+name, "."); !e.added[at] {
				names = append(names, name)
			} else if !empty(member) {
				return nil, unproved(ReasonHiddenValue, "the proof leaves out %s, which has a value", at)
			}
		}
		slices.SortFunc(names, func(a, b string) int { return slices.Compare(units(a), units(b)) })
		out = append(out, '{')
		for i, name := range names {
			out = append(canonicalString(separated(out, i), name), ':')
			if out, err = e.canonical(out, v[name], strings.TrimPrefix(path+"."+name, ".")); err != nil {
				return nil, err
			}
		}
		return append(out, '}'), nil
	case []any:
		out = append(out, '[')
		for i, element := range v {
			if out, err = e.canonical(separated(out, i), element, path+"."+strconv.Itoa(i)); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case string:
		return canonicalString(out, v), nil
	case float64:
		if v == 0 {
			v = 0 // not -0
		}
		text, err := json.Marshal(v) // writes other numbers as RFC 8785 does
		return append(out, text...), err
	}
	return fmt.Appendf(out, "%s", map[any]string{nil: "null", true: "true", false: "false"}[value]), nil
}

// empty reports whether a value says nothing.
func empty(value any) bool {
	list, isList := value.([]any)
	return value == nil || isList && len(list) == 0 || value == "" || value == "unknown"
}

func separated(out []byte, i int) []byte {
	if i > 0 {
		return append(out, ',')
	}
	return out
}

func canonicalString(out []byte, s string) []byte {
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= ' ':
			out = append(out, c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			out = append(out, '\\', "btn_fr"[c-'\b'])
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return append(out, '"')
}

// units returns the UTF-16 code units by which RFC 8785 orders names.
func units(s string) []uint16 { return utf16.Encode([]rune(s)) }
