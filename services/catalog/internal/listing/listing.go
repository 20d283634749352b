// Package listing is what curators maintain: a listing with its place in the catalog, and what a change of it means. How a
// listing is written in a file is told by pkg/listingfile. Verification is no part of it; that comes from events alone.
package listing

import (
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Entry is a listing with its place in the catalog.
type Entry struct {
	listingfile.Listing

	Visibility listingfile.Visibility `json:"visibility"`
	Curation   *listingfile.Curation  `json:"curation,omitempty"`

	// ChangedAt is the latest material change outside a review; nil if there was none since the listing came into being.
	ChangedAt *time.Time `json:"-"`
}

// Public is the record that consumers see at now. summary is what history says of the listing, its zero value where it says
// nothing; facts from a review take the place of the listing's own.
func (e Entry) Public(summary api.Summary, now time.Time) api.Opportunity {
	facts := api.UnknownFacts()
	switch {
	case summary.Facts != nil:
		facts = *summary.Facts
	case e.Facts != nil:
		facts = *e.Facts
	}
	facts.Complete()
	return api.Opportunity{
		ID:             e.ID,
		Kind:           api.Kind,
		Company:        e.Company,
		ApplicationURL: e.ApplicationURL,
		Category:       e.Category,
		Subcategory:    e.Subcategory,
		Summary:        e.Summary,
		Overview:       e.Overview,
		StartingCost:   e.StartingCost,
		WorkModel:      e.WorkModel,
		PublishedAt:    e.PublishedAt,
		Facts:          facts,
		Verification:   summary.VerificationAt(e.ChangedAt, now),
		Sources:        e.Sources,
		CompanyProfile: profile(e.CompanyProfile, now),
	}
}

// profile is p as consumers see it at now; nil stays nil.
func profile(p *listingfile.Profile, now time.Time) *api.CompanyProfile {
	if p == nil {
		return nil
	}
	public := &api.CompanyProfile{
		Bio: p.Bio, FoundedYear: p.FoundedYear, ExperienceSources: p.ExperienceSources, EvidenceAssessment: p.EvidenceAssessment,
	}
	public.Complete()
	public.Freshness = public.FreshnessAt(now)
	return public
}
