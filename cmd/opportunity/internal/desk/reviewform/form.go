// Package reviewform is the form of a factual review: what a review sheet puts into it, and the review that its input means.
//
// The input stays url.Values, so that a page can always show it again and a draft can store it. Each fact has a decision. A fact is
// kept (the recorded value still holds), set to one of its options, changed to the input in its own fields, or unknown. A decision that
// is missing is an error unless "rest" keeps the facts without one.
package reviewform

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// Decisions about a fact. An option's value is a decision too.
const (
	Keep    = "keep"
	Change  = "change"
	Unknown = "unknown"
)

// Mark is the curator's finding at a source.
type Mark string

// Marks of a source. One without a mark was not opened.
const (
	StillSo    Mark = "still"     // still says so
	Otherwise  Mark = "otherwise" // says otherwise
	Gone       Mark = "gone"
	CannotOpen Mark = "cannot"
)

// Names of fields, besides those of the facts.
const (
	fieldShown   = "shown" // checkedAt of the review
	fieldSeen    = "seen"  // newest event on the sheet
	fieldBase    = "base"  // recorded facts on the sheet, as JSON
	fieldOpinion = "opinion"
	fieldRest    = "rest"
	fieldOutcome = "outcome"
	fieldNote    = "note"
	fieldMore    = "more" // further source URLs, one on each line
)

// blanks is the number of empty entries for further countries and risk indicators.
const blanks = 2

// Form is the input of a review.
type Form struct {
	Values  url.Values
	Base    api.Facts // recorded facts that the curator was shown
	Sources []string  // the numbered sources of the form
}

// New returns the form of a sheet without decisions. opinion is the id of the review that a second opinion is about, or empty.
func New(sheet api.ReviewSheet, opinion string) Form {
	f := Form{Values: url.Values{}, Base: sheet.CurrentFacts()}
	f.Sources = sources(sheet, f.Base)
	f.renew(sheet)
	f.Values.Set(fieldOpinion, opinion)
	for i, u := range f.Sources {
		f.Values.Set(field("source", i), u)
	}
	f.fill()
	return f
}

// renew makes the form one of a newer sheet.
func (f *Form) renew(sheet api.ReviewSheet) {
	base, _ := json.Marshal(f.Base) // facts always encode
	f.Values.Set(fieldShown, sheet.GeneratedAt.UTC().Format(time.RFC3339Nano))
	f.Values.Set(fieldSeen, sheet.LastEventID)
	f.Values.Set(fieldBase, string(base))
}

// sources returns the listing's sources, those that facts cite, and the website if there is no other.
func sources(sheet api.ReviewSheet, facts api.Facts) (urls []string) {
	add := func(u string) {
		if !slices.Contains(urls, u) {
			urls = append(urls, u)
		}
	}
	for _, s := range sheet.Record.Sources {
		add(s.URL)
	}
	for _, name := range api.FactNames {
		for _, u := range Cites(facts, name) {
			add(u)
		}
	}
	if len(urls) == 0 {
		add(sheet.Record.Company.Website)
	}
	return urls
}

// Parse returns the form with submitted or stored input. It returns an error for input that no form of the desk sends.
func Parse(values url.Values) (Form, error) {
	f := Form{Values: values}
	if err := json.Unmarshal([]byte(values.Get(fieldBase)), &f.Base); err != nil {
		return f, fmt.Errorf("recorded facts of the form: %w", err)
	}
	f.Base.Complete()
	for i := 0; values.Has(field("source", i)); i++ {
		f.Sources = append(f.Sources, values.Get(field("source", i)))
	}
	f.adopt()
	return f, nil
}

// adopt turns the further pages into numbered sources that still say so. It leaves those that are no URL.
func (f *Form) adopt() {
	var invalid []string
	for _, u := range lines(f.Values.Get(fieldMore)) {
		switch {
		case !api.ValidURL(u):
			invalid = append(invalid, u)
		case !slices.Contains(f.Sources, u):
			f.add(u)
			f.Values.Set(field("mark", len(f.Sources)-1), string(StillSo))
		}
	}
	f.Values.Set(fieldMore, strings.Join(invalid, "\n"))
}

