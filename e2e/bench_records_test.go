package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// recordID returns the id of the i-th record.
func recordID(i int) string { return fmt.Sprintf("platform-%07d", i) }

const site = "https://platforms.example/"

// listingLine returns the i-th invented listing as a line for import. It is a record of about 2.7
// KB.
func listingLine(i int, now time.Time) any {
	random := rand.New(rand.NewPCG(uint64(i), 1)) //nolint:gosec // i is not negative
	id, facts := recordID(i), factsOf(i)
	published := now.Add(-time.Duration(i+1) * time.Second).UTC().Truncate(time.Second)
	checked := api.CheckDate(published.Format(time.DateOnly))
	return listingfile.Line{Visibility: listingfile.Published, Listing: listingfile.Listing{
		ID: id,
		Platform: api.Platform{
			Company:        api.Company{Name: "Platform " + sentence(random, 2), Website: site + id},
			ApplicationURL: site + id + "/apply", Category: api.Categories[i%len(api.Categories)],
			Summary: sentence(random, 12), Overview: sentence(random, 300),
			StartingCost: "None", WorkModel: "Independent contractor",
		},
		PublishedAt: &published, Facts: &facts, Sources: []api.Source{{URL: site + id + "/about", CheckedAt: &checked}},
	}}
}

// factsOf returns the facts of the i-th record: every second one is remote, every tenth is eligible
// in Canada.
func factsOf(i int) api.Facts {
	remote, degree, all := i%2 == 0, i%3 == 0, true
	f := api.Facts{
		Remote: &remote, DegreeRequired: &degree, Languages: []string{"English"}, ApplicationStatus: api.ApplicationOpen,
		Requirements: []string{"A computer with a microphone", "A bank account"},
	}
	if i%10 == 0 {
		f.CountryEligibility = []api.CountryEligibility{
			{Country: "CA", Status: api.Eligible, AllRegions: &all, SourceURLs: []string{site + "who"}},
		}
	}
	f.Complete()
	return f
}

// reviewLine returns a verified review of the i-th listing as a line of a file of events.
func reviewLine(i int, now time.Time) any {
	return map[string]any{
		"slug": recordID(i), "checkedAt": now.Add(-time.Duration(i+1) * time.Second).UTC().Truncate(time.Second),
		"checkType": api.FactualReview, "outcome": api.OutcomeVerified, "sourceUrls": []string{site + recordID(i)},
		"facts": factsOf(i),
		"note":  "",
	}
}

// sentence returns n words of 3,000. Some are much more frequent than others, as in a language.
func sentence(random *rand.Rand, n int) string {
	chosen := make([]string, n)
	for i := range chosen {
		chosen[i] = strconv.FormatInt(46_656+int64(3000*random.Float64()*random.Float64()*random.Float64()), 36)
	}
	return strings.Join(chosen, " ")
}
