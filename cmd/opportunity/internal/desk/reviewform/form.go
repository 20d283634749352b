// Package reviewform is the form of a factual review: what a review sheet puts into it, and the
// review that its input means.
//
// The input stays url.Values, so that a page can always show it again and a draft can store it.
// Each fact has a decision. A fact is kept (the recorded value still holds), set to one of its
// options, changed to the input in its own fields, or unknown. A missing decision about a known
// fact is an error unless "rest" keeps the facts without one. A fact that was unknown stays
// unknown.
package reviewform

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
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

// Marks of a source. One without a mark was not opened, unless the curator used a quote from it.
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
	fieldOnly    = "only"   // facts that the second opinion is about
	fieldListed  = "listed" // fields of the listing on the sheet, as JSON by path
	fieldAgain   = "again"  // facts that another review changed since: each needs a decision of its own
	fieldAsked   = "asked"  // added quotes that their page lacks, about which the curator was asked; as JSON
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
	Base    api.Facts         // recorded facts that the curator was shown
	Sources []string          // the numbered sources of the form
	Listed  map[string]string // values of api.ReviewedFields that the curator was shown
}

// New returns the form of a sheet, with the marks and decisions that the machine's readings of its
// quotes allow. opinion is the id of the review that a second opinion is about, or empty.
func New(sheet api.ReviewSheet, opinion string) Form {
	f := Form{Values: url.Values{}, Base: sheet.CurrentFacts()}
	f.renew(sheet)
	f.Values.Set(fieldOpinion, opinion)
	f.Values[fieldOnly] = sheet.OpinionFacts
	for _, u := range sources(sheet, f.Base) {
		f.add(u)
	}
	for _, name := range api.FactNames {
		f.fill(name)
	}
	if opinion == "" {
		f.premark(sheet)
	}
	return f
}

// renew makes the form one of a newer sheet, with its stored quotes.
func (f *Form) renew(sheet api.ReviewSheet) {
	base, _ := json.Marshal(f.Base) // facts always encode
	f.Values.Set(fieldShown, sheet.GeneratedAt.UTC().Format(time.RFC3339Nano))
	f.Values.Set(fieldSeen, sheet.LastEventID)
	f.Values.Set(fieldBase, string(base))
	f.list(sheet.Record)
	for _, name := range api.FactNames {
		f.Values.Del(KeptQuotes(name))
	}
	for _, q := range sheet.CurrentQuotes() {
		f.Values.Add(KeptQuotes(q.Fact), QuoteValue(q))
	}
}

// sources returns the sources of the latest review, then the other sources of the record, those of
// its quotes and those that facts cite, and the website if there is no other. Those that the latest
// review found gone are left out, unless a fact cites them.
func sources(sheet api.ReviewSheet, facts api.Facts) (urls []string) {
	add := func(more ...string) {
		for _, u := range more {
			if !slices.Contains(urls, u) {
				urls = append(urls, u)
			}
		}
	}
	if i := slices.IndexFunc(sheet.Events,
		func(e api.RecordedEvent) bool { return e.CheckType == api.FactualReview && len(e.SourceURLs) > 0 }); i >= 0 {
		add(sheet.Events[i].SourceURLs...)
	}
	for _, s := range sheet.Record.Sources {
		add(s.URL)
	}
	for _, q := range sheet.Evidence.Quotes {
		add(q.SourceURL)
	}
	urls = slices.DeleteFunc(urls, func(u string) bool { return slices.Contains(sheet.Evidence.Gone, u) })
	add(facts.Cites(api.FactNames...)...)
	if len(urls) == 0 {
		add(sheet.Record.Company.Website)
	}
	return urls
}

// Parse returns the form with submitted or stored input. It returns an error for input that no form
// of the desk sends.
func Parse(values url.Values) (Form, error) {
	f := Form{Values: values}
	if err := json.Unmarshal([]byte(values.Get(fieldBase)), &f.Base); err != nil {
		return f, fmt.Errorf("recorded facts of the form: %w", err)
	}
	f.Base.Complete()
	if err := json.Unmarshal([]byte(values.Get(fieldListed)), &f.Listed); err != nil {
		return f, fmt.Errorf("fields of the listing: %w", err)
	}
	for i := 0; values.Has(field("source", i)); i++ {
		f.Sources = append(f.Sources, values.Get(field("source", i)))
	}
	f.adopt()
	return f, nil
}

// adopt turns the further pages into numbered sources that still say so, and the pages of added
// quotes into numbered sources. It leaves further pages that are no URL.
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
	for _, q := range f.Added() {
		if !slices.Contains(f.Sources, q.SourceURL) {
			f.add(q.SourceURL)
		}
	}
}

