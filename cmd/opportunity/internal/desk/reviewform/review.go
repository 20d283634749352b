package reviewform

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/desk/listingform"
	"opportunity.internal/pkg/api"
)

// Problem is a mistake in the input. Field is the id of an element of the form.
type Problem struct{ Field, Message string }

// Review returns the review that the input means, without its slug, or what is wrong with the
// input.
func (f Form) Review() (r api.Review, problems []Problem) {
	outcome, seen := f.outcome(), f.Values.Get(fieldSeen)
	if !slices.Contains(api.Outcomes[api.FactualReview], outcome) {
		problems = append(problems, Problem{fieldOutcome, "Choose an outcome"})
	}
	at, err := api.ParseTimestamp(f.Values.Get(fieldShown))
	if err != nil {
		problems = append(problems, Problem{"", "Time of the review: " + err.Error()})
	}
	r = api.Review{
		CheckedAt: at, Outcome: outcome, SourceURLs: f.opened(), LastEventID: &seen,
		Note: strings.TrimSpace(strings.ReplaceAll(f.Values.Get(fieldNote), "\r\n", "\n")),
	}
	for _, u := range lines(f.Values.Get(fieldMore)) { // adopt left these
		problems = append(problems, Problem{fieldMore, fmt.Sprintf("%q is not an http or https URL", u)})
	}
	var decided *api.Facts
	if outcome != api.OutcomeNeedsReview || f.decided() {
		facts, wrong := f.facts()
		problems = append(problems, wrong...)
		problems = append(problems, f.unsupported(facts)...)
		problems = append(problems, f.misquoted(facts)...)
		r.Facts, decided = &api.GivenFacts{Facts: facts}, &facts
	}
	evidence := f.evidence(decided)
	r.Evidence = &evidence
	return r, problems
}

// decided reports whether the curator decided about any fact, or must: a quote supports a value.
func (f Form) decided() bool {
	return f.Values.Get(fieldRest) == Keep || slices.ContainsFunc(api.FactNames, func(name string) bool {
		return f.Values.Get("fact."+name) != "" || f.Again(name) || len(f.quotes(UsedQuotes(name)))+len(f.Pasted(name)) > 0
	})
}

// value returns the value of a fact that its decision means, and what is wrong with it.
func (f Form) value(name string) (value json.RawMessage, wrong string) {
	switch decision := f.Decision(name); decision {
	case "":
		return unknown[name], "keep it, change it, or set it to unknown"
	case Keep:
		return Values(f.Base)[name], ""
	case Unknown:
		return unknown[name], ""
	case Change:
		return f.entered(name)
	default:
		if !slices.ContainsFunc(find(name).Options, func(o Option) bool { return o.Value == decision }) {
			return unknown[name], "choose one of the values"
		}
		return json.RawMessage(decision), ""
	}
}

func (f Form) facts() (facts api.Facts, problems []Problem) {
	values := map[string]json.RawMessage{}
	for _, name := range api.FactNames {
		var wrong string
		if values[name], wrong = f.value(name); wrong != "" {
			problems = append(problems, Problem{"fact." + name, Label(name) + ": " + wrong})
		}
	}
	text, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(text, &facts)
	}
	if err != nil {
		return facts, append(problems, Problem{"", err.Error()})
	}
	var invalid api.Problems
	facts.Normalize("facts", &invalid)
	return facts, append(problems, Explain(invalid, api.Review{})...)
}

// Explain converts problems of a review to problems of the form.
func Explain(invalid api.Problems, r api.Review) (problems []Problem) {
	for _, p := range invalid {
		top, rest, _ := strings.Cut(strings.NewReplacer("[", ".", "]", "").Replace(p.Path), ".")
		wrong := Problem{"", p.String()}
		switch {
		case top == "facts" && rest == "":
			wrong = Problem{"facts", "Facts: " + p.Message}
		case top == "facts":
			name, _, _ := strings.Cut(rest, ".")
			label := strings.TrimPrefix(listingform.LabelOf(p.Path), listingform.LabelOf("facts")+", ")
			wrong = Problem{"fact." + name, label + ": " + labelled.Replace(p.Message)}
		case top == "sourceUrls":
			label := "Sources"
			if n, err := strconv.Atoi(rest); err == nil && n < len(r.SourceURLs) {
				label = r.SourceURLs[n]
			}
			wrong = Problem{"sources", label + ": " + p.Message}
		case top == "evidence":
			wrong = Problem{"facts", "Quotes: " + p.Message}
			_, number, _ := strings.Cut(rest, ".")
			number, _, _ = strings.Cut(number, ".")
			if n, err := strconv.Atoi(number); err == nil && strings.HasPrefix(rest, "quotes.") && n < len(r.Evidence.Quotes) {
				fact := r.Evidence.Quotes[n].Fact
				wrong = Problem{"fact." + fact, Label(fact) + ", quote: " + p.Message}
			}
		case slices.Contains(api.ReviewedFields, p.Path):
			wrong = Problem{listedName(p.Path), listingform.LabelOf(p.Path) + ": " + p.Message}
		case p.Path == "note":
			wrong = Problem{fieldNote, "Note: " + p.Message}
		}
		problems = append(problems, wrong)
	}
	return problems
}

