// Package params parses query strings strictly. It rejects invalid and unknown parameters: ignoring
// a filter would return the wrong records.
//
// Read returns Values, whose methods parse one parameter each. Errors are of package problem and
// name the parameter, the value and what was expected, for an unknown name the nearest known one. A
// Page is the part of a list that the parameters page and limit select.
package params

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Values holds the parameters of a request by name. Values are not empty.
type Values map[string]string

// Read parses a raw query string. Only '&' separates parameters, and names are case-sensitive. It
// returns an error that names the parameters that are unknown, repeated, empty or badly escaped,
// and the other parameters. The error never has the value of an unknown parameter, which may be a
// key.
func Read(raw string, allowed ...string) (Values, error) {
	return ReadWith(raw, func(string) string { return "" }, allowed...)
}

// ReadWith works like Read. hint returns what an error says of an unknown name, or "".
func ReadWith(raw string, hint func(name string) string, allowed ...string) (Values, error) {
	values := Values{}
	var errs []error
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" || len(errs) > maxNamed {
			continue
		}
		if err := values.read(pair, hint, allowed, len(errs) == 0); err != nil {
			errs = append(errs, err)
		}
	}
	return values, Join(errs...)
}

// read adds the parameter of a pair. listed says whether an error lists the allowed names.
func (v Values) read(pair string, hint func(string) string, allowed []string, listed bool) error {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(rawName)
	if err != nil || !slices.Contains(allowed, name) {
		if known := hint(name); known != "" {
			return &problem.Error{Code: problem.UnknownParameter, Path: name, Message: "is unknown here; " + known}
		}
		return unknown(name, allowed, listed)
	}
	if _, twice := v[name]; twice {
		return &problem.Error{Code: problem.DuplicateParameter, Path: name,
			Message: "appears more than once; send it once"}
	}
	value, err := url.QueryUnescape(rawValue)
	if err != nil {
		return problem.Invalid(name, "is not a valid percent-encoded value")
	}
	if value == "" {
		return problem.Invalid(name, "is empty; leave it out instead")
	}
	v[name] = value
	return nil
}

// maxNamed is the number of problems that an error names.
const maxNamed = 5

// Join returns an error with the code of the first error and the messages of the first five. It
// returns nil if all are nil.
func Join(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	first := *problem.Of(errs[0])
	first.Path, first.Message = "", first.Text()
	for _, err := range errs[1:min(len(errs), maxNamed)] {
		first.Message += " " + problem.Of(err).Text()
	}
	if len(errs) > maxNamed {
		first.Message += " There are more problems."
	}
	return &first
}

func unknown(name string, allowed []string, listed bool) error {
	expected := ""
	switch {
	case listed && len(allowed) > 0:
		expected = "; this operation takes " + strings.Join(allowed, ", ")
	case listed:
		expected = "; this operation takes none"
	}
	if !nameLike(name) {
		return problem.New(problem.UnknownParameter, "The query string contains an unknown parameter%s.", expected)
	}
	if near := Nearest(name, allowed, maxTypos); near != "" {
		expected = "; did you mean " + near + "?"
	}
	return &problem.Error{Code: problem.UnknownParameter, Path: name, Message: "is unknown" + expected}
}

const maxTypos = 2

// Nearest returns the allowed name, in lower case, that differs from name in case, in hyphens for
// underscores, or in the fewest letters that were added, left out or changed, at most most. It
// returns "" if there is none.
func Nearest(name string, allowed []string, most int) string {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	best, least := "", most+1
	for _, candidate := range allowed {
		if d := Distance(name, candidate); d < least && d < len(candidate)/2 {
			best, least = candidate, d
		}
	}
	return best
}

// Distance returns the Levenshtein distance of two names.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// nameLike reports whether name looks like a parameter name. Other names are not quoted in errors,
// because they may be keys.
func nameLike(name string) bool {
	return len(name) > 0 && len(name) <= 32 && strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.[]") == ""
}

