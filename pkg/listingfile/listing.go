// Package listingfile is the file format in which curators keep listings: JSON Lines, a header and then one listing on each
// line. Read judges a file, for the catalog's import and for whoever wants to know beforehand; Schema describes a line.
package listingfile

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
