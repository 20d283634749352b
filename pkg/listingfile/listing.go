// Package listingfile implements the file format of listings: JSON Lines with a header, then one
// listing per line, or CSV. Read validates a file, both for the catalog's import and for the lint
// command. Schema describes a line.
package listingfile

import (
	"time"

	"opportunity.internal/pkg/api"
)

// Listing is the editable part of a record. Its JSON form is the document in the catalog's
// database, and a line of a file without visibility and curation.
type Listing struct {
	ID string `json:"id"`
	api.Platform
	PublishedAt    *time.Time   `json:"publishedAt" change:"editorial"` // UTC, whole microseconds
	Facts          *api.Facts   `json:"facts,omitempty" change:"material"`
	Sources        []api.Source `json:"sources" change:"editorial"`
	CompanyProfile *Profile     `json:"companyProfile,omitempty" change:"editorial"`
}

// Profile is the editable part of a company profile. The rest, its freshness, is derived.
type Profile struct {
	Bio                *api.ProfileText       `json:"bio"`
	FoundedYear        *api.ProfileYear       `json:"foundedYear"`
	ExperienceSources  []api.ExperienceSource `json:"experienceSources"`
	EvidenceAssessment *api.Assessment        `json:"evidenceAssessment"`
}

// Visibility is the visibility of a listing. The API serves only published listings.
type Visibility string

const (
	Private   Visibility = "private" // a candidate
	Published Visibility = "published"
	Withdrawn Visibility = "withdrawn" // taken down, or rejected as a candidate
)

// Curation holds private notes of curators. It is separate from Listing so that no API response can
// contain it.
type Curation struct {
	Contact string `json:"contact"`
	Notes   string `json:"notes"`
}
