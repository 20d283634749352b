// Package listing is what curators maintain: the editable part of a record, how a file of listings is read, and what a change
// of a listing means. Verification is no part of it; that comes from events alone.
package listing

import (
	"time"

	"opportunity.internal/pkg/api"
)

// Listing is the editable part of a record. Its JSON form is a line of an import or export without visibility and curation,
// and the document that the store keeps.
type Listing struct {
	ID             string       `json:"id"`
	Company        api.Company  `json:"company"`
	ApplicationURL string       `json:"applicationUrl"`
	Category       api.Category `json:"category"`
	Subcategory    *string      `json:"subcategory"`
	Summary        string       `json:"summary"`
	Overview       string       `json:"overview"`
	StartingCost   string       `json:"startingCost"`
	WorkModel      string       `json:"workModel"`
	PublishedAt    *time.Time   `json:"publishedAt"` // UTC, whole microseconds
	Facts          *api.Facts   `json:"facts,omitempty"`
	Sources        []api.Source `json:"sources"`
	CompanyProfile *Profile     `json:"companyProfile,omitempty"`
}

// Profile is the part of a company profile that curators write; its freshness is derived.
type Profile struct {
	Bio                *api.ProfileText       `json:"bio"`
	FoundedYear        *api.ProfileYear       `json:"foundedYear"`
	ExperienceSources  []api.ExperienceSource `json:"experienceSources"`
	EvidenceAssessment *api.Assessment        `json:"evidenceAssessment"`
}

// Public is the profile as consumers see it at now; nil stays nil.
func (p *Profile) Public(now time.Time) *api.CompanyProfile {
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

// Visibility says who may see a listing. Only published ones are ever served.
type Visibility string

const (
	Private   Visibility = "private" // a candidate
	Published Visibility = "published"
	Withdrawn Visibility = "withdrawn" // was taken down, or refused as a candidate
)

// Curation is what curators note for themselves. It is kept apart from the listing so that nothing which is encoded for the
// API can contain it.
type Curation struct {
	Contact string `json:"contact"`
	Notes   string `json:"notes"`
}

// orNil gives "nothing noted" its one form, nil.
func (c *Curation) orNil() *Curation {
	if c == nil || *c == (Curation{}) {
		return nil
	}
	return c
}

// Entry is a listing with its place in the catalog.
type Entry struct {
	Listing

	Visibility Visibility `json:"visibility"`
	Curation   *Curation  `json:"curation,omitempty"`

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
		CompanyProfile: e.CompanyProfile.Public(now),
	}
}