func (f *Form) add(source string) {
	f.Values.Set(field("source", len(f.Sources)), source)
	f.Sources = append(f.Sources, source)
}

// Rebase updates a form for a newer sheet and returns the facts whose recorded value changed.
// Decisions about those facts are removed, whatever they were: the curator decided about another
// value. A newer review with another outcome removes the outcome too. Other input stays.
func (f *Form) Rebase(sheet api.ReviewSheet) (changed []string) {
	recorded := sheet.CurrentFacts()
	changed = Differences(f.Base, recorded)
	f.decideRest()
	if f.outdatedOutcome(sheet) {
		f.Values.Del(fieldOutcome)
	}
	f.Base = recorded
	f.renew(sheet)
	for _, u := range sources(sheet, recorded) {
		if !slices.Contains(f.Sources, u) {
			f.add(u)
		}
	}
	for _, name := range changed {
		if f.Values.Get("fact."+name) != Change {
			f.fill(name)
		}
		f.Values.Del("fact." + name)
		f.Values.Del(UsedQuotes(name))
		f.Values.Del(StillQuotes(name))
		if !f.Again(name) {
			f.Values.Add(fieldAgain, name)
		}
	}
	return changed
}

// decideRest turns the common decision to keep the rest into one for each fact, so that it does not
// apply to new values.
func (f *Form) decideRest() {
	for _, name := range api.FactNames {
		if f.Values.Get("fact."+name) == "" && f.Decision(name) == Keep {
			f.Values.Set("fact."+name, Keep)
		}
	}
	f.Values.Del(fieldRest)
}

// outdatedOutcome reports whether a review that is newer than the form had another outcome.
func (f Form) outdatedOutcome(sheet api.ReviewSheet) bool {
	for _, e := range sheet.Events {
		if e.ID == f.Seen() {
			return false
		}
		if e.CheckType == api.FactualReview {
			return e.Outcome != f.outcome()
		}
	}
	return false
}

// Again reports whether another review changed the fact, so that it needs a decision of its own.
func (f Form) Again(name string) bool { return slices.Contains(f.Values[fieldAgain], name) }

// Known reports whether the fact has a recorded value.
func (f Form) Known(name string) bool { return string(Values(f.Base)[name]) != string(unknown[name]) }

// outcome returns the outcome, without the reason of closed.
func (f Form) outcome() api.Outcome {
	outcome, _, _ := strings.Cut(f.Values.Get(fieldOutcome), ".")
	return api.Outcome(outcome)
}

// Asks reports whether the form is about a fact: a second opinion is about a few.
func (f Form) Asks(name string) bool {
	only := f.Values[fieldOnly]
	return len(only) == 0 || slices.Contains(only, name)
}

// Decision returns the decision about a fact, empty if there is none and one is needed.
func (f Form) Decision(name string) string {
	decision := f.Values.Get("fact." + name)
	closed := f.outcome() == api.OutcomeClosed
	switch {
	case !f.Asks(name):
		return Unknown
	case decision == "" && f.Again(name):
	case closed && name == "applicationStatus":
		return closedStatus
	case closed && (decision == "" || decision == Keep):
		return f.carried(name)
	case decision == "" && !f.Known(name):
		return Unknown
	case decision == "" && f.Values.Get(fieldRest) == Keep:
		return Keep
	}
	return decision
}

// carried returns what becomes of a fact in a review that ends in closed if nothing else is
// decided: it is kept, unless it cites a page that cannot be used.
func (f Form) carried(name string) string {
	for _, u := range f.Base.Cites(name) {
		if m := f.Mark(u); m == Gone || m == CannotOpen {
			return Unknown
		}
	}
	return Keep
}

// Seen returns the id of the newest event on the sheet of the form.
func (f Form) Seen() string { return f.Values.Get(fieldSeen) }

// Opinion returns the id of the review that the second opinion is about, empty for an ordinary
// review.
func (f Form) Opinion() string { return f.Values.Get(fieldOpinion) }

// Mark returns the mark of a source, empty if it was not opened. A page from which the curator
// takes a quote says so.
func (f Form) Mark(source string) Mark {
	if i := slices.Index(f.Sources, source); i >= 0 {
		if m := Mark(f.Values.Get(field("mark", i))); m != "" {
			return m
		}
	}
	if slices.ContainsFunc(api.FactNames, func(name string) bool {
		return slices.ContainsFunc(f.added(name), func(q api.Quote) bool { return q.SourceURL == source })
	}) {
		return StillSo
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
