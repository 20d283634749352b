// Package query parses and validates the query strings that consumers send: Parse and ParseSearch
// return a Query, which has a Filter and a page, and ParseChanges returns Changes.
//
// Every invalid parameter is named, in a fixed order. Params returns the canonical form of a query,
// which the addresses of other pages and entity tags use, so equal queries have equal addresses.
// Words defines which words the search takes for equal.
package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/listing"
)

// Filter selects records that meet all conditions that are set. An unknown fact meets neither true
// nor false.
type Filter struct {
	Country      string                    // ISO 3166-1 alpha-2 in upper case; "" is no condition
	Province     string                    // ISO 3166-2 ("CA-ON"); requires Country "CA"
	Facts        [len(api.BoolFacts)]*bool // in the order of api.BoolFacts
	Verified     *bool
	Category     api.Category
	CheckedAfter *time.Time // inclusive, compared with the latest factual review
	Search       Search
}

// Search has the conditions that only the search takes. "" is no condition. Texts are as the caller
// wrote them; compare their Words.
type Search struct {
	Q                 string
	ApplicationStatus api.ApplicationStatus
	Language          string
	PayUnit           api.PayUnit
	Subcategory       string
}

// Query is a filter and the requested page of its result.
type Query struct {
	Filter Filter
	Page   params.Page
}

// SearchPath is the path of the search.
const SearchPath = "/api/v1/search"

var searchNames = []string{"q", "application_status", "language", "pay_unit", "subcategory"}

// names lists the parameters of the search, in the order of validation and of the canonical form.
var names = func() []string {
	names := []string{"country", "province"}
	for _, b := range new(Filter).booleans() {
		names = append(names, b.name)
	}
	return slices.Concat(names, []string{"category", "checked_after"}, searchNames, []string{"page", "limit"})
}()

// listNames lists the parameters of the list operation, in the same order.
var listNames = slices.DeleteFunc(slices.Clone(names),
	func(name string) bool { return slices.Contains(searchNames, name) })

// Parse reads a raw query string of the list operation and reduces the limit to maxLimit, the
// caller's page size. It returns a *problem.Error that names the invalid parameters, in a fixed
// order.
func Parse(raw string, maxLimit int) (Query, error) {
	return parse(raw, maxLimit, listNames)
}

// ParseSearch reads a raw query string of the search. Otherwise it works like Parse.
func ParseSearch(raw string, maxLimit int) (Query, error) {
	return parse(raw, maxLimit, names)
}

func parse(raw string, maxLimit int, allowed []string) (q Query, err error) {
	v, err := params.ReadWith(raw, func(name string) string {
		if slices.Contains(searchNames, name) {
			return "GET " + SearchPath + " takes it"
		}
		return ""
	}, allowed...)
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
	f.Category, err = params.OneOf(v, "category", api.Categories...)
	errs = append(errs, err)
	f.CheckedAfter, err = checkedAfter(v)
	errs = append(errs, err)
	f.Search, err = search(v)
	errs = append(errs, err)
	q.Page, err = v.Page(maxLimit)
	if err = params.Join(append(errs, err)...); err != nil {
		return Query{}, err
	}
	return q, nil
}

// Params returns the canonical form of the filter: the conditions that are set, in a fixed order
// and spelling. Equal filters have equal Params. Parse accepts them.
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
	add("q", f.Search.Q)
	add("application_status", string(f.Search.ApplicationStatus))
	add("language", f.Search.Language)
	add("pay_unit", string(f.Search.PayUnit))
	add("subcategory", f.Search.Subcategory)
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
		return "", problem.Invalid("country", "must be a country code of two letters, such as CA")
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
		return "", problem.Invalid("province", "must be a Canadian province or territory, such as ON or CA-ON: one of "+
			strings.Join(api.Provinces, ", "))
	}
	if country != "CA" {
		return "", problem.Invalid("province", "needs country=CA beside it")
	}
	return code, nil
}