// labelled replaces the names of fields in a message by their labels.
var labelled = strings.NewReplacer("allRegions", "All regions", "includedRegions", "Only in", "excludedRegions",
	"Not in", "status to", "Residents are to",
	" is none", " is not one")

// unsupported returns the known facts that no opened source supports. A kept fact needs its own
// sources, or any source, to still say so. A changed fact can cite only pages that were opened.
func (f Form) unsupported(facts api.Facts) (problems []Problem) {
	opened, values := f.opened(), Values(facts)
	confirmed := slices.ContainsFunc(opened, func(u string) bool { return f.Mark(u) == StillSo })
	for _, name := range slices.Sorted(maps.Keys(values)) {
		decision := f.Decision(name)
		if decision == "" || string(values[name]) == string(unknown[name]) || f.outcome() == api.OutcomeClosed &&
			(decision == Keep || decision == closedStatus) {
			continue
		}
		cites, at := facts.Cites(name), "fact."+name
		switch {
		case decision == Keep && len(cites) == 0 && !confirmed:
			problems = append(problems, Problem{at, Label(name) + ": no source still says so; change it or set it to unknown"})
		case len(cites) == 0 && len(opened) == 0:
			problems = append(problems, Problem{at, Label(name) + ": open a source that says so"})
		}
		for _, u := range cites {
			switch mark := f.Mark(u); {
			case mark == StillSo || decision != Keep && mark == Otherwise:
			case decision == Keep:
				problems = append(problems, Problem{at,
					fmt.Sprintf("%s: cites %s; open it and mark that it still says so, change the fact, or set it to unknown",
						Label(name), f.nameOf(u))})
			default:
				problems = append(problems, Problem{at,
					fmt.Sprintf("%s: cites %s, which you did not open", Label(name), f.nameOf(u))})
			}
		}
	}
	return problems
}

func (f Form) nameOf(source string) string {
	if i := slices.Index(f.Sources, source); i >= 0 {
		return fmt.Sprintf("source %d", i+1)
	}
	return source
}

// Summary returns what the input would record: a sentence, and a line for each fact that changes or
// whose input is wrong.
func (f Form) Summary() string {
	if f.outcome() == api.OutcomeNeedsReview && !f.decided() {
		return "Needs review: no facts are recorded."
	}
	facts, _ := f.facts()
	recorded, now := Values(f.Base), Values(facts)
	kept, unknowns, undecided := 0, 0, 0
	var details []string
	for _, c := range f.Changes() {
		before, after := f.Listed[c.Field], f.Values.Get(listedName(c.Field))
		details = append(details, fmt.Sprintf("%s: %s → %s", listingform.LabelOf(c.Field),
			cmp.Or(before, "not recorded"), cmp.Or(after, "not recorded")))
	}
	for _, name := range api.FactNames {
		_, wrong := f.value(name)
		switch {
		case !f.Asks(name):
		case f.Decision(name) == "":
			undecided++
		case wrong != "":
			details = append(details, Label(name)+": "+wrong)
		case string(now[name]) != string(recorded[name]):
			details = append(details, f.change(facts, name))
		case string(now[name]) == string(unknown[name]):
			unknowns++
		default:
			kept++
		}
	}
	quotes := len(f.evidence(&facts).Quotes)
	changed := ""
	if len(details) > 0 {
		changed = fmt.Sprintf(" %d changed,", len(details))
	}
	text := fmt.Sprintf("%s: %s,%s %d unknown, %s.",
		outcomes[f.outcome()], count(kept, "fact kept", "facts kept"), changed, unknowns, count(quotes, "quote", "quotes"))
	if undecided > 0 {
		text += " " + count(undecided, "fact needs", "facts need") + " a decision."
	}
	return strings.Join(append([]string{text}, details...), "\n")
}

// Changes describes each fact that differs, as it was before and after.
func Changes(before, after api.Facts) (all []string) {
	for _, name := range Differences(before, after) {
		all = append(all, Form{Base: before}.change(after, name))
	}
	return all
}

// change describes the old and the new value of a fact. Values that differ only in what they cite
// are described by their sources.
func (f Form) change(facts api.Facts, name string) string {
	describe := func(facts api.Facts) string {
		return cmp.Or(strings.Join(Describe(facts, name), "; "), "unknown")
	}
	before, after := describe(f.Base), describe(facts)
	if before == after {
		before, after = f.sourcesOf(f.Base, name), f.sourcesOf(facts, name)
	}
	return fmt.Sprintf("%s: %s → %s", Label(name), before, after)
}

func (f Form) sourcesOf(facts api.Facts, name string) string {
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

func count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
