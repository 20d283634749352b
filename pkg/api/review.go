package api

import (
	"slices"
	"time"
)

// Review is a check as its author sends it, before it is recorded: from a form, from a verb, or as
// a line of an events file, which also has link checks. Package eventfile checks it.
type Review struct {
	Slug       string         `json:"slug"`
	CheckedAt  time.Time      `json:"checkedAt"`
	CheckType  CheckType      `json:"checkType"`
	Outcome    Outcome        `json:"outcome"`
	SourceURLs []string       `json:"sourceUrls"`
	Facts      *GivenFacts    `json:"facts,omitempty"`
	Note       string         `json:"note"`
	Evidence   *GivenEvidence `json:"evidence,omitempty"`

	// LastEventID is the newest recorded event of the listing that the author had seen, "" if there
	// was none. It is a precondition, not a part of the event; nil if there is none.
	LastEventID *string `json:"lastEventId,omitempty"`
}

// GivenEvidence is the part of an Evidence that the author sends.
type GivenEvidence struct {
	Quotes   []Quote  `json:"quotes"`
	Gone     []string `json:"gone"`
	Unopened []string `json:"unopened"`
	Closed   string   `json:"closed,omitempty"`
}

// For makes r a factual review of the listing with the id. It returns the problems if r names
// another listing or type.
func (r *Review) For(id string) (p Problems) {
	if r.Slug != "" && r.Slug != id {
		p.Add("slug", "must be %s or left out", id)
	}
	if r.CheckType != "" && r.CheckType != FactualReview {
		p.Add("checkType", "must be %s or left out", FactualReview)
	}
	r.Slug, r.CheckType = id, FactualReview
	return p
}

// Doubt is the event that puts a record in doubt: the latest factual review if it did not succeed,
// otherwise the link check that conflicts with that review.
type Doubt struct {
	EventID   string    `json:"eventId"`
	CheckType CheckType `json:"checkType"`
	Outcome   Outcome   `json:"outcome"`
	CheckedAt time.Time `json:"checkedAt"`
	Note      string    `json:"note"`
}

// Values of DueReason.Why: the reasons for which a record is due for a factual review.
const (
	DueNeverReviewed = "never-reviewed" // no review since publication
	DueStale         = "stale"          // the latest review is, or soon will be, older than FreshnessWindow
	DueReview        = "review"         // the latest review ended in needs-review
	DueClosed        = "closed"         // the latest review ended in closed: due again FreshnessWindow later
	DueLinkCheck     = "link-check"     // a link check conflicts with the latest review
	DueEdit          = "edit"           // a field that reviews depend on was changed after the latest review
)

// DueReason is a reason for which a record is due.
type DueReason struct {
	Why string `json:"why"` // such as DueNeverReviewed
	// since when the record is due; the end of freshness if stale or closed; absent if never published
	At      time.Time `json:"at,omitzero"`
	Outcome Outcome   `json:"outcome,omitempty"` // of the event, if the reason is an event
	EventID string    `json:"eventId,omitempty"`
	Note    string    `json:"note,omitempty"`
	Fields  []string  `json:"fields,omitempty"` // changed fields, if the reason is an edit
	Actor   string    `json:"actor,omitempty"`  // author of the edit
}

// DueRecord is a published record that is due for a factual review, or soon will be.
type DueRecord struct {
	ID            string             `json:"id"`
	Company       string             `json:"company"`
	Category      Category           `json:"category"`
	Status        VerificationStatus `json:"status"`         // at the time of the response
	DueAt         time.Time          `json:"dueAt,omitzero"` // earliest time of its reasons
	Reasons       []DueReason        `json:"reasons"`
	LastCheckedAt *time.Time         `json:"lastCheckedAt"`
}

// DueList lists the records that are due, longest due first.
type DueList struct {
	GeneratedAt time.Time   `json:"generatedAt"`
	Until       time.Time   `json:"until"` // records that turn stale by then are included
	Records     []DueRecord `json:"records"`
}

// ListingEdit is a change of fields that factual reviews depend on.
type ListingEdit struct {
	At      time.Time     `json:"at"`
	Actor   string        `json:"actor"`
	Fields  []string      `json:"fields"`
	Changes []FieldChange `json:"changes,omitempty"` // old and new values by path
}

// ReviewSheet is the information for a reviewer of a listing, published or not.
type ReviewSheet struct {
	GeneratedAt time.Time `json:"generatedAt"`
	// newest recorded event included in the sheet; empty if there is none
	LastEventID   string             `json:"lastEventId"`
	Visibility    string             `json:"visibility"`
	Record        Opportunity        `json:"record"`        // as consumers see it, or would if it were published
	ReviewedFacts *Facts             `json:"reviewedFacts"` // those of reviews in effect; null if there are none
	Status        VerificationStatus `json:"status"`
	Reasons       []DueReason        `json:"reasons"` // why it is due; empty if it is not
	Edits         []ListingEdit      `json:"edits"`   // since the latest review, oldest first

	PreviousFacts *Facts `json:"previousFacts"` // in effect before ReviewedFacts; null if there were none
	// reviews and link checks, newest check first; at most MaxSheetEvents
	Events   []RecordedEvent `json:"events"`
	Evidence Evidence        `json:"evidence"` // of the latest review that stored any
	Readings []QuoteReading  `json:"readings"` // of its quotes by the machine; empty, never null
	// sentences for facts without a quote, and for missing quotes; empty, never null
	Suggestions []Quote        `json:"suggestions"`
	Curation    Curation       `json:"curation"`          // private notes
	Lease       *Lease         `json:"lease,omitempty"`   // nil if no lease is active
	Skip        *Skip          `json:"skip,omitempty"`    // nil unless the record is skipped now
	Draft       *Draft         `json:"draft,omitempty"`   // the caller's; nil if there is none
	Opinion     *SecondOpinion `json:"opinion,omitempty"` // a second opinion that disagrees with the latest review

	OpinionFacts []string `json:"opinionFacts,omitempty"` // facts that the requested second opinion is about
}

// CurrentQuotes returns the quotes of Evidence in its order, moved ones in their new surroundings.
func (s ReviewSheet) CurrentQuotes() []Quote {
	quotes := slices.Clone(s.Evidence.Quotes)
	for i, q := range quotes {
		for _, r := range s.Readings {
			if r.Quote == q && r.Moved != nil {
				quotes[i] = *r.Moved
			}
		}
	}
	return quotes
}

// CurrentFacts returns the facts in effect: those of reviews, or else the listing's own.
func (s ReviewSheet) CurrentFacts() Facts {
	facts := s.Record.Facts
	if s.ReviewedFacts != nil {
		facts = *s.ReviewedFacts
	}
	facts.Complete()
	return facts
}
