// Package listingfile implements the file format of listings: JSON Lines with a header, then one
// listing per line, or CSV. Read validates a file, both for the catalog's import and for the lint
// command. Schema describes a line.
package listingfile

import (
	_ "embed"
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
	CompanyProfile *api.Profile `json:"companyProfile,omitempty" change:"editorial"`
}

// Visibility is the visibility of a listing. The API serves only published listings.
type Visibility string

const (
	Private   Visibility = "private" // a candidate
	Published Visibility = "published"
	Withdrawn Visibility = "withdrawn" // taken down, or rejected as a candidate
)

// Schema is the JSON Schema (draft 2020-12) of a line of a file, including the header. Every line
// that Read accepts is valid. Its $comment lists the reasons for which Read rejects a valid line.
//
//go:embed schema.json
var Schema []byte

// Example is a file with a header and one listing that uses every field.
//
//go:embed example.jsonl
var Example []byte
