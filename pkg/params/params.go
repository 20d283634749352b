// Package params parses query strings strictly. It rejects invalid and unknown parameters: ignoring a filter would return the wrong
// records.
package params

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/problem"
)

// Values holds the parameters of a request by name. Values are not empty.
type Values map[string]string

// Read parses a raw query string. Only '&' separates parameters, and names are case-sensitive. It returns an error for the first parameter
// that is unknown, repeated, empty or badly escaped. The error never has the value of an unknown parameter, which may be a key.
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

// Invalid returns an error for an invalid value. what completes the sentence "Parameter NAME ...".
func Invalid(name, what string) *problem.Error {
	return problem.New(problem.InvalidParameter, "Parameter %s %s.", name, what)
}

func unknown(name string, allowed []string) error {
	expected := "this operation takes none"
	if len(allowed) > 0 {
		expected = "this operation takes " + strings.Join(allowed, ", ")
	}
	if !nameLike(name) {
		return problem.New(problem.UnknownParameter, "The query string contains an unknown parameter; %s.", expected)
	}
	return problem.New(problem.UnknownParameter, "Parameter %s is unknown; %s.", name, expected)
}

// nameLike reports whether name looks like a parameter name. Other names are not quoted in errors, because they may be keys.
func nameLike(name string) bool {
	return len(name) > 0 && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.[]") == ""
}

// Bool returns the value of a parameter that must be exactly true or false. It returns nil if the parameter is absent.
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

// Integer returns the value of a parameter that must be a decimal number from low to high, without sign, spaces or leading zeros. It
// returns absent if the parameter is absent.
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

// Time returns the value of a parameter that must be a time in RFC 3339. It returns the zero time if the parameter is absent.
func (v Values) Time(name string) (time.Time, error) {
	s, ok := v[name]
	if !ok {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, Invalid(name, "must be a time such as 2026-11-20T00:00:00Z")
	}
	return t.UTC(), nil
}
