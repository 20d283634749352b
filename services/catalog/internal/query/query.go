// Package query turns a query string into a filter and a page, or refuses it before anything is read.
package query

import (
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
)

// Filter says which records are wanted. Every condition that is set must hold, and a record of which the fact is unknown
// fails it either way.
type Filter struct {
	Country            string // ISO 3166-1 alpha-2 in upper case; "" is no condition
	Province           string // ISO 3166-2 ("CA-ON"); set only beside Country "CA"
	Remote             *bool
	Verified           *bool
	DegreeRequired     *bool
	ExperienceRequired *bool
	Flexible           *bool
	Category           api.Category
	CheckedAfter       *time.Time // inclusive, compared with the latest factual review
}

// Query is a filter and the page of its result that is wanted.
type Query struct {
	Filter Filter
	Page   params.Page
}

// names are the parameters of the list operation, in the order in which they are checked and written.
var names = []string{
	"country", "province", "remote", "verified", "degree_required", "experience_required", "flexible", "category",
	"checked_after", "page", "limit",
}

// Parse reads a raw query string for a caller whose pages hold at most cap records. Every refusal is a *problem.Error that
// names the parameter; of several mistakes it is always the same one that is named.
func Parse(raw string, maxLimit int) (Query, error) {
	v, err := params.Read(raw, names...)
	if err != nil {
		return Query{}, err
	}
	var q Query
	f := &q.Filter
	if f.Country, err = country(v); err != nil {
		return Query{}, err
	}
	if f.Province, err = province(v, f.Country); err != nil {
		return Query{}, err
	}
	for _, b := range f.booleans() {
		if *b.value, err = v.Bool(b.name); err != nil {
			return Query{}, err
		}
	}
	if f.Category, err = category(v); err != nil {
		return Query{}, err
	}
	if f.CheckedAfter, err = checkedAfter(v); err != nil {
		return Query{}, err
	}
	q.Page, err = v.Page(maxLimit)
	return q, err
}

// None refuses every parameter: the detail operation has none.
func RejectAll(raw string) error {
	_, err := params.Read(raw)
	return err
}

// Params is the canonical form of the filter: the conditions that are set, in a fixed order and one spelling. Equal filters
// have equal Params, and Parse reads them back.
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

func (f *Filter) booleans() [5]boolean {
	return [5]boolean{
		{"remote", &f.Remote},
		{"verified", &f.Verified},
		{"degree_required", &f.DegreeRequired},
		{"experience_required", &f.ExperienceRequired},
		{"flexible", &f.Flexible},
	}
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
	at, err := api.CheckDate(s).Time()
	if err != nil || at.Year() < 0 || at.Year() > 9999 { // an offset can lead out of the years that RFC 3339 can write
		return nil, params.Invalid("checked_after",
			"must be a date (2026-11-20) or a timestamp with an offset (2026-11-20T09:00:00Z; write the + of an offset as %2B)")
	}
	return &at, nil
}
