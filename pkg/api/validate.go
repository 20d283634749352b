package api

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of fields in files from curators. The catalog's import and the history's append share the
// checks of this file: pkg/jsonlines decodes a line and rejects unknown, repeated and mistyped
// fields; this file checks the values.
const (
	MaxSlug = 80   // characters of an id
	MaxURL  = 2048 // characters of an address
	MaxText = 2000 // characters of a note
)

// Problem is a mistake in a value.
type Problem struct {
	// of the field, such as facts.pay.minimum; empty for the whole line or request
	Path    string `json:"path,omitempty"`
	Code    string `json:"code,omitempty"` // for programs, such as UnknownListing; most problems of a line have none
	Message string `json:"message"`        // what was expected
}

// UnknownListing is the code of a problem with an id that no listing has.
const UnknownListing = "unknown_listing"

// NoListing returns the problem of the field with an id that no listing has.
func NoListing(field string) Problem {
	return Problem{field, UnknownListing, "there is no such listing"}
}

// String returns the path and the message.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems lists all problems of one line.
type Problems []Problem

// Add records a problem of the field with that path; an empty path is the whole line.
func (p *Problems) Add(field, format string, args ...any) {
	*p = append(*p, Problem{Path: field, Message: fmt.Sprintf(format, args...)})
}

// URL records a problem unless CheckURL accepts value.
func (p *Problems) URL(field, value string) {
	err := CheckURL(value)
	switch {
	case err == nil:
	case errors.Is(err, errNotAbsolute) && value != "" && !strings.Contains(value, "@"): // not a password
		p.Add(field, "%v; %q is none", err, short(value))
	default:
		p.Add(field, "%v", err)
	}
}

// URLs calls URL for each element.
func (p *Problems) URLs(field string, values []string) {
	for i, v := range values {
		p.URL(fmt.Sprintf("%s[%d]", field, i), v)
	}
}

// Text replaces a text by its stored form, see Lines, or records a problem.
func (p *Problems) Text(field string, text *string, limit int) {
	p.text(field, text, limit, Lines)
}

// Name is Text for a text of one line, see Line.
func (p *Problems) Name(field string, text *string, limit int) {
	p.text(field, text, limit, Line)
}

// AtMost is Text for a text that may be empty.
func (p *Problems) AtMost(field string, text *string, limit int) {
	if strings.TrimSpace(*text) == "" && len(*text) <= limit {
		*text = ""
		return
	}
	p.text(field, text, limit, Lines)
}

func (p *Problems) text(field string, text *string, limit int, check func(string, int) (string, error)) {
	stored, err := check(*text, limit)
	if err == nil && utf8.RuneCountInString(*text) > limit { // as the schema measures it
		err = tooLong(limit)
	}
	if err != nil {
		p.Add(field, "%v", err)
		return
	}
	p.undamaged(field, stored)
	*text = stored
}

// Excerpt records a problem if a text from a page has more than limit characters, control
// characters other than line breaks and tabs, or characters that change the direction of the text.
// It is compared with the page, so it may have other hidden characters.
func (p *Problems) Excerpt(field, text string, limit int) {
	if utf8.RuneCountInString(text) > limit {
		p.Add(field, "%v", tooLong(limit))
	}
	for i, r := range []rune(text) {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control) && !strings.ContainsRune("\n\r\t", r) {
			p.Add(field, "must not contain %U (%s), its character %d", r, nature(r), i+1)
			break
		}
	}
}

// OneOf records a problem unless value is one of allowed.
func OneOf[T ~string](p *Problems, field string, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		names := make([]string, len(allowed))
		for i, a := range allowed {
			names[i] = string(a)
		}
		p.Add(field, "must be one of %s; %q is none", strings.Join(names, ", "), short(string(value)))
	}
}

var slug = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// ValidSlug reports whether s can be the id of a record: lower-case letters and digits in groups
// joined by single hyphens, at most MaxSlug characters.
func ValidSlug(s string) bool { return len(s) <= MaxSlug && slug.MatchString(s) }

// Provinces lists the codes of Canada's provinces and territories, without the country.
var Provinces = []string{"AB", "BC", "MB", "NB", "NL", "NS", "NT", "NU", "ON", "PE", "QC", "SK", "YT"}

// ProvinceCode returns the normal form ("CA-ON") of a Canadian province or territory, given as "ON"
// or "CA-ON" in any case.
func ProvinceCode(s string) (code string, ok bool) {
	if len(s) == len("CA-ON") && strings.EqualFold(s[:3], "CA-") {
		s = s[3:]
	}
	short := strings.ToUpper(s)
	// two bytes: the upper case of "ſk" is "SK" too
	return "CA-" + short, len(s) == 2 && slices.Contains(Provinces, short)
}

var region = regexp.MustCompile(`^[A-Z]{2}-[A-Z0-9]{1,3}$`)

