package desk

import (
	"net/http"
	"slices"

	"opportunity.internal/cmd/opportunity/internal/desk/reviewform"
	"opportunity.internal/pkg/api"
)

// ownFacts stands for the listing's own facts in a comparison.
const ownFacts = "listing"

// comparePage is the data of the comparison of two reviews, or of a review with the listing's own facts.
type comparePage struct {
	ID, Company string
	Sides       []side
	A, B        string // ids of the sides
	Rows        []comparedFact
}

// side is a set of facts that can be compared.
type side struct {
	ID, Label string
	facts     api.Facts
	sources   []string
}

// comparedFact is a fact on both sides.
type comparedFact struct {
	Label    string
	A, B     []string
	Differs  bool
	OnlyA    []string // sources that only side A cites
	OnlyB    []string
	Disagree bool // both sides know the fact from different sources and differ
}

// compare shows two events side by side; without a choice, the two latest reviews.
func (d *Desk) compare(v *visit) (view, error) {
	sheet, err := d.sheet(v, v.PathValue("id"), "")
	if err != nil {
		return view{}, err
	}
	page := comparePage{ID: sheet.Record.ID, Company: sheet.Record.Company.Name, A: v.FormValue("a"), B: v.FormValue("b")}
	for _, e := range withFacts(sheet.Events) {
		page.Sides = append(page.Sides, side{e.ID, e.CheckedAt.UTC().Format("2 Jan 2006, 15:04") + " UTC by " + e.Actor + ": " + string(e.Outcome), *e.Facts, e.SourceURLs})
	}
	if sheet.OwnFacts != nil {
		var urls []string
		for _, s := range sheet.Record.Sources {
			urls = append(urls, s.URL)
		}
		page.Sides = append(page.Sides, side{ownFacts, "The listing's own facts", *sheet.OwnFacts, urls})
	}
	if len(page.Sides) < 2 {
		return view{Template: "error", Title: "Nothing to compare", Status: http.StatusNotFound, Data: "This record has fewer than two sets of facts."}, nil
	}
	a, b := page.find(page.A, 1), page.find(page.B, 0)
	page.A, page.B = a.ID, b.ID
	page.compare(a, b)
	return view{Template: "compare", Title: "Compare " + page.Company, Data: page}, nil
}

// find returns the side with an id, or the one at index otherwise.
func (p *comparePage) find(id string, otherwise int) side {
	if i := slices.IndexFunc(p.Sides, func(s side) bool { return s.ID == id }); i >= 0 {
		return p.Sides[i]
	}
	return p.Sides[otherwise]
}

func (p *comparePage) compare(a, b side) {
	differ := reviewform.Differences(a.facts, b.facts)
	for _, g := range reviewform.Groups {
		for _, f := range g.Facts {
			row := comparedFact{
				Label: f.Label, A: reviewform.Describe(a.facts, f.Name), B: reviewform.Describe(b.facts, f.Name), Differs: slices.Contains(differ, f.Name),
			}
			citesA, citesB := cited(a, f.Name), cited(b, f.Name)
			row.OnlyA, row.OnlyB = without(citesA, citesB), without(citesB, citesA)
			row.Disagree = row.Differs && len(row.A) > 0 && len(row.B) > 0 && (len(row.OnlyA) > 0 || len(row.OnlyB) > 0)
			p.Rows = append(p.Rows, row)
		}
	}
}

// cited returns the sources of a fact, or those of the whole side if the fact has none of its own.
func cited(s side, name string) []string {
	if urls := reviewform.Cites(s.facts, name); len(urls) > 0 {
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
