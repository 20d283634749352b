// Package listing defines the catalog's entries, which curators maintain, and the effects of changing one. Package listingfile defines
// the file format. Entries do not include verification, which is derived from the history service's events only.
package listing

import (
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Entry is a listing with its visibility and curation.
type Entry struct {
	listingfile.Listing

	Visibility listingfile.Visibility `json:"visibility" change:"editorial"`
	Curation   *listingfile.Curation  `json:"curation,omitempty" change:"editorial"`

	// ChangedAt is the time of the latest material change outside a review; nil if there was none since the listing was created.
	ChangedAt *time.Time `json:"-"`
}

// Public returns the record that consumers see at now. Facts from a review, if summary has any, replace the listing's own. summary is the
// zero value if history has none for the listing.
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
		Platform:       e.Platform,
		PublishedAt:    e.PublishedAt,
		Facts:          facts,
		Verification:   summary.VerificationAt(e.ChangedAt, now),
		Sources:        e.Sources,
		CompanyProfile: profile(e.CompanyProfile, now),
	}
}

// profile returns p as consumers see it at now, or nil if p is nil.
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