// Normalize converts facts to the stored form and records all their problems. The stored form is
// complete, with regions as ISO 3166-2 codes without duplicates. field is the path of the facts,
// usually "facts".
func (f *Facts) Normalize(field string, p *Problems) {
	f.Complete()
	seen := map[string]bool{}
	for i := range f.CountryEligibility {
		c, at := &f.CountryEligibility[i], fmt.Sprintf("%s.countryEligibility[%d]", field, i)
		if seen[c.Country] {
			p.Add(at+".country", "%s appears twice; combine the entries of a country into one", c.Country)
		}
		seen[c.Country] = true
		c.normalize(at, p)
	}
	if f.Pay != nil {
		f.Pay.check(field+".pay", p)
	}
	for i := range f.Languages {
		at := fmt.Sprintf("%s.languages[%d]", field, i)
		p.Name(at, &f.Languages[i], 100)
		if strings.ContainsAny(f.Languages[i], ",;/|") {
			p.Add(at, "%q must be one language: write several as separate values", short(f.Languages[i]))
		}
	}
	p.Unique(field+".languages", f.Languages)
	OneOf(p, field+".applicationStatus", f.ApplicationStatus,
		ApplicationOpen, ApplicationWaitlist, ApplicationClosed, ApplicationUnknown)
	if f.ApplicationURL != nil {
		p.URL(field+".applicationUrl", *f.ApplicationURL)
	}
	for i := range f.Requirements {
		p.Text(fmt.Sprintf("%s.requirements[%d]", field, i), &f.Requirements[i], MaxText)
	}
	p.Unique(field+".requirements", f.Requirements)
	for i := range f.RiskIndicators {
		r, at := &f.RiskIndicators[i], fmt.Sprintf("%s.riskIndicators[%d]", field, i)
		p.Name(at+".code", &r.Code, 100)
		p.AtMost(at+".note", &r.Note, MaxText)
		p.URL(at+".sourceUrl", r.SourceURL)
	}
}

func (c *CountryEligibility) normalize(field string, p *Problems) {
	p.Country(field+".country", c.Country)
	OneOf(p, field+".status", c.Status, Eligible, Ineligible, EligibilityUnknown)
	c.IncludedRegions = normalizeRegions(c.Country, c.IncludedRegions, field+".includedRegions", p)
	c.ExcludedRegions = normalizeRegions(c.Country, c.ExcludedRegions, field+".excludedRegions", p)
	if all := c.AllRegions != nil && *c.AllRegions; all && len(c.IncludedRegions) > 0 {
		p.Add(field+".includedRegions", "must be empty if allRegions is true: %s is only a part; "+
			"set allRegions to false, or remove it",
			strings.Join(c.IncludedRegions, ", "))
	}
	if c.Country == "CA" && c.Status == Eligible && len(c.ExcludedRegions) == len(Provinces) {
		p.Add(field+".excludedRegions", "must not name every province and territory of an eligible country: "+
			"set status to %s, or remove one", Ineligible)
	}
	for i, code := range c.ExcludedRegions {
		if slices.Contains(c.IncludedRegions, code) {
			p.Add(fmt.Sprintf("%s.excludedRegions[%d]", field, i),
				"%s is also in includedRegions; remove it from one of them", code)
		}
	}
	p.URLs(field+".sourceUrls", c.SourceURLs)
	p.Unique(field+".sourceUrls", c.SourceURLs)
	if c.claimsEligibility() && len(c.SourceURLs) == 0 {
		p.Add(field+".sourceUrls", "an eligible country, or allRegions true, needs at least one source URL")
	}
	p.AtMost(field+".note", &c.Note, MaxText)
}

func normalizeRegions(country string, regions []string, field string, p *Problems) []string {
	normal := make([]string, 0, len(regions))
	for i, r := range regions {
		code := strings.ToUpper(r)
		if country == "CA" {
			var ok bool
			if code, ok = ProvinceCode(r); !ok {
				p.Add(fmt.Sprintf("%s[%d]", field, i),
					"must be a Canadian province or territory, such as CA-ON or ON; %q is none", short(r))
			}
		} else if !region.MatchString(code) || code[:2] != country {
			p.Add(fmt.Sprintf("%s[%d]", field, i),
				"must be an ISO 3166-2 code that starts with the country, such as US-NY; %q is none", short(r))
		}
		if !slices.Contains(normal, code) {
			normal = append(normal, code)
		}
	}
	return normal
}

func (y *Pay) check(field string, p *Problems) {
	y.Minimum, y.Maximum = y.Minimum+0, y.Maximum+0 // makes a negative zero positive
	if y.Minimum < 0 {
		p.Add(field+".minimum", "%s must not be negative", FormatAmount(y.Minimum))
	}
	if y.Maximum < y.Minimum {
		p.Add(field+".maximum", "%s must not be below the minimum, %s", FormatAmount(y.Maximum),
			FormatAmount(y.Minimum))
	}
	p.Currency(field+".currency", y.Currency)
	OneOf(p, field+".unit", y.Unit, PerHour, PerYear, PerTask, PerAudioMinute)
	p.URL(field+".sourceUrl", y.SourceURL)
}

// Unique records a problem for each value that repeats an earlier one. Case does not matter, nor do
// parts of a URL that do not change the page: the case of its host, a default port, and an empty
// path.
func (p *Problems) Unique(field string, values []string) {
	if len(values) < 2 { // as most lists of a listing, whose URLs would be parsed for nothing
		return
	}
	seen := map[string]int{}
	for i, v := range values {
		key := sameAs(v)
		if first, again := seen[key]; again {
			p.Add(fmt.Sprintf("%s[%d]", field, i), "%q repeats %s[%d]; remove one of them", short(v), field, first)
			continue
		}
		seen[key] = i
	}
}

func sameAs(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		return strings.ToLower(strings.TrimSpace(value))
	}
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}
