package forms

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// ofFact returns a problem of a fact.
func ofFact(name, message string) pages.FormError {
	return pages.FormError{Field: "fact." + name, Message: FactLabel(name) + ": " + message}
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

// unsupported returns the known facts that no opened source supports. A kept fact needs its own
// sources, or any source, to still say so. A changed fact can cite only pages that were opened.
func (f Review) unsupported(facts api.Facts) (problems []pages.FormError) {
	opened, values := f.opened(), Values(facts)
	confirmed := slices.ContainsFunc(opened, func(u string) bool { return f.Mark(u) == StillSo })
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
			switch mark := f.Mark(u); {
			case mark == StillSo || decision != Keep && mark == Otherwise:
			case decision == Keep:
				problems = append(problems, ofFact(name,
					"cites "+f.nameOf(u)+"; open it and mark that it still says so, change the fact, or set it to unknown"))
			default:
				problems = append(problems, ofFact(name, "cites "+f.nameOf(u)+", which you did not open"))
			}
		}
	}
	return problems
}

// Summary returns what the input would record: a sentence, and a line for each fact that changes or
// whose input is wrong.
func (f Review) Summary() string {
	if f.outcome() == api.OutcomeNeedsReview && !f.decided() {
		return "Needs review: no facts are recorded."
	}
	facts, _ := f.facts()
	recorded, now := Values(f.Base), Values(facts)
	kept, unknowns, undecided := 0, 0, 0
	var details []string
	for _, c := range f.Changes() {
		before, after := f.Values.Get(fieldWas+c.Field), f.Values.Get(listed(c.Field))
		details = append(details, LabelOf(c.Field)+": "+recordedText(before)+" → "+recordedText(after))
	}
	for _, name := range api.FactNames {
		_, wrong := f.value(find(Facts, name))
		switch {
		case !f.Asks(name):
		case f.Decision(name) == "":
			undecided++
		case len(wrong) > 0:
			details = append(details, wrong[0].Message)
		case string(now[name]) != string(recorded[name]):
			details = append(details, f.change(facts, name))
		case string(now[name]) == string(unknown[name]):
			unknowns++
		default:
			kept++
		}
	}
	changed := ""
	if len(details) > 0 {
		changed = fmt.Sprintf(" %d changed,", len(details))
	}
	text := fmt.Sprintf("%s: %s,%s %d unknown, %s.", outcomes[f.outcome()], Count(kept, "fact kept", "facts kept"),
		changed, unknowns, Count(len(f.evidence(&facts).Quotes), "quote", "quotes"))
	if undecided > 0 {
		text += " " + Count(undecided, "fact needs", "facts need") + " a decision."
	}
	return strings.Join(append([]string{text}, details...), "\n")
}

// change describes the old and the new value of a fact. Values that differ only in what they cite
// are described by their sources.
func (f Review) change(facts api.Facts, name string) string {
	describe := func(facts api.Facts) string {
		return cmp.Or(strings.Join(Describe(facts, name), "; "), "unknown")
	}
	before, after := describe(f.Base), describe(facts)
	if before == after {
		before, after = f.sourcesOf(f.Base, name), f.sourcesOf(facts, name)
	}
	return fmt.Sprintf("%s: %s → %s", FactLabel(name), before, after)
}

func (f Review) sourcesOf(facts api.Facts, name string) string {
	var names []string
	for _, u := range facts.Cites(name) {
		names = append(names, f.nameOf(u))
	}
	return "cites " + cmp.Or(strings.Join(names, ", "), "no source")
}

// outcomes are the labels of the outcomes in a sentence; that of closed says what it implies.
var outcomes = map[api.Outcome]string{
	"": "No outcome yet", api.OutcomeVerified: "Verified", api.OutcomeNeedsReview: "Needs review",
	api.OutcomeClosed: "Closed, and the application status becomes closed",
}

// Count returns a number with the words for it: one for 1, many for others.
func Count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// PagesDue says which pages of a record are read now, or why none is.
func PagesDue(due api.PagesDue) string {
	if due.Pages == 0 {
		return due.Note
	}
	return Count(due.Pages, "page is", "pages are") + " due. " + due.Note
}
