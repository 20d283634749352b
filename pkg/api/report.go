package api

import "encoding/json"

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
