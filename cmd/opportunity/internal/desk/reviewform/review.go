package reviewform

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
)

// Problem is a mistake in the input. Field is the id of an element of the form.
type Problem struct{ Field, Message string }

// review is a line of an events file.
type review struct {
	CheckedAt   string     `json:"checkedAt"`
	Outcome     string     `json:"outcome"`
	SourceURLs  []string   `json:"sourceUrls"`
	Facts       *api.Facts `json:"facts,omitempty"`
	Note        string     `json:"note"`
	LastEventID string     `json:"lastEventId"`

	Evidence api.Evidence `json:"evidence"`
}

// Review returns the review that the input means, or what is wrong with the input. stored are the quotes on the sheet.
func (f Form) Review(stored []api.Quote) (json.RawMessage, []Problem) {
	outcome := api.Outcome(f.Values.Get(fieldOutcome))
	var problems []Problem
	if !slices.Contains(api.Outcomes[api.Review], outcome) {
		problems = append(problems, Problem{fieldOutcome, "Choose an outcome"})
	}
	r := review{
		CheckedAt: f.Values.Get(fieldShown), Outcome: string(outcome), SourceURLs: f.opened(),
		Note: strings.TrimSpace(strings.ReplaceAll(f.Values.Get(fieldNote), "\r\n", "\n")), LastEventID: f.Values.Get(fieldSeen),
		Evidence: f.evidence(stored),
	}
	for _, u := range lines(f.Values.Get(fieldMore)) { // adopt left these
		problems = append(problems, Problem{fieldMore, fmt.Sprintf("%q is not an http or https URL", u)})
	}
	if outcome == api.OutcomeVerified || f.decided() {
		facts, wrong := f.facts()
		problems = append(problems, wrong...)
		problems = append(problems, f.unsupported(facts)...)
		r.Facts = &facts
	}
	if len(problems) > 0 {
		return nil, problems
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, []Problem{{"", err.Error()}}
	}
	return text, nil
}

// decided reports whether there is a decision about any fact.
func (f Form) decided() bool {
	return slices.ContainsFunc(api.FactNames, func(name string) bool { return f.Decision(name) != "" })
}

// facts returns the facts that the decisions mean.
func (f Form) facts() (api.Facts, []Problem) {
	values, recorded, entered := map[string]json.RawMessage{}, Values(f.Base), f.entered()
	var problems []Problem
	for _, name := range api.FactNames {
		switch decision := f.Decision(name); decision {
		case "":
			problems = append(problems, Problem{"fact." + name, Label(name) + ": keep it, change it, or set it to unknown"})
		case Keep:
			values[name] = recorded[name]
		case Unknown:
			values[name] = unknown[name]
		case Change:
			value, wrong := entered(name)
			if wrong != "" {
				problems = append(problems, Problem{"fact." + name, Label(name) + ": " + wrong})
			}
			values[name] = value
		default:
			if !isOption(name, decision) {
				problems = append(problems, Problem{"fact." + name, Label(name) + ": choose one of the values"})
				continue
			}
			values[name] = json.RawMessage(decision)
		}
	}
	var facts api.Facts
	text, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(text, &facts)
	}
	if err != nil {
		return facts, append(problems, Problem{"", err.Error()})
	}
	var invalid api.Problems
	facts.Normalize("facts", &invalid)
	return facts, append(problems, Explain(invalid)...)
}

// Explain converts problems of a review, such as "facts.pay.minimum: must not be negative", to problems of the form.
func Explain(invalid api.Problems) (problems []Problem) {
	for _, p := range invalid {
		path, what, ofField := strings.Cut(p, ": ")
		if !ofField {
			problems = append(problems, Problem{"", p})
			continue
		}
		rest, isFact := strings.CutPrefix(path, "facts.")
		switch {
		case path == "facts":
			problems = append(problems, Problem{"facts", "Facts: " + what})
			continue
		case strings.HasPrefix(path, "sourceUrls"):
			problems = append(problems, Problem{"sources", "Sources: " + what})
			continue
		case !isFact:
			problems = append(problems, Problem{path, p})
			continue
		}
		name := rest[:strings.IndexAny(rest+".", ".[")]
		where := strings.TrimPrefix(strings.TrimPrefix(rest, name), ".")
		problems = append(problems, Problem{"fact." + name, Label(name) + ": " + strings.TrimSpace(where+" "+what)})
	}
	return problems
}

func isOption(name, value string) bool {
	for _, g := range Groups {
		for _, f := range g.Facts {
			if f.Name == name {
				return slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == value })
			}
		}
	}
	return false
}

// unsupported returns the known facts that no opened source supports. A kept fact needs its own sources, or any source, to still say
// so. A changed fact can cite only pages that were opened.
func (f Form) unsupported(facts api.Facts) (problems []Problem) {
	opened, values := f.opened(), Values(facts)
	confirmed := slices.ContainsFunc(opened, func(u string) bool { return f.Mark(u) == StillSo })
	for _, name := range slices.Sorted(maps.Keys(values)) {
		decision := f.Decision(name)
		if decision == "" || string(values[name]) == string(unknown[name]) {
			continue
		}
		cites, at := Cites(facts, name), "fact."+name
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
				problems = append(problems, Problem{at, fmt.Sprintf("%s: cites %s; open it and mark that it still says so, change the fact, or set it to unknown",
					Label(name), f.nameOf(u))})
			default:
				problems = append(problems, Problem{at, fmt.Sprintf("%s: cites %s, which you did not open", Label(name), f.nameOf(u))})
			}
		}
	}
	return problems
}

// nameOf returns how the form refers to a source.
func (f Form) nameOf(source string) string {
	if i := slices.Index(f.Sources, source); i >= 0 {
		return fmt.Sprintf("source %d", i+1)
	}
	return source
}
