package desk

import (
	"net/http"
	"slices"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/desk/reviewform"
	"opportunity.internal/pkg/api"
)

// ownFacts stands for the listing's own facts in a comparison.
const ownFacts = "listing"

// comparePage is the data of the comparison of two events, or of an event with the listing's own
// facts.
type comparePage struct {
	ID, Company string
	Sides       []side
	A, B        side
	Rows        []comparedRow // the events themselves, then the facts if both sides have any
	Differ      int           // facts that differ
}

// side is an event, or the listing itself.
type side struct {
	ID, Label     string
	outcome, note []string
	facts         *api.Facts // nil: the event has none
	sources       []string
}

// HasFacts reports whether there are facts to compare.
func (s side) HasFacts() bool { return s.facts != nil }

// comparedRow is a fact, or a property of the events, on both sides.
type comparedRow struct {
	Label    string
	A, B     []string
	Differs  bool
	OnlyA    []string // sources that only side A cites for the fact
	OnlyB    []string
	Disagree bool // both sides know the fact from different sources and differ
}

// sides returns what can be compared: the events, newest first, and the listing's own facts.
func sides(sheet api.ReviewSheet) (all []side) {
	for _, e := range sheet.Events {
		s := side{
			ID: e.ID, Label: e.CheckedAt.UTC().Format("2 Jan 2006, 15:04") + " UTC, " + checkName(e.CheckType) + " by " +
				e.Actor + ": " + string(e.Outcome),
			outcome: []string{string(e.Outcome)}, facts: e.Facts, sources: e.SourceURLs,
		}
		if e.Note != "" {
			s.note = []string{e.Note}
		}
		all = append(all, s)
	}
	if sheet.OwnFacts != nil {
		s := side{ID: ownFacts, Label: "The listing's own facts", facts: sheet.OwnFacts}
		for _, source := range sheet.Record.Sources {
			s.sources = append(s.sources, source.URL)
		}
		all = append(all, s)
	}
	return all
}

func checkName(t api.CheckType) string {
	if t == api.FactualReview {
		return "review"
	}
	return "link check"
}

// compare shows two events side by side; without a choice, the two latest sets of facts.
func (d *Desk) compare(v *visit) (view, error) {
	sheet, err := d.sheet(v, v.PathValue("id"), "")
	if err != nil {
		return view{}, err
	}
	page := comparePage{ID: sheet.Record.ID, Company: sheet.Record.Company.Name, Sides: sides(sheet)}
	if len(page.Sides) < 2 {
		return view{Template: "error", Title: "Nothing to compare", Status: http.StatusNotFound,
			Data: "This record has fewer than two events or sets of facts."}, nil
	}
	// The sides with facts first: they are what a person compares unless they choose.
	preferred := slices.Clone(page.Sides)
	slices.SortStableFunc(preferred, func(a, b side) int {
		switch {
		case a.HasFacts() == b.HasFacts():
			return 0
		case a.HasFacts():
			return -1
		}
		return 1
	})
	page.A, page.B = page.find(v.FormValue("a"), preferred[1]), page.find(v.FormValue("b"), preferred[0])
	page.compare()
	return view{Template: "compare", Title: "Compare " + page.Company, Data: page}, nil
}

// find returns the side with an id, or otherwise.
func (p *comparePage) find(id string, otherwise side) side {
	if i := slices.IndexFunc(p.Sides, func(s side) bool { return s.ID == id }); i >= 0 {
		return p.Sides[i]
	}
	return otherwise
}

func (p *comparePage) compare() {
	a, b := p.A, p.B
	for _, row := range []comparedRow{{Label: "Outcome", A: a.outcome, B: b.outcome},
		{Label: "Note", A: a.note, B: b.note}, {Label: "Sources", A: a.sources, B: b.sources}} {
		row.Differs = !slices.Equal(row.A, row.B)
		p.Rows = append(p.Rows, row)
	}
	if !a.HasFacts() || !b.HasFacts() {
		return
	}
	differ := reviewform.Differences(*a.facts, *b.facts)
	p.Differ = len(differ)
	for _, f := range reviewform.Facts {
		row := comparedRow{
			Label: f.Label, A: reviewform.Describe(*a.facts, f.Name), B: reviewform.Describe(*b.facts,
				f.Name), Differs: slices.Contains(differ, f.Name),
		}
		if row.Differs {
			citesA, citesB := a.cited(f.Name), b.cited(f.Name)
			row.OnlyA, row.OnlyB = without(citesA, citesB), without(citesB, citesA)
		}
		row.Disagree = len(row.A) > 0 && len(row.B) > 0 && len(row.OnlyA) > 0 && len(row.OnlyB) > 0
		p.Rows = append(p.Rows, row)
	}
}

// Disagreements returns the facts for which the sides cite different sources that say different
// things.
func (p comparePage) Disagreements() (rows []comparedRow) {
	for _, row := range p.Rows {
		if row.Disagree {
			rows = append(rows, row)
		}
	}
	return rows
}

// One returns lines as one line.
func (comparedRow) One(lines []string) string { return strings.Join(lines, "; ") }

// cited returns the sources of a fact, or those of the whole side if the fact has none of its own.
func (s side) cited(name string) []string {
	if urls := s.facts.Cites(name); len(urls) > 0 {
		return urls
	}
	return s.sources
}

func without(all, others []string) (rest []string) {
	for _, u := range all {
		if !slices.Contains(others, u) {
			rest = append(rest, u)
		}
	}
	return rest
}
