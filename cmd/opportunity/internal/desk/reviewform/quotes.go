package reviewform

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Names of the fields of a fact's quotes. The first two have quotes as JSON.

// KeptQuotes are the stored quotes that stay if the fact is kept.
func KeptQuotes(fact string) string { return "kept." + fact }

// UsedQuotes are the suggestions that the curator uses.
func UsedQuotes(fact string) string { return "use." + fact }

// NewQuote is the text that the curator pasted, and QuoteSource the number of its source.
func NewQuote(fact string) string { return "quote." + fact }

// QuoteSource is the number of the source of NewQuote.
func QuoteSource(fact string) string { return "quotefrom." + fact }

// QuoteValue returns a quote as a value of the form.
func QuoteValue(q api.Quote) string {
	text, _ := json.Marshal(q) // a quote always encodes
	return string(text)
}

// quotes returns the quotes in a field.
func (f Form) quotes(field string) (all []api.Quote) {
	for _, value := range f.Values[field] {
		var q api.Quote
		if json.Unmarshal([]byte(value), &q) == nil {
			all = append(all, q)
		}
	}
	return all
}

// added returns the quotes that the curator adds to a fact: the suggestions used, and the pasted text.
func (f Form) added(fact string) (all []api.Quote) {
	for _, q := range f.quotes(UsedQuotes(fact)) {
		q.Fact = fact
		all = append(all, q)
	}
	text := strings.TrimSpace(f.Values.Get(NewQuote(fact)))
	if u := f.source(f.Values.Get(QuoteSource(fact))); text != "" && u != "" {
		all = append(all, api.Quote{Fact: fact, SourceURL: u, Exact: text})
	}
	return all
}

// evidence returns the private evidence of a review with these facts, nil if it has none. A fact keeps its quotes if it keeps its value
// and their sources were opened.
func (f Form) evidence(facts *api.Facts) (e api.Evidence) {
	opened, recorded := f.opened(), Values(f.Base)
	for _, name := range api.FactNames {
		if facts == nil || !facts.Knows(name) {
			continue
		}
		quotes := f.added(name)
		if string(Values(*facts)[name]) == string(recorded[name]) {
			quotes = append(quotes, f.quotes(KeptQuotes(name))...)
		}
		for _, q := range quotes {
			second := slices.ContainsFunc(e.Quotes, func(have api.Quote) bool { return have.Fact == q.Fact && have.SourceURL == q.SourceURL })
			if q.Fact == name && !second && slices.Contains(opened, q.SourceURL) {
				e.Quotes = append(e.Quotes, q)
			}
		}
	}
	for _, u := range f.Sources {
		switch f.Mark(u) {
		case Gone:
			e.Gone = append(e.Gone, u)
		case CannotOpen:
			e.Unopened = append(e.Unopened, u)
		}
	}
	e.Complete()
	return e
}

// misquoted returns the problems of the quotes that the curator adds.
func (f Form) misquoted(facts api.Facts) (problems []Problem) {
	for _, name := range api.FactNames {
		add := func(what string) { problems = append(problems, Problem{"fact." + name, Label(name) + ": " + what}) }
		if strings.TrimSpace(f.Values.Get(NewQuote(name))) != "" && f.source(f.Values.Get(QuoteSource(name))) == "" {
			add("choose the source of the quote")
		}
		added := f.added(name)
		if len(added) > 0 && !facts.Knows(name) {
			add("there is a quote but no value; choose the value, or remove the quote")
		}
		for _, q := range added {
			if m := f.Mark(q.SourceURL); m == Gone || m == CannotOpen {
				add("the quote is from " + f.nameOf(q.SourceURL) + ", which is marked as gone or not opened")
			}
		}
	}
	return problems
}

// premark marks the sources and keeps the facts whose every quote the machine found again. If that is the whole record and nothing puts it
// in doubt, the outcome is verified. A quote that is missing is not kept. The curator looks at the marks and submits.
func (f *Form) premark(sheet api.ReviewSheet) {
	said, complete := Confirmed(sheet), true
	for _, r := range sheet.Readings {
		if r.Finding == api.QuoteMissing { // the fact needs another quote
			kept := KeptQuotes(r.Fact)
			f.Values[kept] = slices.DeleteFunc(f.Values[kept], func(value string) bool { return value == QuoteValue(r.Quote) })
		}
	}
	for i, u := range f.Sources {
		if said[u] {
			f.Values.Set(field("mark", i), string(StillSo))
		}
	}
	kept := 0
	for _, name := range api.FactNames {
		if !f.Known(name) {
			continue
		}
		urls := f.Base.Cites(name)
		quotes := f.quotes(KeptQuotes(name))
		for _, q := range quotes {
			urls = append(urls, q.SourceURL)
		}
		if len(quotes) == 0 || slices.ContainsFunc(urls, func(u string) bool { return !said[u] }) {
			complete = false
			continue
		}
		f.Values.Set("fact."+name, Keep)
		kept++
	}
	doubtful := slices.ContainsFunc(sheet.Reasons, func(r api.DueReason) bool { return r.Why != api.DueStale })
	if complete && kept > 0 && !doubtful && len(sheet.Edits) == 0 && sheet.Opinion == nil {
		f.Values.Set(fieldOutcome, string(api.OutcomeVerified))
	}
}

// Confirmed returns the sources in which the machine found every stored quote again.
func Confirmed(sheet api.ReviewSheet) map[string]bool {
	said := map[string]bool{}
	for _, q := range sheet.Evidence.Quotes {
		i := slices.IndexFunc(sheet.Readings, func(r api.QuoteReading) bool { return r.Quote == q })
		present := i >= 0 && sheet.Readings[i].Finding == api.QuotePresent
		before, seen := said[q.SourceURL]
		said[q.SourceURL] = present && (before || !seen)
	}
	return said
}

// source returns the source with a number, empty if there is none.
func (f Form) source(n string) string {
	if i, err := strconv.Atoi(n); err == nil && i >= 1 && i <= len(f.Sources) {
		return f.Sources[i-1]
	}
	return ""
}