func (f *Form) add(source string) {
	f.Values.Set(field("source", len(f.Sources)), source)
	f.Sources = append(f.Sources, source)
}

// Rebase updates a form for a newer sheet and returns the facts whose recorded value changed. Its input stays, but decisions to keep
// those facts are removed: the curator kept another value.
func (f *Form) Rebase(sheet api.ReviewSheet) (changed []string) {
	recorded := sheet.CurrentFacts()
	changed = Differences(f.Base, recorded)
	f.decideRest()
	for _, name := range changed {
		if f.Decision(name) == Keep {
			f.Values.Del("fact." + name)
		}
	}
	f.Base = recorded
	f.renew(sheet)
	for _, u := range sources(sheet, recorded) {
		if !slices.Contains(f.Sources, u) {
			f.add(u)
		}
	}
	return changed
}

// decideRest turns the common decision to keep the rest into one for each fact, so that it does not apply to new values.
func (f *Form) decideRest() {
	if f.Values.Get(fieldRest) != Keep {
		return
	}
	for _, name := range api.FactNames {
		if f.Values.Get("fact."+name) == "" {
			f.Values.Set("fact."+name, Keep)
		}
	}
	f.Values.Del(fieldRest)
}

// Decision returns the decision about a fact, empty if there is none.
func (f Form) Decision(name string) string {
	decision := f.Values.Get("fact." + name)
	if decision == "" && f.Values.Get(fieldRest) == Keep {
		return Keep
	}
	return decision
}

// Seen returns the id of the newest event on the sheet of the form.
func (f Form) Seen() string { return f.Values.Get(fieldSeen) }

// Opinion returns the id of the review that the second opinion is about, empty for an ordinary review.
func (f Form) Opinion() string { return f.Values.Get(fieldOpinion) }

// Mark returns the mark of a source, empty if it was not opened.
func (f Form) Mark(source string) Mark {
	if i := slices.Index(f.Sources, source); i >= 0 {
		return Mark(f.Values.Get(field("mark", i)))
	}
	return ""
}

// opened returns the sources whose content the curator saw.
func (f Form) opened() []string {
	urls := []string{}
	for _, u := range f.Sources {
		if m := f.Mark(u); m == StillSo || m == Otherwise {
			urls = append(urls, u)
		}
	}
	return urls
}

// evidence returns the private evidence: the stored quotes with those that the form adds and without those that it removes, and the
// sources that could not be used.
func (f Form) evidence(stored []api.Quote) api.Evidence {
	var e api.Evidence
	for i, q := range stored {
		if f.Values.Get(field("forget", i)) != QuoteID(q) {
			e.Quotes = append(e.Quotes, q)
		}
	}
	for i, u := range f.Sources {
		switch f.Mark(u) {
		case Gone:
			e.Gone = append(e.Gone, u)
		case CannotOpen:
			e.Unopened = append(e.Unopened, u)
		}
		text, fact := strings.TrimSpace(f.Values.Get(field("quote", i))), f.Values.Get(field("quotefact", i))
		if text == "" || !slices.Contains(api.FactNames, fact) {
			continue
		}
		e.Quotes = slices.DeleteFunc(e.Quotes, func(q api.Quote) bool { return q.Fact == fact && q.SourceURL == u })
		e.Quotes = append(e.Quotes, api.Quote{Fact: fact, SourceURL: u, Exact: text})
	}
	e.Complete()
	return e
}

// QuoteID identifies a quote in the form.
func QuoteID(q api.Quote) string { return q.Fact + " " + q.SourceURL }

func field(name string, parts ...any) string {
	for _, p := range parts {
		name += fmt.Sprintf(".%v", p)
	}
	return name
}

// lines returns the lines of a text that are not blank.
func lines(text string) []string {
	found := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			found = append(found, line)
		}
	}
	return found
}

// words returns the words of a text, separated by spaces or commas.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}

func number(text string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), ",", "."), 64)
	return n, err == nil && n-n == 0 // finite
}
