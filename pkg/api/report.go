package api

import "encoding/json"

// ImportReport is the response to an import, a publication or a withdrawal. Applied is false if a line was refused, and after a dry
// run: then nothing was changed.
type ImportReport struct {
	Applied   bool      `json:"applied"`
	Created   int       `json:"created"`
	Updated   int       `json:"updated"`
	Unchanged int       `json:"unchanged"`
	Refused   []Refusal `json:"refused"` // in the order of the file; empty, never null
	Omitted   int       `json:"omitted"` // refused lines beyond those in Refused, of which there is a most

	Published     int      `json:"published,omitempty"`     // listings that became visible
	NeverReviewed int      `json:"neverReviewed,omitempty"` // of those, without a factual review: consumers see them as unverified
	KeptWithdrawn []string `json:"keptWithdrawn,omitempty"` // withdrawn listings that the file says are published; an import never does that
	Warnings      []string `json:"warnings,omitempty"`
}

// AppendReport is the history's answer to an append: Applied is false iff a line was refused, and then nothing was changed.
type AppendReport struct {
	Applied    bool      `json:"applied"`
	Appended   int       `json:"appended"`
	Duplicates int       `json:"duplicates"` // lines that were recorded before, or twice in the file
	Refused    []Refusal `json:"refused"`    // in the order of the file; empty, never null
	Omitted    int       `json:"omitted"`    // refused lines beyond those in Refused, of which there is a most

	// Newer are events that the curator had not seen when the review was made, oldest first. With any, the status is 409.
	Newer []RecordedEvent `json:"newer,omitempty"`
}

// Refusal names a line of a file and everything that is wrong with it.
type Refusal struct {
	Line     int      `json:"line"` // counted from 1, blank lines included
	ID       string   `json:"id"`   // of the record that the line speaks of, where it could be read
	Problems Problems `json:"problems"`
}

// ImportPreview is the catalog's answer to an import that is only tried. Where a line was refused nothing else is told.
type ImportPreview struct {
	DryRun      bool            `json:"dryRun"` // true
	Created     int             `json:"created"`
	Updated     int             `json:"updated"`
	Unchanged   int             `json:"unchanged"`
	Published   int             `json:"published"`   // of those created or updated, which would become visible
	NeedsReview int             `json:"needsReview"` // published ones that would turn needs-review
	Changes     []ListingChange `json:"changes"`     // in the order of the file; unchanged listings are left out
	Refused     []Refusal       `json:"refused"`
	Omitted     int             `json:"omitted"`

	NeverReviewed int      `json:"neverReviewed,omitempty"` // of Published, without a factual review
	KeptWithdrawn []string `json:"keptWithdrawn,omitempty"` // as in ImportReport
}

// Count adds a change to the preview.
func (p *ImportPreview) Count(c ListingChange) {
	if c.Change == ListingCreated {
		p.Created++
	} else {
		p.Updated++
	}
	if c.Published {
		p.Published++
	}
	if c.NeedsReview {
		p.NeedsReview++
	}
	p.Changes = append(p.Changes, c)
}

// What an import does to a listing that it changes.
const (
	ListingCreated = "created"
	ListingUpdated = "updated"
)

// ListingChange is what an import would do to one listing.
type ListingChange struct {
	ID          string        `json:"id"`
	Change      string        `json:"change"`      // ListingCreated or ListingUpdated
	Published   bool          `json:"published"`   // it would become visible
	NeedsReview bool          `json:"needsReview"` // its record would turn needs-review
	Fields      []FieldChange `json:"fields"`      // of an updated one
}

// FieldChange is the old and the new value of a part of a listing; null where there was, or would be, none.
type FieldChange struct {
	Field string          `json:"field"` // its path, such as facts.pay.minimum
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}
