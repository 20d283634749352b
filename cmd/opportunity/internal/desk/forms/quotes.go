package forms

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// Names of the fields of a fact's quotes, each followed by the name of the fact.
const (
	KeptQuotes  = "kept."      // stored quotes that stay if the fact is kept, as JSON
	StillQuotes = "still."     // whether the kept quotes say the changed value, too
	UsedQuotes  = "use."       // suggestions that the curator uses, as JSON
	NewQuote    = "quote."     // texts that the curator pasted
	QuoteSource = "quotefrom." // URLs of the pages of NewQuote, in the same order; they become sources

	// SameTexts is the decision in a second opinion whether other words than those of the first
	// review mean the same: "same" or "different".
	SameTexts = "texts."
)

// QuoteValue returns a quote as a value of the form.
func QuoteValue(q api.Quote) string { return string(encode(q)) }

func (f Review) quotes(field string) (all []api.Quote) {
	for _, value := range f.Values[field] {
		var q api.Quote
		if json.Unmarshal([]byte(value), &q) == nil {
			all = append(all, q)
		}
	}
	return all
}

// Pasted returns the texts that the curator pasted for a fact, each with its page, empty if none is
// chosen.
func (f Review) Pasted(fact string) (all []api.Quote) {
	from := f.Values[QuoteSource+fact]
	for i, text := range f.Values[NewQuote+fact] {
		q := api.Quote{Fact: fact, Exact: strings.Join(strings.Fields(text), " ")}
		if i < len(from) && api.ValidURL(from[i]) {
			q.SourceURL = from[i]
		}
		if q.Exact != "" {
			all = append(all, q)
		}
	}
	return all
}

// added returns the quotes that the curator adds to a fact: the suggestions used, and the pasted
// texts.
func (f Review) added(fact string) (all []api.Quote) {
	for _, q := range append(f.quotes(UsedQuotes+fact), f.Pasted(fact)...) {
		if q.Fact = fact; q.SourceURL != "" {
			all = append(all, q)
		}
	}
	return all
}

