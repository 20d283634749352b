package listing

import (
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Filter selects listings for curators. A field with its zero value matches every listing.
type Filter struct {
	Visibility listingfile.Visibility
	Status     api.VerificationStatus
	Category   api.Category
	Country    string // upper case; matches if residents are eligible, as for consumers
	Text       string // part of the id or of the company's name, case-insensitive
}

// Matches reports whether f selects the listing. public is its record at the time of the request.
func (f Filter) Matches(e Entry, public api.Opportunity) bool {
	return (f.Visibility == "" || f.Visibility == e.Visibility) &&
		(f.Status == "" || f.Status == public.Verification.Status) &&
		(f.Category == "" || f.Category == e.Category) &&
		(f.Country == "" || slices.ContainsFunc(public.Facts.CountryEligibility, func(c api.CountryEligibility) bool {
			return c.Country == f.Country && c.Status == api.Eligible
		})) &&
		(f.Text == "" || containsFold(e.ID, f.Text) || containsFold(e.Company.Name, f.Text))
}

func containsFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

// Listed returns the listing's entry in a list for curators.
func (e Entry) Listed(public api.Opportunity, updatedAt time.Time) api.ListedListing {
	return api.ListedListing{
		ID: e.ID, Company: e.Company.Name, Category: e.Category, Visibility: string(e.Visibility),
		Status: public.Verification.Status, ApplicationStatus: public.Facts.ApplicationStatus, Sources: len(e.Sources),
		PublishedAt: e.PublishedAt, LastCheckedAt: public.Verification.LastCheckedAt, UpdatedAt: updatedAt,
	}
}
