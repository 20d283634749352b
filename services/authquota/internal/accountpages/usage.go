package accountpages

import (
	"html/template"
	"io"
	"slices"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// busiest is the number of keys listed on the page; the others are summed.
const busiest = 20

// usageView is the data of the usage page.
type usageView struct {
	Today  Allowance
	Chart  template.HTML
	Bars   []keyusage.Bar // newest first
	Legend []groupSum
	Total  int

	Choices  []rangeChoice
	Range    keyusage.Range
	Sum      keyusage.Figures
	Outcomes []keyusage.OutcomeCount
	Keys     keyusage.KeyCounts
}

type groupSum struct {
	Name, Class string
	Calls       int
}

type rangeChoice struct {
	Days    int
	Name    string
	Current bool
}

func (p *Pages) usage(v *Visit) (pages.View, error) {
	today, err := p.today(v)
	if err != nil {
		return pages.View{}, err
	}
	charted := keyusage.Last(v.Now, keyusage.ChartDays)
	counts, err := p.Usage.ByDay(v.Request.Context(), v.Person.Account, charted)
	if err != nil {
		return pages.View{}, err
	}
	bars := keyusage.Since(keyusage.Bars(charted, counts))
	shown := usageView{
		Today: today, Chart: keyusage.Chart(bars), Range: keyusage.Last(v.Now, keyusage.ParseDays(v.Query("days"), 30)),
	}
	all := keyusage.Sum(bars)
	shown.Total = all.Total()
	for g, calls := range all {
		shown.Legend = append(shown.Legend, groupSum{keyusage.Names[g], keyusage.Group(g).Class(), calls})
	}
	for _, n := range keyusage.Choices {
		shown.Choices = append(shown.Choices, rangeChoice{n, rangeName(n), n == shown.Range.Days})
	}
	shown.Sum = keyusage.Sum(keyusage.Bars(shown.Range, counts))
	shown.Outcomes = keyusage.ByOutcome(shown.Range, counts)
	shown.Keys, err = p.Usage.Busiest(v.Request.Context(), v.Person.Account, shown.Range, busiest, shown.Sum)
	slices.Reverse(bars)
	shown.Bars = bars
	return pages.View{Template: "usage", Title: "Usage", Data: shown}, err
}

// rangeName returns the label of the last n days.
func rangeName(n int) string {
	if n == 1 {
		return "Today"
	}
	return count(n) + " days"
}

// Current returns the label of the shown range within a sentence.
func (u usageView) Current() string {
	if u.Range.Days == 1 {
		return "today"
	}
	return "in the last " + rangeName(u.Range.Days)
}

// csv returns the account's usage as a file: all of it, or the days in the query.
func (p *Pages) csv(v *Visit) (pages.View, error) {
	r := keyusage.Last(v.Now, keyusage.ParseDays(v.Query("days"), keyusage.RetentionDays))
	return pages.View{
		Type: "text/csv; charset=utf-8; header=present", Name: "usage-" + r.From + "-to-" + r.To + ".csv",
		Stream: func(w io.Writer) error {
			file := keyusage.NewCSV(w)
			if err := p.Usage.Lines(v.Request.Context(), v.Person.Account, r, file.Write); err != nil {
				return err
			}
			return file.Write(nil) // writes the header of an empty file
		},
	}, nil
}