func search(v params.Values) (s Search, err error) {
	var errs [5]error
	s.Q, errs[0] = text(v, "q", 100)
	s.ApplicationStatus, errs[1] = params.OneOf(v, "application_status", api.ApplicationStatuses...)
	s.Language, errs[2] = text(v, "language", 100)
	s.PayUnit, errs[3] = params.OneOf(v, "pay_unit", api.PayUnits...)
	s.Subcategory, errs[4] = text(v, "subcategory", 200)
	return s, params.Join(errs[:]...)
}

func text(v params.Values, name string, most int) (string, error) {
	s, ok := v[name]
	switch {
	case !ok:
		return "", nil
	case !utf8.ValidString(s):
		return "", problem.Invalid(name, "must be UTF-8, percent-encoded")
	case utf8.RuneCountInString(s) > most:
		return "", problem.Invalid(name, fmt.Sprintf("must have at most %d characters", most))
	case Words(s) == "":
		return "", problem.Invalid(name, "must have a letter or a digit")
	}
	return s, nil
}

func checkedAfter(v params.Values) (*time.Time, error) {
	s, ok := v["checked_after"]
	if !ok {
		return nil, nil
	}
	at, err := api.ParseInstant(s)
	if err != nil || at.Year() < 0 || at.Year() > 9999 { // an offset can leave the years that RFC 3339 supports
		return nil, problem.Invalid("checked_after",
			"must be a date (2026-11-20) or a timestamp with an offset (2026-11-20T09:00:00Z; write the + of an offset as %2B)")
	}
	return &at, nil
}

// Now is the value of after for the newest position.
const Now = "now"

// Changes are the parameters of the changes operation.
type Changes struct {
	After    string           // a cursor, Now, or "" for the oldest changes that are kept
	Position listing.Position // of the cursor
	Limit    int
}

// ParseChanges reads a raw query string like Parse.
func ParseChanges(raw string, maxLimit int) (Changes, error) {
	v, err := params.Read(raw, "after", "limit")
	if err != nil {
		return Changes{}, err
	}
	q := Changes{After: v["after"]}
	if q.After != "" && q.After != Now {
		var ok bool
		if q.Position, ok = listing.ParseCursor(q.After); !ok {
			return Changes{}, problem.Invalid("after", "must be a cursor of an earlier response, or now")
		}
	}
	q.Limit, err = v.Limit(maxLimit)
	return q, err
}

// Params returns the canonical form of the parameters.
func (q Changes) Params() [][2]string {
	limit := [2]string{"limit", strconv.Itoa(q.Limit)}
	if q.After == "" {
		return [][2]string{limit}
	}
	return [][2]string{{"after", q.After}, limit}
}

// letters are the letters whose decomposition is not what people type for them.
var letters = strings.NewReplacer("ß", "ss", "œ", "oe", "æ", "ae", "ø", "o", "đ", "d", "ð", "d", "ł", "l",
	"þ", "th", "ħ", "h", "ı", "i", "ς", "σ")

// Words returns the words of text, each in the form in which the search compares words, separated
// by a space. A word is a sequence of letters and digits. The form has no case, no marks such as
// accents, and no compatibility forms such as ligatures. The SDKs do the same; change them
// together.
func Words(text string) string {
	b := make([]byte, 0, len(text))
	for _, r := range letters.Replace(strings.ToLower(decomposed(text))) {
		switch {
		case unicode.IsMark(r), unicode.Is(unicode.Cf, r): // Cf has the soft hyphen
		case unicode.IsLetter(r), unicode.IsNumber(r):
			b = utf8.AppendRune(b, r)
		case len(b) > 0 && b[len(b)-1] != ' ':
			b = append(b, ' ')
		}
	}
	return strings.TrimSuffix(string(b), " ")
}

func decomposed(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return text // saves most of the time
	}
	return norm.NFKD.String(text)
}

// Begin reports whether each of the words begins one of the words in text.
func Begin(words, text string) bool {
	for w := range strings.FieldsSeq(words) {
		if !strings.Contains(" "+text, " "+w) {
			return false
		}
	}
	return true
}