// Bool returns the value of a parameter that must be exactly true or false. It returns nil if the
// parameter is absent.
func (v Values) Bool(name string) (*bool, error) {
	s, ok := v[name]
	if !ok {
		return nil, nil
	}
	if s != "true" && s != "false" {
		return nil, problem.Invalid(name, "must be true or false")
	}
	b := s == "true"
	return &b, nil
}

// Flag returns the value of a parameter that must be exactly true or false. It returns false if the
// parameter is absent.
func (v Values) Flag(name string) (bool, error) {
	b, err := v.Bool(name)
	return b != nil && *b, err
}

// OneOf returns the value of a parameter that must be one of known. It returns "" if the parameter
// is absent.
func OneOf[T ~string](v Values, name string, known ...T) (T, error) {
	s, ok := v[name]
	if !ok || slices.Contains(known, T(s)) {
		return T(s), nil
	}
	all := strings.Trim(fmt.Sprint(known), "[]")
	return "", problem.Invalid(name, "must be one of "+strings.ReplaceAll(all, " ", ", "))
}

// Integer returns the value of a parameter that must be a decimal number from low to high, without
// sign, spaces or leading zeros. It returns absent if the parameter is absent.
func (v Values) Integer(name string, low, high, absent int) (int, error) {
	s, ok := v[name]
	if !ok {
		return absent, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high || strconv.Itoa(n) != s {
		return 0, problem.Invalid(name, "must be an integer from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return n, nil
}

// Time returns the value of a parameter that must be a time in RFC 3339. It returns the zero time
// if the parameter is absent.
func (v Values) Time(name string) (time.Time, error) {
	s, ok := v[name]
	if !ok {
		return time.Time{}, nil
	}
	t, err := api.ParseTimestamp(s)
	if err != nil {
		return time.Time{}, problem.Invalid(name, "must be a time such as 2026-11-20T00:00:00Z")
	}
	return t, nil
}

// Limits and default of page and limit.
const (
	MaxPage      = 1_000_000
	MaxLimit     = api.MaxPageSize
	DefaultLimit = 10
)

// Page is a page of a list: its number, from 1, and its maximum number of records.
type Page struct{ Number, Limit int }

// Page returns the parameters page and limit. It reduces limit to maxLimit, the page size of the
// caller's tier. It returns an error if page is not in 1..MaxPage or limit is not in 1..MaxLimit.
func (v Values) Page(maxLimit int) (Page, error) {
	number, err1 := v.Integer("page", 1, MaxPage, 1)
	limit, err2 := v.Limit(maxLimit)
	return Page{Number: number, Limit: limit}, Join(err1, err2)
}

// Limit returns the parameter limit, reduced to maxLimit, the page size of the caller's tier. It
// returns an error if it is not in 1..MaxLimit.
func (v Values) Limit(maxLimit int) (int, error) {
	limit, err := v.Integer("limit", 1, MaxLimit, DefaultLimit)
	return min(limit, maxLimit), err
}

// Offset returns the number of records before the page.
func (p Page) Offset() int { return (p.Number - 1) * p.Limit }

// Pagination returns the pagination of the page among total records. The URL of the next page is
// baseURL + path with the given filters. MaxPage never has a next page.
func (p Page) Pagination(baseURL, path string, filters [][2]string, total int) api.Pagination {
	out := api.Pagination{Page: p.Number, Limit: p.Limit, Total: total, HasMore: p.Offset()+p.Limit < total &&
		p.Number < MaxPage}
	if out.HasMore {
		next := Page{Number: p.Number + 1, Limit: p.Limit}
		address := baseURL + path + "?" + Encode(next.Append(filters))
		out.Next = &address
	}
	return out
}

// Append returns a copy of filters with page and limit appended.
func (p Page) Append(filters [][2]string) [][2]string {
	all := make([][2]string, 0, len(filters)+2)
	all = append(all, filters...)
	return append(all, [2]string{"page", strconv.Itoa(p.Number)}, [2]string{"limit", strconv.Itoa(p.Limit)})
}

// Encode returns the query string of the parameters, in the given order.
func Encode(pairs [][2]string) string {
	var b strings.Builder
	for i, pair := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(pair[0]))
		b.WriteByte('=')
		b.WriteString(url.QueryEscape(pair[1]))
	}
	return b.String()
}
