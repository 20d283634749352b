package forms

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// Read returns the review that the input means, without its slug, or what is wrong with the input.
func (f Review) Read() (r api.Review, problems []pages.FormError) {
	outcome, seen := f.outcome(), f.Seen()
	if !slices.Contains(api.Outcomes[api.FactualReview], outcome) {
		problems = append(problems, pages.FormError{Field: fieldOutcome, Message: "Choose an outcome"})
	}
	at, err := api.ParseTimestamp(f.Values.Get(fieldShown))
	if err != nil {
		problems = append(problems, pages.FormError{Message: "Time of the review: " + err.Error()})
	}
	r = api.Review{
		CheckedAt: at, Outcome: outcome, SourceURLs: f.opened(), LastEventID: &seen,
		Note: strings.TrimSpace(strings.ReplaceAll(f.Values.Get(fieldNote), "\r\n", "\n")),
	}
	for _, u := range lines(f.Values.Get(fieldMore)) { // adopt left these
		problems = append(problems, pages.FormError{Field: fieldMore,
			Message: fmt.Sprintf("%q is not an http or https URL", u)})
	}
	var decided *api.Facts
	if outcome != api.OutcomeNeedsReview || f.decided() {
		facts, wrong := f.facts()
		problems = slices.Concat(problems, wrong, f.unsupported(facts), f.misquoted(facts))
		r.Facts, decided = &api.GivenFacts{Facts: facts}, &facts
	}
	r.Evidence = f.evidence(decided)
	return r, problems
}

// decided reports whether the curator decided about any fact, or must: a quote supports a value.
func (f Review) decided() bool {
	return f.Values.Get(fieldRest) == Keep || slices.ContainsFunc(api.FactNames, func(name string) bool {
		return f.Values.Get("fact."+name) != "" || f.Again(name) || len(f.quotes(UsedQuotes+name))+len(f.Pasted(name)) > 0
	})
}

func ofFact(name, message string) pages.FormError {
	return pages.FormError{Field: "fact." + name, Message: FactLabel(name) + ": " + message}
}

func (f Review) facts() (facts api.Facts, problems []pages.FormError) {
	values := map[string]json.RawMessage{}
	for _, fact := range Facts {
		value, wrong := f.value(fact)
		values[fact.Name], problems = value, append(problems, wrong...)
	}
	if err := json.Unmarshal(encode(values), &facts); err != nil {
		return facts, append(problems, pages.FormError{Message: err.Error()})
	}
	var invalid api.Problems
	facts.Normalize("facts", &invalid)
	return facts, append(problems, f.Explain(invalid, api.Review{})...)
}

// value returns the value of a fact that its decision means, unknown if anything is wrong with it.
func (f Review) value(fact Field) (value json.RawMessage, problems []pages.FormError) {
	wrong := ""
	switch decision := f.Decision(fact.Name); {
	case decision == "":
		wrong = "keep it, change it, or set it to unknown"
	case decision == Keep:
		return Values(f.Base)[fact.Name], nil
	case decision == Unknown:
	case decision == Change && fact.Kind != Decision:
		r := reader{input: f.completed(fact)}
		value = encode(r.value(fact, fact.Name, fact.Name, nil))
		if string(value) == string(unknown[fact.Name]) {
			wrong = "enter a value, or choose that you cannot tell"
		} else if len(r.problems) == 0 {
			return value, nil
		}
		problems = r.problems
	case slices.ContainsFunc(fact.Options, func(o Option) bool { return o.Value == decision }):
		return json.RawMessage(decision), nil
	default:
		wrong = "choose one of the values"
	}
	if wrong != "" {
		problems = append(problems, ofFact(fact.Name, wrong))
	}
	return unknown[fact.Name], problems
}

// completed returns the input of a fact with all that it implies: the codes of regions, and as
// sources the pages of the quotes that the curator adds to the fact, if none is chosen.
func (f Review) completed(fact Field) url.Values {
	input := maps.Clone(f.Values)
	paths := []string{fact.Name}
	if fact.Path = fact.Name; fact.Kind == List {
		paths = nil
		for i := range fact.entries(input) {
			paths = append(paths, entryPath(fact.Path, i))
		}
	}
	for _, at := range paths {
		for _, c := range fact.Fields {
			name := join(at, c.Name)
			switch {
			case c.Name == "country", c.Name == "currency":
				input.Set(name, strings.ToUpper(strings.TrimSpace(input.Get(name))))
			case c.Kind == Regions:
				input[name] = regions(input.Get(at+".country"), input[name])
			case (c.Kind == Source || c.Kind == Sources) && strings.Join(input[name], "") == "":
				input[name] = nil
				for _, q := range f.added(fact.Name) {
					if len(input[name]) == 0 || c.Kind == Sources && !slices.Contains(input[name], q.SourceURL) {
						input.Add(name, q.SourceURL)
					}
				}
			}
		}
		if in, not := at+".includedRegions", at+".excludedRegions"; input.Get(at+".regions") == "notin" {
			input[in], input[not] = nil, append(input[not], input[in]...)
		}
	}
	return input
}

