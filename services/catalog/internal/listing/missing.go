package listing

import (
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Missing returns the names of the fields that a curator should fill in before the listing is
// published, in the order of the file format. Only sources are required for publication.
func Missing(l listingfile.Listing) []string {
	missing := []string{}
	for _, field := range []struct {
		name  string
		empty bool
	}{
		{"company.name", l.Company.Name == ""},
		{"company.website", l.Company.Website == ""},
		{"applicationUrl", l.ApplicationURL == ""},
		{"summary", l.Summary == ""},
		{"overview", l.Overview == ""},
		{"startingCost", l.StartingCost == ""},
		{"workModel", l.WorkModel == ""},
		{"facts.countryEligibility", l.Facts == nil || len(l.Facts.CountryEligibility) == 0},
		{"facts.applicationStatus", l.Facts == nil || l.Facts.ApplicationStatus == "" ||
			l.Facts.ApplicationStatus == api.ApplicationUnknown},
		{"sources", len(l.Sources) == 0},
	} {
		if field.empty {
			missing = append(missing, field.name)
		}
	}
	return missing
}
