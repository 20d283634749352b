// Package params reads query strings strictly: what is not understood is refused, never ignored, because an ignored filter
// would answer a question that nobody asked.
package params

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/problem"
)

// Values are the parameters of one request, each present once and not empty.
type Values map[string]string

// Read parses a raw query string. Only '&' separates parameters; names are case-sensitive. The first parameter that is
// unknown, repeated, empty or badly escaped is refused by name. Values that stand under an unknown name are never repeated in
// the error, because people paste keys there.
func Read(raw string, allowed ...string) (Values, error) {
	values := Values{}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil || !slices.Contains(allowed, name) {
			return nil, unknown(name, allowed)
		}
		if _, twice := values[name]; twice {
			return nil, problem.New(problem.DuplicateParameter, "Parameter %s appears more than once; send it once.", name)
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return nil, Invalid(name, "is not a valid percent-encoded value")
		}
		if value == "" {
			return nil, Invalid(name, "is empty; leave it out instead")
		}
		values[name] = value
	}
	return values, nil
}

// Invalid refuses the value of a parameter; what completes the sentence "Parameter NAME ...".
func Invalid(name, what string) *problem.Error {
	return problem.New(problem.InvalidParameter, "Parameter %s %s.", name, what)
}

func unknown(name string, allowed []string) error {
	expected := "this operation takes none"
	if len(allowed) > 0 {
		expected = "this operation takes " + strings.Join(allowed, ", ")
	}
	if !nameLike(name) {
		return problem.New(problem.UnknownParameter, "The query string holds an unknown parameter; %s.", expected)
	}
	return problem.New(problem.UnknownParameter, "Parameter %s is unknown; %s.", name, expected)
}

// nameLike keeps keys and rubbish out of error messages: only a short plain word is repeated to the caller.
func nameLike(name string) bool {
	return len(name) > 0 && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.[]") == ""
}

// Bool reads true or false, exactly; nil where the parameter is absent.
func (v Values) Bool(name string) (*bool, error) {
	s, ok := v[name]
	if !ok {
		return nil, nil
	}
	if s != "true" && s != "false" {
		return nil, Invalid(name, "must be true or false")
	}
	b := s == "true"
	return &b, nil
}

// Integer reads a decimal number between low and high, without sign, spaces or leading zeros; absent where it is not
// given.
func (v Values) Integer(name string, low, high, absent int) (int, error) {
	s, ok := v[name]
	if !ok {
		return absent, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high || strconv.Itoa(n) != s {
		return 0, Invalid(name, "must be an integer from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return n, nil
}