// unsupported returns the known facts that no opened source supports. A kept fact needs its own
// sources, or any source, to still say so. A changed fact can cite only pages that were opened.
func (f Review) unsupported(facts api.Facts) (problems []pages.FormError) {
	opened, values := f.opened(), Values(facts)
	confirmed := slices.ContainsFunc(opened, func(u string) bool { return f.SourceState(u) == StillSo })
	for _, name := range api.FactNames {
		decision := f.Decision(name)
		if decision == "" || string(values[name]) == string(unknown[name]) || f.outcome() == api.OutcomeClosed &&
			(decision == Keep || decision == closedStatus) {
			continue
		}
		cites := facts.Cites(name)
		switch {
		case decision == Keep && len(cites) == 0 && !confirmed:
			problems = append(problems, ofFact(name, "no source still says so; change it or set it to unknown"))
		case len(cites) == 0 && len(opened) == 0:
			problems = append(problems, ofFact(name, "open a source that says so"))
		}
		for _, u := range cites {
			switch state := f.SourceState(u); {
			case state == StillSo || decision != Keep && state == Otherwise:
			case decision == Keep:
				problems = append(problems, ofFact(name,
					"cites "+f.nameOf(u)+"; open it and choose \"Still says so\", change the fact, or set it to unknown"))
			default:
				problems = append(problems, ofFact(name, "cites "+f.nameOf(u)+", which you did not open"))
			}
		}
	}
	return problems
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
				add("the quote is from %s, which is gone or was not opened", f.nameOf(q.SourceURL))
			}
		}
		quotes := f.quotesOf(name, facts)
		if n := len(quotes); n > api.MaxQuotesPerFact {
			add("%d quotes, and a fact has at most %d; leave out %d", n, api.MaxQuotesPerFact, n-api.MaxQuotesPerFact)
		}
		for _, q := range quotes {
			if f.SourceState(q.SourceURL) == "" && f.outcome() != api.OutcomeClosed {
				add("keeps the quote %q from %s, which you did not open; open it and choose its state, or leave the quote out",
					q.Exact, f.nameOf(q.SourceURL))
			}
		}
	}
	return problems
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
		switch f.SourceState(u) {
		case Gone:
			e.Gone = append(e.Gone, u)
		case CannotOpen:
			e.Unopened = append(e.Unopened, u)
		}
	}
	return &e
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

// Explain converts problems of a listing or a review to problems of its form.
func (f Review) Explain(invalid api.Problems, r api.Review) (problems []pages.FormError) {
	for _, p := range invalid {
		top, rest, _ := strings.Cut(PathOf(p.Path), ".")
		wrong := pages.FormError{Field: PathOf(p.Path), Message: LabelOf(p.Path) + ": " + p.Message}
		switch {
		case p.Path == "":
			wrong.Message = p.Message
		case top == "facts" && rest == "":
			wrong.Message = "Facts: " + p.Message
		case top == "facts":
			name, _, _ := strings.Cut(rest, ".")
			wrong = pages.FormError{Field: f.inputAt(name, rest), Message: FactLabel(rest) + ": " + labelled.Replace(p.Message)}
			if strings.HasSuffix(rest, ".sourceUrl") { // which is chosen from a list
				wrong.Message = FactLabel(name) + ": choose the source"
			}
		case top == "sourceUrls":
			label := "Sources"
			if n, err := strconv.Atoi(rest); err == nil && n < len(r.SourceURLs) {
				label = r.SourceURLs[n]
			}
			wrong = pages.FormError{Field: "sources", Message: label + ": " + p.Message}
		case top == "evidence":
			wrong = pages.FormError{Field: "facts", Message: "Quotes: " + p.Message}
			var n int
			if _, err := fmt.Sscanf(rest, "quotes.%d", &n); err == nil && n < len(r.Evidence.Quotes) {
				wrong = ofFact(r.Evidence.Quotes[n].Fact, "quote: "+p.Message)
			}
		case r.Outcome != "" && slices.Contains(api.ReviewedFields, p.Path):
			wrong.Field = listed(p.Path)
		case p.Path == "note":
			wrong.Message = "Note: " + p.Message
		}
		problems = append(problems, wrong)
	}
	return problems
}

// inputAt returns the id of the input of a path in a fact, or of the fact if it has no such input.
func (f Review) inputAt(name, path string) string {
	if path = strings.TrimRight(path, ".0123456789"); path == name || f.Decision(name) != Change {
		return "fact." + name
	}
	if entry, excluded := strings.CutSuffix(path, ".excludedRegions"); excluded && f.Values.Get(entry+".regions") != "" {
		return entry + ".includedRegions" // the boxes
	}
	return path
}

// labelled replaces the names of fields in a message by their labels.
var labelled = strings.NewReplacer("allRegions", "All regions", "includedRegions", "Only in", "excludedRegions",
	"Not in", "status to", "Residents are to",
	" is none", " is not one")

// Changes returns what the curator changed in the listing.
func (f Review) Changes() (all []api.FieldChange) {
	for _, path := range api.ReviewedFields {
		before, after := f.Values.Get(fieldWas+path), f.Values.Get(listed(path))
		if f.Opinion() == "" && f.Values.Has(listed(path)) && before != after {
			all = append(all, api.FieldChange{Field: path, Old: encode(before), New: encode(after)})
		}
	}
	return all
}
