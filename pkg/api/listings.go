package api

import (
	"encoding/json"
	"time"
)

// ListedListing is a listing in a list for curators, published or not.
type ListedListing struct {
	ID         string   `json:"id"`
	Company    string   `json:"company"`
	Category   Category `json:"category"`
	Visibility string   `json:"visibility"` // private, published or withdrawn
	// of the record, or what it would be if the listing were published
	Status            VerificationStatus `json:"status"`
	ApplicationStatus ApplicationStatus  `json:"applicationStatus"` // in the facts that consumers see
	Sources           int                `json:"sources"`           // how many the listing cites
	PublishedAt       *time.Time         `json:"publishedAt"`
	LastCheckedAt     *time.Time         `json:"lastCheckedAt"` // latest factual review
	UpdatedAt         time.Time          `json:"updatedAt"`     // latest change of the listing
	Host              string             `json:"host"`          // of the company's website, without www.
	DueAt             *time.Time         `json:"dueAt"`         // when it falls due for a review; null unless published
	Lease             *Lease             `json:"lease,omitempty"`
}

// ListingList is a page of listings in the order of their ids.
type ListingList struct {
	Listings []ListedListing `json:"listings"`
	Next     string          `json:"next,omitempty"` // pass it as after to get the next page; empty on the last
}

// ListingDetail is everything about one listing, published or not.
type ListingDetail struct {
	GeneratedAt time.Time       `json:"generatedAt"`
	Version     string          `json:"version"` // of Listing: the entity tag of the response without quotes
	Listing     json.RawMessage `json:"listing"` // a line of a listings file, with visibility and curation
	Record      Opportunity     `json:"record"`  // what consumers see, or would if the listing were published
	CreatedAt   time.Time       `json:"createdAt"`
	UpdatedAt   time.Time       `json:"updatedAt"`
	ChangedAt   *time.Time      `json:"changedAt"` // latest change, outside a review, of a field on which reviews rest
	Changes     []ListingAct    `json:"changes"`   // the latest 100, newest first
}

// ListingAct is something that an operator did to a listing.
type ListingAct struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"` // imported, updated, published or withdrawn
	Fields []string  `json:"fields"` // that it changed
	Reason string    `json:"reason,omitempty"`
}

// CatalogStatus describes what consumers can see.
type CatalogStatus struct {
	GeneratedAt time.Time `json:"generatedAt"`
	FreeSet     FreeSet   `json:"freeSet"`
}

// FreeSet counts the records that the free tier sees, and the other published records by the reason
// why it does not.
type FreeSet struct {
	Records       int `json:"records"`
	Limit         int `json:"limit"`         // most records that it can have
	Published     int `json:"published"`     // the sum of Records and the counts below
	NeverReviewed int `json:"neverReviewed"` // no factual review
	NeedsReview   int `json:"needsReview"`
	Stale         int `json:"stale"`
	NotOpen       int `json:"notOpen"`     // verified, and takes no applications
	BeyondLimit   int `json:"beyondLimit"` // qualifies, and was published later than those in the set
}

// ImportReport is the response to an import, a publication or a withdrawal, and to a dry run of
// one: then it has what would change. Applied is false after a dry run or if any line was rejected;
// nothing was changed then. If any line was rejected, only the rejected lines are set.
type ImportReport struct {
	Applied   bool           `json:"applied"`
	Created   int            `json:"created"`
	Updated   int            `json:"updated"`
	Unchanged int            `json:"unchanged"`
	Rejected  []RejectedLine `json:"refused"` // in file order; limited in number; empty, never null
	Omitted   int            `json:"omitted"` // further rejected lines

	Published int `json:"published,omitempty"` // listings that became visible
	// of those, listings without a factual review; consumers see them as unverified
	NeverReviewed int `json:"neverReviewed,omitempty"`
	Withdrawn     int `json:"withdrawn,omitempty"` // listings that an import withdrew
	// withdrawn listings that the file has as published; an import never republishes
	KeptWithdrawn []string `json:"keptWithdrawn,omitempty"`
	Warnings      []string `json:"warnings,omitempty"` // such as new listings that may be duplicates

	// Of a dry run of an import.
	SHA256      string          `json:"sha256,omitempty"`      // of the file, in hexadecimal; an import can require it
	NeedsReview int             `json:"needsReview,omitempty"` // published listings whose status would become needs-review
	Changes     []ListingChange `json:"changes,omitempty"`     // in file order; without unchanged listings
	Unlisted    int             `json:"unlisted,omitempty"`    // changes beyond 16 MiB, which are only counted
}

// AppendReport is the response to an append of events. Applied is false if any line was rejected;
// nothing was changed then.
type AppendReport struct {
	Applied    bool           `json:"applied"`
	Appended   int            `json:"appended"`
	Duplicates int            `json:"duplicates"` // lines recorded before, or repeated in the file
	Rejected   []RejectedLine `json:"refused"`    // in file order; limited in number; empty, never null
	Omitted    int            `json:"omitted"`    // further rejected lines

	// Newer lists events that the curator had not seen at the time of the review, oldest first. The
	// status is 409 if there are any.
	Newer []RecordedEvent `json:"newer,omitempty"`
}

// RejectedLine is a rejected line of a file with all its problems.
type RejectedLine struct {
	Line     int      `json:"line"` // from 1, counting blank lines
	ID       string   `json:"id"`   // of the record; empty if it could not be read
	Problems Problems `json:"problems"`
}

// Values of ListingChange.Change.
const (
	ListingCreated = "created"
	ListingUpdated = "updated"
)

// ListingChange is the change that an import would make to one listing.
type ListingChange struct {
	ID          string        `json:"id"`
	Change      string        `json:"change"`      // ListingCreated or ListingUpdated
	Published   bool          `json:"published"`   // whether it would become visible
	Withdrawn   bool          `json:"withdrawn"`   // whether it would be withdrawn
	NeedsReview bool          `json:"needsReview"` // whether its status would become needs-review
	Fields      []FieldChange `json:"fields"`      // if updated
}

// FieldChange is the old and new value of a field of a listing, null if it is absent.
type FieldChange struct {
	Field string          `json:"field"` // path, such as facts.pay.minimum
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}
