package reviewform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// Names of the fields of a fact's quotes. The first two have quotes as JSON.

// KeptQuotes are the stored quotes that stay if the fact is kept.
func KeptQuotes(fact string) string { return "kept." + fact }

// StillQuotes is the curator's decision that the kept quotes say the changed value, too.
func StillQuotes(fact string) string { return "still." + fact }

// UsedQuotes are the suggestions that the curator uses.
func UsedQuotes(fact string) string { return "use." + fact }

// NewQuote are the texts that the curator pasted.
func NewQuote(fact string) string { return "quote." + fact }

// QuoteSource are the sources of NewQuote, in the same order: numbers, or URLs of pages that become
// sources.
func QuoteSource(fact string) string { return "quotefrom." + fact }

// SameTexts is the curator's decision in a second opinion whether other words than those of the
// first review mean the same: "same" or "different".
func SameTexts(fact string) string { return "texts." + fact }

// QuoteValue returns a quote as a value of the form.
func QuoteValue(q api.Quote) string {
	text, _ := json.Marshal(q) // a quote always encodes
	return string(text)
}

func (f Form) quotes(field string) (all []api.Quote) {
	for _, value := range f.Values[field] {
		var q api.Quote
		if json.Unmarshal([]byte(value), &q) == nil {
			all = append(all, q)
		}
	}
	return all
}

// PastedQuote is a text that the curator pasted, and the value of its QuoteSource.
type PastedQuote struct{ Text, Source string }

// Pasted returns the texts that the curator pasted for a fact.
func (f Form) Pasted(fact string) (all []PastedQuote) {
	from := f.Values[QuoteSource(fact)]
	for i, text := range f.Values[NewQuote(fact)] {
		p := PastedQuote{Text: strings.Join(strings.Fields(text), " ")}
		if i < len(from) {
			p.Source = from[i]
		}
		if p.Text != "" {
			all = append(all, p)
		}
	}
	return all
}

// added returns the quotes that the curator adds to a fact: the suggestions used, and the pasted
// texts.
func (f Form) added(fact string) (all []api.Quote) {
	all = f.quotes(UsedQuotes(fact))
	for _, p := range f.Pasted(fact) {
		if u := f.source(p.Source); u != "" {
			all = append(all, api.Quote{SourceURL: u, Exact: p.Text})
		}
	}
	for i := range all {
		all[i].Fact = fact
	}
	return all
}

// merged returns quotes without those that say nothing new: identical ones, and texts without
// surroundings that another one has.
func merged(quotes []api.Quote) (all []api.Quote) {
	for _, q := range quotes {
		if !slices.ContainsFunc(all, func(have api.Quote) bool {
			return have == q || have.SourceURL == q.SourceURL && have.Exact == q.Exact && q.Prefix+q.Suffix == ""
		}) {
			all = append(all, q)
		}
	}
	return all
}

// quotesOf returns the quotes of a fact in a review with these facts: those that it keeps with its
// value, or with a changed one that they support, then the added ones.
func (f Form) quotesOf(fact string, facts api.Facts) (all []api.Quote) {
	if !facts.Knows(fact) {
		return nil
	}
	if f.unchanged(fact, facts) || f.Values.Get(StillQuotes(fact)) != "" {
		all = f.quotes(KeptQuotes(fact))
	}
	return merged(append(all, f.added(fact)...))
}

func (f Form) unchanged(fact string, facts api.Facts) bool {
	return string(Values(facts)[fact]) == string(Values(f.Base)[fact])
}

// evidence returns the private evidence of a review with these facts, nil if it has none. Its
// quotes are from the sources that were opened.
func (f Form) evidence(facts *api.Facts) api.GivenEvidence {
	e := api.GivenEvidence{Quotes: []api.Quote{}, Gone: []string{}, Unopened: []string{}}
	_, e.Closed, _ = strings.Cut(f.Values.Get(fieldOutcome), ".")
	opened := f.opened()
	for _, name := range api.FactNames {
		if facts == nil {
			break
		}
		for _, q := range f.quotesOf(name, *facts) {
			if slices.Contains(opened, q.SourceURL) {
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
	return e
}

func (f Form) misquoted(facts api.Facts) (problems []Problem) {
	for _, name := range api.FactNames {
		add := func(what string) { problems = append(problems, Problem{"fact." + name, Label(name) + ": " + what}) }
		for _, p := range f.Pasted(name) {
			if f.source(p.Source) == "" {
				add("choose the source of the quote " + strconv.Quote(p.Text))
			}
			if n := utf8.RuneCountInString(p.Text); n > api.MaxQuote {
				add(fmt.Sprintf("a quote has %d characters, at most %d are allowed; shorten it", n, api.MaxQuote))
			}
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
		quotes := f.quotesOf(name, facts)
		if n := len(quotes); n > api.MaxQuotesPerFact {
			add(fmt.Sprintf("%d quotes, and a fact has at most %d; leave out %d", n, api.MaxQuotesPerFact,
				n-api.MaxQuotesPerFact))
		}
		for _, q := range quotes {
			if f.Mark(q.SourceURL) == "" && f.outcome() != api.OutcomeClosed {
				add(fmt.Sprintf("keeps the quote %q from %s, which you did not open; open it and mark it, or leave the quote out",
					q.Exact, f.nameOf(q.SourceURL)))
			}
		}
	}
	return problems
}

// Added returns the quotes that the curator adds to the facts.
func (f Form) Added() (all []api.Quote) {
	for _, name := range api.FactNames {
		all = append(all, merged(f.added(name))...)
	}
	return all
}

// Compare takes the findings for the added quotes on the stored texts of their pages. A quote that
// is missing is a problem once: if the curator submits it again, it is recorded. It also returns
// the labels of the facts with a quote from a page without a stored text.
func (f Form) Compare(readings []api.QuoteReading) (problems []Problem, uncompared []string) {
	for _, r := range readings {
		value := QuoteValue(r.Quote)
		switch {
		case r.Finding == api.QuoteUnknown:
			if label := Label(r.Fact); !slices.Contains(uncompared, label) {
				uncompared = append(uncompared, label)
			}
		case r.Finding == api.QuoteMissing && !slices.Contains(f.Values[fieldAsked], value):
			f.Values.Add(fieldAsked, value)
			problems = append(problems, Problem{"fact." + r.Fact,
				fmt.Sprintf("%s: the text of %s that a machine read on %s does not have %q; "+
					"correct the quote, or submit again to record it",
					Label(r.Fact), f.nameOf(r.SourceURL), r.ReadAt.UTC().Format("2 Jan 2006"), r.Exact)})
		}
	}
	return problems, uncompared
}

// SameTexts returns the decisions about texts in other words than those of the first review.
func (f Form) SameTexts() map[string]bool {
	same := map[string]bool{}
	for _, name := range api.FactNames {
		if decision := f.Values.Get(SameTexts(name)); decision != "" {
			same[name] = decision == "same"
		}
	}
	return same
}

// premark marks the sources and keeps the facts whose every quote the machine found again. If that
// is the whole record and nothing puts it in doubt, the outcome is verified. A quote that is
// missing is not kept. The curator looks at the marks and submits.
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

// source returns the source with a number, or a page with a URL; empty if there is none.
func (f Form) source(n string) string {
	if i, err := strconv.Atoi(n); err == nil && i >= 1 && i <= len(f.Sources) {
		return f.Sources[i-1]
	}
	if api.ValidURL(n) {
		return n
	}
	return ""
}
