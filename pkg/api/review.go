package api

import (
	"cmp"
	"slices"
	"time"
)

// Doubt is the event that puts a record in doubt: the latest factual review where it did not succeed, or else the link check that
// conflicts with it.
type Doubt struct {
	EventID   string    `json:"eventId"`
	CheckType CheckType `json:"checkType"`
	Outcome   Outcome   `json:"outcome"`
	CheckedAt time.Time `json:"checkedAt"`
	Note      string    `json:"note"`
}

// Why a record is due for a factual review.
const (
	DueNeverReviewed = "never-reviewed" // since it was published
	DueStale         = "stale"          // more than FreshnessWindow has passed since its latest review, or soon will have
	DueReview        = "review"         // its latest review ended in doubt
	DueLinkCheck     = "link-check"     // a link check conflicts with its latest review
	DueEdit          = "edit"           // a field on which reviews rest was changed after its latest review
)

// DueReason is one of the reasons for which a record is due.
type DueReason struct {
	Why     string    `json:"why"`               // DueNeverReviewed and the rest
	At      time.Time `json:"at,omitzero"`       // since when; the last instant of freshness if stale; absent if never published
	Outcome Outcome   `json:"outcome,omitempty"` // of the event, where it is one
	EventID string    `json:"eventId,omitempty"`
	Note    string    `json:"note,omitempty"`
	Fields  []string  `json:"fields,omitempty"` // that were changed
	Actor   string    `json:"actor,omitempty"`  // who changed them
}

// DueRecord is a published record that is due for a factual review, or soon will be.
type DueRecord struct {
	ID            string             `json:"id"`
	Company       string             `json:"company"`
	Category      Category           `json:"category"`
	Status        VerificationStatus `json:"status"`         // at the instant of the answer
	DueAt         time.Time          `json:"dueAt,omitzero"` // the earliest of its reasons
	Reasons       []DueReason        `json:"reasons"`
	LastCheckedAt *time.Time         `json:"lastCheckedAt"`
}

// DueList are the records that are due, the one that has been due for longest first.
type DueList struct {
	GeneratedAt time.Time   `json:"generatedAt"`
	Until       time.Time   `json:"until"` // what turns stale by then is in the list
	Records     []DueRecord `json:"records"`
}

// Sort brings the records in their order.
func (l DueList) Sort() {
	slices.SortFunc(l.Records, func(a, b DueRecord) int { return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID)) })
}

// ListingEdit is a change of fields on which factual reviews rest.
type ListingEdit struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Fields []string  `json:"fields"`
}

// ReviewSheet is what a reviewer needs to know of a listing, published or not.
type ReviewSheet struct {
	GeneratedAt   time.Time          `json:"generatedAt"`
	LastEventID   string             `json:"lastEventId"` // newest recorded event that the sheet accounts for; empty if there is none
	Visibility    string             `json:"visibility"`
	Record        Opportunity        `json:"record"`        // as consumers see it, or would
	OwnFacts      *Facts             `json:"ownFacts"`      // of the listing itself; null where it has none
	ReviewedFacts *Facts             `json:"reviewedFacts"` // of the latest review that carries facts
	Status        VerificationStatus `json:"status"`
	Reasons       []DueReason        `json:"reasons"` // for which it is due; empty if it is not
	Edits         []ListingEdit      `json:"edits"`   // since the latest review, oldest first
}
