// Package query parses and validates the query string of the list operation.
package query

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
)

// Filter selects records that meet all conditions that are set. An unknown fact meets neither true nor false.
type Filter struct {
	Country      string                    // ISO 3166-1 alpha-2 in upper case; "" is no condition
	Province     string                    // ISO 3166-2 ("CA-ON"); requires Country "CA"
	Facts        [len(api.BoolFacts)]*bool // in the order of api.BoolFacts
	Verified     *bool
	Category     api.Category
	CheckedAfter *time.Time // inclusive, compared with the latest factual review
}

// Query is a filter and the requested page of its result.
type Query struct {
	Filter Filter
	Page   params.Page
}

// names lists the parameters of the list operation, in the order of validation and of the canonical form.
var names = func() []string {
	names := []string{"country", "province"}
	for _, b := range new(Filter).booleans() {
		names = append(names, b.name)
	}
	return append(names, "category", "checked_after", "page", "limit")
}()

// Parse reads a raw query string and reduces the limit to maxLimit, the caller's page size. It returns a *problem.Error that names the
// invalid parameters, in a fixed order.
func Parse(raw string, maxLimit int) (q Query, err error) {
	v, err := params.Read(raw, names...)
	errs := []error{err}
	f := &q.Filter
	f.Country, err = country(v)
	if errs = append(errs, err); err == nil { // a province is checked beside a valid country
		f.Province, err = province(v, f.Country)
		errs = append(errs, err)
	}
	for _, b := range f.booleans() {
		*b.value, err = v.Bool(b.name)
		errs = append(errs, err)
	}
	f.Category, err = category(v)
	errs = append(errs, err)
	f.CheckedAfter, err = checkedAfter(v)
	errs = append(errs, err)
	q.Page, err = v.Page(maxLimit)
	if err = params.Join(append(errs, err)...); err != nil {
		return Query{}, err
	}
	return q, nil
}

// RejectAll returns a *problem.Error if raw has any parameter. The detail operation takes none.
func RejectAll(raw string) error {
	_, err := params.Read(raw)
	return err
}

// Params returns the canonical form of the filter: the conditions that are set, in a fixed order and spelling. Equal filters have equal
// Params. Parse accepts them.
func (f Filter) Params() [][2]string {
	var out [][2]string
	add := func(name, value string) {
		if value != "" {
			out = append(out, [2]string{name, value})
		}
	}
	add("country", f.Country)
	add("province", f.Province)
	for _, b := range f.booleans() {
		if *b.value != nil {
			add(b.name, strconv.FormatBool(**b.value))
		}
	}
	add("category", string(f.Category))
	if f.CheckedAfter != nil {
		add("checked_after", f.CheckedAfter.Format(time.RFC3339Nano))
	}
	return out
}

type boolean struct {
	name  string
	value **bool
}

// booleans returns the boolean conditions in the order of validation.
func (f *Filter) booleans() []boolean {
	all := make([]boolean, 0, len(f.Facts)+1)
	for i, fact := range api.BoolFacts {
		all = append(all, boolean{fact.Param, &f.Facts[i]})
	}
	return slices.Insert(all, 1, boolean{"verified", &f.Verified}) // its place in the documentation
}

func country(v params.Values) (string, error) {
	s, ok := v["country"]
	if ok && (len(s) != 2 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "") {
		return "", params.Invalid("country", "must be a country code of two letters, such as CA")
	}
	return strings.ToUpper(s), nil
}

func province(v params.Values, country string) (string, error) {
	s, ok := v["province"]
	if !ok {
		return "", nil
	}
	code, ok := api.ProvinceCode(s)
	if !ok {
		return "", params.Invalid("province", "must be a Canadian province or territory, such as ON or CA-ON: one of "+
			strings.Join(api.Provinces, ", "))
	}
	if country != "CA" {
		return "", params.Invalid("province", "needs country=CA beside it")
	}
	return code, nil
}

func category(v params.Values) (api.Category, error) {
	s, ok := v["category"]
	if !ok {
		return "", nil
	}
	known := make([]string, len(api.Categories))
	for i, c := range api.Categories {
		if known[i] = string(c); known[i] == s {
			return c, nil
		}
	}
	return "", params.Invalid("category", "must be one of "+strings.Join(known, ", "))
}

func checkedAfter(v params.Values) (*time.Time, error) {
	s, ok := v["checked_after"]
	if !ok {
		return nil, nil
	}
	at, err := api.ParseInstant(s)
	if err != nil || at.Year() < 0 || at.Year() > 9999 { // an offset can leave the years that RFC 3339 supports
		return nil, params.Invalid("checked_after",
			"must be a date (2026-11-20) or a timestamp with an offset (2026-11-20T09:00:00Z; write the + of an offset as %2B)")
	}
	return &at, nil
}
