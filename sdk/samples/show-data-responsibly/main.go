// Command show-data-responsibly prints a record as HTML, with the status, check date and source
// beside each fact.
package main

import (
	"context"
	"fmt"
	"html/template"
	"log"
	"os"
	"strings"

	"opportunity.internal/sdk/go/opportunity"
)

// fact is one line. Without a source of its own, it is based on the sources of the record.
type fact struct{ Label, Value, Source string }

var page = template.Must(template.New("record").Parse(`<article>
  <h2>{{.Name}}</h2>
  <dl>
{{- range .Facts}}
    <dt>{{.Label}}</dt>
    <dd>{{.Value}} ({{$.Status}}, checked {{$.Checked}}, <a href="{{.Source}}">source</a>)</dd>
{{- end}}
  </dl>
  <p>Status at <time>{{.At}}</time></p>
</article>
`))

func main() {
	client, err := opportunity.New()
	if err != nil {
		log.Fatal(err)
	}
	detail, err := client.Opportunity(context.Background(), "maple-scribe")
	if err != nil {
		log.Fatal(err)
	}
	record := detail.Data
	err = page.Execute(os.Stdout, map[string]any{
		"Name": record.Company.Name, "Facts": facts(record), "Status": record.Verification.Status,
		"Checked": day(record), "At": detail.Meta.GeneratedAt.Format("2006-01-02"),
	})
	if err != nil {
		log.Fatal(err)
	}
}

func facts(record opportunity.Opportunity) (all []fact) {
	f, source := record.Facts, record.Company.Website
	if len(record.Sources) > 0 { // there is none if all pages are gone
		source = record.Sources[0].URL
	}
	for _, c := range f.CountryEligibility {
		if len(c.SourceURLs) > 0 {
			all = append(all, fact{"Residents of " + c.Country, string(c.Status) + ": " + regions(c), c.SourceURLs[0]})
		}
	}
	all = append(all, fact{"Degree required", f.DegreeRequired.String(), source}) // true, false or unknown
	pay := fact{"Pay", "unknown", source}
	if f.Pay != nil {
		amount := fmt.Sprintf("%g to %g %s for each %s", f.Pay.Minimum, f.Pay.Maximum, f.Pay.Currency, f.Pay.Unit)
		pay = fact{"Pay", amount, f.Pay.SourceURL}
	}
	return append(all, pay)
}

// regions returns the regions to which an entry applies: an eligible country does not mean that
// each of its regions is.
func regions(c opportunity.CountryEligibility) string {
	where := "regions unknown"
	if c.AllRegions == opportunity.True {
		where = "all regions"
	} else if len(c.IncludedRegions) > 0 {
		where = strings.Join(c.IncludedRegions, ", ")
	}
	if len(c.ExcludedRegions) > 0 {
		where += " except " + strings.Join(c.ExcludedRegions, ", ")
	}
	return where
}

// day returns the date of the latest review.
func day(record opportunity.Opportunity) string {
	if at := record.Verification.LastCheckedAt; at != nil {
		return at.Format("2006-01-02")
	}
	return "never"
}