// Added returns the quotes that the curator adds to the facts.
func (f Review) Added() (all []api.Quote) {
	for _, name := range api.FactNames {
		all = append(all, merged(f.added(name))...)
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
func (f Review) quotesOf(fact string, facts api.Facts) (all []api.Quote) {
	if !facts.Knows(fact) {
		return nil
	}
	if f.Values.Get(StillQuotes+fact) != "" || !slices.Contains(Differences(f.Base, facts), fact) {
		all = f.quotes(KeptQuotes + fact)
	}
	return merged(append(all, f.added(fact)...))
}

// evidence returns the private evidence of a review with these facts, nil if it has none. Its
// quotes are from the sources that were opened.
func (f Review) evidence(facts *api.Facts) *api.GivenEvidence {
	e := api.GivenEvidence{Quotes: []api.Quote{}, Gone: []string{}, Unopened: []string{}}
	_, e.Closed, _ = strings.Cut(f.Values.Get(fieldOutcome), ".")
	if facts != nil {
		opened := f.opened()
		for _, name := range api.FactNames {
			for _, q := range f.quotesOf(name, *facts) {
				if slices.Contains(opened, q.SourceURL) {
					e.Quotes = append(e.Quotes, q)
				}
			}
		}
	}
	for _, u := range f.Sources() {
		switch f.Mark(u) {
		case Gone:
			e.Gone = append(e.Gone, u)
		case CannotOpen:
			e.Unopened = append(e.Unopened, u)
		}
	}
	return &e
}

func (f Review) misquoted(facts api.Facts) (problems []pages.FormError) {
	for _, name := range api.FactNames {
		add := func(what string, values ...any) {
			problems = append(problems, ofFact(name, fmt.Sprintf(what, values...)))
		}
		for _, q := range f.Pasted(name) {
			if q.SourceURL == "" {
				add("choose the source of the quote %q", q.Exact)
			}
			if n := utf8.RuneCountInString(q.Exact); n > api.MaxQuote {
				add("a quote has %d characters, at most %d are allowed; shorten it", n, api.MaxQuote)
			}
		}
		added := f.added(name)
		if len(added) > 0 && !facts.Knows(name) {
			add("there is a quote but no value; choose the value, or remove the quote")
		}
		for _, q := range added {
			if f.unusable(q.SourceURL) {
				add("the quote is from %s, which is marked as gone or not opened", f.nameOf(q.SourceURL))
			}
		}
		quotes := f.quotesOf(name, facts)
		if n := len(quotes); n > api.MaxQuotesPerFact {
			add("%d quotes, and a fact has at most %d; leave out %d", n, api.MaxQuotesPerFact, n-api.MaxQuotesPerFact)
		}
		for _, q := range quotes {
			if f.Mark(q.SourceURL) == "" && f.outcome() != api.OutcomeClosed {
				add("keeps the quote %q from %s, which you did not open; open it and mark it, or leave the quote out",
					q.Exact, f.nameOf(q.SourceURL))
			}
		}
	}
	return problems
}

// Compare takes the findings for the added quotes on the stored texts of their pages. A quote that
// is missing is a problem once: if the curator submits it again, it is recorded. It also returns
// the labels of the facts with a quote from a page without a stored text.
func (f Review) Compare(readings []api.QuoteReading) (problems []pages.FormError, uncompared []string) {
	for _, r := range readings {
		value, label := QuoteValue(r.Quote), FactLabel(r.Fact)
		switch {
		case r.Finding == api.QuoteUnknown && !slices.Contains(uncompared, label):
			uncompared = append(uncompared, label)
		case r.Finding == api.QuoteMissing && !slices.Contains(f.Values[fieldAsked], value):
			f.Values.Add(fieldAsked, value)
			problems = append(problems, ofFact(r.Fact, fmt.Sprintf("the text of %s that a machine read on %s does not have %q; "+
				"correct the quote, or submit again to record it",
				f.nameOf(r.SourceURL), r.ReadAt.UTC().Format("2 Jan 2006"), r.Exact)))
		}
	}
	return problems, uncompared
}

// TextsAreSame returns the decisions about texts in other words than those of the first review.
func (f Review) TextsAreSame() map[string]bool {
	same := map[string]bool{}
	for _, name := range api.FactNames {
		if decision := f.Values.Get(SameTexts + name); decision != "" {
			same[name] = decision == "same"
		}
	}
	return same
}

// premark marks the sources and keeps the facts whose every quote the machine found again. If that
// is the whole record and nothing puts it in doubt, the outcome is verified. A quote that is
// missing is not kept. The curator looks at the marks and submits.
func (f *Review) premark(sheet api.ReviewSheet) {
	said := Confirmed(sheet)
	for _, r := range sheet.Readings {
		if kept := KeptQuotes + r.Fact; r.Finding == api.QuoteMissing { // the fact needs another quote
			f.Values[kept] = slices.DeleteFunc(f.Values[kept], func(value string) bool { return value == QuoteValue(r.Quote) })
		}
	}
	for i, u := range f.Sources() {
		if said[u] {
			f.Values.Set(markOf(i), StillSo)
		}
	}
	kept, complete := 0, true
	for _, name := range api.FactNames {
		if !f.Known(name) {
			continue
		}
		urls, quotes := f.Base.Cites(name), f.quotes(KeptQuotes+name)
		for _, q := range quotes {
			urls = append(urls, q.SourceURL)
		}
		if len(quotes) == 0 || !all(urls, func(u string) bool { return said[u] }) {
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
		reading := ReadingOf(sheet, q)
		before, seen := said[q.SourceURL]
		said[q.SourceURL] = reading != nil && reading.Finding == api.QuotePresent && (before || !seen)
	}
	return said
}

// ReadingOf returns what the machine found for a stored quote, nil if it did not look for it.
func ReadingOf(sheet api.ReviewSheet, q api.Quote) *api.QuoteReading {
	if i := slices.IndexFunc(sheet.Readings, func(r api.QuoteReading) bool { return r.Quote == q }); i >= 0 {
		return &sheet.Readings[i]
	}
	return nil
}

// Numbers returns the numbers of sources on the form.
func (f Review) Numbers(urls ...string) string {
	var numbers []string
	for _, u := range urls {
		if i := slices.Index(f.Sources(), u); i >= 0 {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	return strings.Join(numbers, ", ")
}

func (f Review) nameOf(source string) string {
	if n := f.Numbers(source); n != "" {
		return "source " + n
	}
	return source
}
