package forms

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Review is the form of a factual review.
//
// The input stays url.Values, so that a page can always show it again and a draft can store it.
// Each fact has a decision. A fact is kept (the recorded value still holds), set to one of its
// options, changed to the input in its own fields, or unknown. A missing decision about a known
// fact is an error unless "rest" keeps the facts without one. A fact that was unknown stays
// unknown.
type Review struct {
	Values url.Values
	Base   api.Facts // recorded facts that the curator was shown
}

// Decisions about a fact. An option's value is a decision too.
const (
	Keep    = "keep"
	Change  = "change"
	Unknown = "unknown"
)

// States of a source. One without a state was not opened, unless the curator used a quote from it.
const (
	StillSo    = "still"     // still says so
	Otherwise  = "otherwise" // says otherwise
	Gone       = "gone"
	CannotOpen = "cannot"
)

// Names of fields, besides those of the facts, the listing ("listing." and a path) and the states
// ("state." and the index of a source).
const (
	fieldShown   = "shown" // checkedAt of the review
	fieldSeen    = "seen"  // newest event on the sheet
	fieldBase    = "base"  // recorded facts on the sheet, as JSON
	fieldOpinion = "opinion"
	fieldOnly    = "only" // facts that the second opinion is about
	fieldSource  = "source"
	fieldWas     = "was."  // with a path: field of the listing on the sheet
	fieldAgain   = "again" // facts that another review changed since: each needs a decision of its own
	fieldAsked   = "asked" // added quotes that their page lacks, about which the curator was asked; as JSON
	fieldRest    = "rest"
	fieldOutcome = "outcome"
	fieldNote    = "note"
	fieldMore    = "more" // further source URLs, one on each line
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

// ParseReview returns the form with submitted or stored input. It returns ErrForeign for input
// that no form of the desk sends.
func ParseReview(values url.Values) (Review, error) {
	f := Review{Values: values}
	if err := json.Unmarshal([]byte(values.Get(fieldBase)), &f.Base); err != nil {
		return f, fmt.Errorf("%w: its recorded facts: %w", ErrForeign, err)
	}
	f.Base.Complete()
	f.adopt()
	return f, nil
}

// adopt turns the further pages into sources that still say so, and the pages of added quotes into
// sources. It leaves further pages that are no URL.
func (f *Review) adopt() {
	var invalid []string
	for _, u := range lines(f.Values.Get(fieldMore)) {
		switch {
		case !api.ValidURL(u):
			invalid = append(invalid, u)
		case !slices.Contains(f.Sources(), u):
			f.Values.Set(stateOf(len(f.Sources())), StillSo)
			f.add(u)
		}
	}
	f.Values.Set(fieldMore, strings.Join(invalid, "\n"))
	for _, q := range f.Added() {
		f.add(q.SourceURL)
	}
}

func (f *Review) add(urls ...string) {
	for _, u := range urls {
		if !slices.Contains(f.Sources(), u) {
			f.Values.Add(fieldSource, u)
		}
	}
}

// Sources returns the sources, which pages number from 1.
func (f Review) Sources() []string { return f.Values[fieldSource] }

// Seen returns the id of the newest event on the sheet of the form.
func (f Review) Seen() string { return f.Values.Get(fieldSeen) }

// Opinion returns the id of the review that the second opinion is about, empty for an ordinary
// review.
func (f Review) Opinion() string { return f.Values.Get(fieldOpinion) }

// Chosen reports whether a value of a field is chosen.
func (f Review) Chosen(name, value string) bool { return slices.Contains(f.Values[name], value) }

// Again reports whether another review changed the fact, so that it needs a decision of its own.
func (f Review) Again(name string) bool { return slices.Contains(f.Values[fieldAgain], name) }

// Known reports whether the fact has a recorded value.
func (f Review) Known(name string) bool { return string(Values(f.Base)[name]) != string(unknown[name]) }

// Values returns every fact as JSON, by name.
func Values(f api.Facts) (values map[string]json.RawMessage) {
	f.Complete()
	_ = json.Unmarshal(encode(f), &values) // facts always encode
	return values
}

// Differences returns the names of the facts in which a and b differ, in the order of
// api.FactNames.
func Differences(a, b api.Facts) (names []string) {
	before, after := Values(a), Values(b)
	for _, name := range api.FactNames {
		if string(before[name]) != string(after[name]) {
			names = append(names, name)
		}
	}
	return names
}

// unknown is the JSON of each fact that is unknown.
var unknown = Values(api.UnknownFacts())

// outcome returns the outcome, without the reason of closed.
func (f Review) outcome() api.Outcome {
	outcome, _, _ := strings.Cut(f.Values.Get(fieldOutcome), ".")
	return api.Outcome(outcome)
}

// Asks reports whether the form is about a fact: a second opinion is about a few.
func (f Review) Asks(name string) bool {
	only := f.Values[fieldOnly]
	return len(only) == 0 || slices.Contains(only, name)
}

// Decision returns the decision about a fact, empty if there is none and one is needed.
func (f Review) Decision(name string) string {
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
func (f Review) carried(name string) string {
	if slices.ContainsFunc(f.Base.Cites(name), f.unusable) {
		return Unknown
	}
	return Keep
}

func (f Review) unusable(source string) bool {
	return f.SourceState(source) == Gone || f.SourceState(source) == CannotOpen
}

func stateOf(index int) string { return fmt.Sprintf("state.%d", index) }

// SourceState returns the state of a source, empty if it was not opened. A page from which the
// curator takes a quote says so.
func (f Review) SourceState(source string) string {
	if i := slices.Index(f.Sources(), source); i >= 0 && f.Values.Get(stateOf(i)) != "" {
		return f.Values.Get(stateOf(i))
	}
	if slices.ContainsFunc(f.Added(), func(q api.Quote) bool { return q.SourceURL == source }) {
		return StillSo
	}
	return ""
}

// opened returns the sources whose content the curator saw.
func (f Review) opened() []string {
	return slices.DeleteFunc(append([]string{}, f.Sources()...), func(u string) bool {
		return f.SourceState(u) != StillSo && f.SourceState(u) != Otherwise
	})
}

func listed(path string) string { return "listing." + path }

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
