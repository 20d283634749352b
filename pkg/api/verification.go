package api

import (
	"encoding/json"
	"time"
)

// FreshnessDays is the number of 24-hour days for which a successful factual review counts as
// fresh.
const FreshnessDays = 14

// FreshnessWindow is FreshnessDays as a duration.
const FreshnessWindow = FreshnessDays * 24 * time.Hour

// Verification is the state of the evidence for a record's facts at the time of the response.
// FirstCheckedAt and LastCheckedAt are times of factual reviews only; link checks do not affect
// them.
type Verification struct {
	Status          VerificationStatus `json:"status"`
	LastCheckedAt   *time.Time         `json:"lastCheckedAt"`
	FreshUntil      *time.Time         `json:"freshUntil"`
	FirstCheckedAt  *time.Time         `json:"firstCheckedAt"`
	ReviewCount     int                `json:"reviewCount"`
	HistoryCount    int                `json:"historyCount"`
	ChangeCount     int                `json:"changeCount"`
	ApplicationLink *ApplicationLink   `json:"applicationLink"`
}

// ApplicationLink is the latest link check.
type ApplicationLink struct {
	Outcome   Outcome   `json:"outcome"`
	CheckedAt time.Time `json:"checkedAt"`
}

// VerificationStatus is the state of the eligibility evidence.
type VerificationStatus string

const (
	Verified    VerificationStatus = "verified"
	Unverified  VerificationStatus = "unverified"
	Stale       VerificationStatus = "stale"
	NeedsReview VerificationStatus = "needs-review"
)

// CheckType is the kind of a check. A check of one kind never refreshes evidence of the other.
type CheckType string

const (
	FactualReview CheckType = "review"
	LinkCheck     CheckType = "application-link"
)

// Outcome is the result of a check.
type Outcome string

const (
	OutcomeVerified    Outcome = "verified"
	OutcomeReachable   Outcome = "reachable"
	OutcomeBlocked     Outcome = "blocked"
	OutcomeUnreachable Outcome = "unreachable"
	OutcomeClosed      Outcome = "closed"
	OutcomeNeedsReview Outcome = "needs-review"
)

// Outcomes lists the valid outcomes of each kind of check.
var Outcomes = map[CheckType][]Outcome{
	FactualReview: {OutcomeVerified, OutcomeClosed, OutcomeNeedsReview},
	LinkCheck:     {OutcomeReachable, OutcomeBlocked, OutcomeUnreachable, OutcomeClosed, OutcomeNeedsReview},
}

// VerificationEvent is one entry of a record's append-only history.
type VerificationEvent struct {
	ID         string    `json:"id"` // UUIDv7
	Slug       string    `json:"slug"`
	CheckedAt  time.Time `json:"checkedAt"`
	CheckType  CheckType `json:"checkType"`
	Outcome    Outcome   `json:"outcome"`
	SourceURLs []string  `json:"sourceUrls"`
	Facts      *Facts    `json:"facts"`
	Note       string    `json:"note"`
}

// Summary is derived from all events of one record. The history service computes it and the catalog
// stores a copy. The verification status depends on the summary, the latest material change of the
// listing, and the current time.
type Summary struct {
	Slug     string `json:"slug"`
	Sequence int64  `json:"sequence"` // position in the feed of summaries; grows with every append
	// of the event recorded last, not necessarily the latest check
	LastEventID    string     `json:"lastEventId"`
	FirstCheckedAt *time.Time `json:"firstCheckedAt"`
	LastCheckedAt  *time.Time `json:"lastCheckedAt"`
	// of the latest factual review, needs-review if it lacks evidence; empty if there is none
	LastOutcome Outcome    `json:"lastOutcome"`
	FreshUntil  *time.Time `json:"freshUntil"` // latest successful review + FreshnessWindow
	// the link check that conflicts with the latest review, if one does
	ConflictAt      *time.Time       `json:"conflictAt"`
	Doubt           *Doubt           `json:"doubt,omitempty"` // nil if the latest review stands
	ReviewCount     int              `json:"reviewCount"`
	HistoryCount    int              `json:"historyCount"`
	ChangeCount     int              `json:"changeCount"`
	ApplicationLink *ApplicationLink `json:"applicationLink"`
	Facts           *Facts           `json:"facts"` // in effect; nil if no review has facts
	// no review has facts, and one found that the platform is closed
	Closed   bool     `json:"closed,omitempty"`
	Unquoted []string `json:"unquoted,omitempty"` // names of the known Facts without a quote

	// Sources are the pages that successful reviews used, the latest first, at most MaxSources.
	// Gone are those that a review found gone, also if no review had used them; a later successful
	// review that uses one takes it from Gone.
	Sources []SourceCheck `json:"sources,omitempty"`
	Gone    []SourceCheck `json:"gone,omitempty"`
}

// MaxSources is the maximum number of Sources and of Gone in a Summary.
const MaxSources = 100

// SourceCheck is a page and the time of the review that looked at it last.
type SourceCheck struct {
	URL       string    `json:"url"`
	CheckedAt time.Time `json:"checkedAt"`
}

// EncodedSummary is a Summary as the history service encoded it. The feed, the catalog's database
// and its snapshot use the same bytes, so fields that this release does not know survive.
type EncodedSummary struct {
	Slug        string
	Sequence    int64
	LastEventID string // decoded from JSON; not set by history
	JSON        string
}

// MarshalJSON returns the summary's own bytes.
func (s EncodedSummary) MarshalJSON() ([]byte, error) { return []byte(s.JSON), nil }

// UnmarshalJSON keeps b and decodes only the fields by which summaries are stored.
func (s *EncodedSummary) UnmarshalJSON(b []byte) error {
	var key struct {
		Slug        string `json:"slug"`
		Sequence    int64  `json:"sequence"`
		LastEventID string `json:"lastEventId"`
	}
	if err := json.Unmarshal(b, &key); err != nil {
		return err
	}
	*s = EncodedSummary{key.Slug, key.Sequence, key.LastEventID, string(b)}
	return nil
}

// VerificationAt returns the public verification at now. changedAt is the latest material change of
// the listing outside a review, nil if there was none; it conflicts with every earlier review. No
// check is shown later than now, even if the clock of the host that recorded it is ahead.
func (s Summary) VerificationAt(changedAt *time.Time, now time.Time) Verification {
	v := Verification{
		Status:          s.StatusAt(changedAt, now),
		LastCheckedAt:   atMost(s.LastCheckedAt, now),
		FreshUntil:      atMost(s.FreshUntil, now.Add(FreshnessWindow)),
		FirstCheckedAt:  atMost(s.FirstCheckedAt, now),
		ReviewCount:     s.ReviewCount,
		HistoryCount:    s.HistoryCount,
		ChangeCount:     s.ChangeCount,
		ApplicationLink: s.ApplicationLink,
	}
	if l := s.ApplicationLink; l != nil {
		v.ApplicationLink = &ApplicationLink{Outcome: l.Outcome, CheckedAt: *atMost(&l.CheckedAt, now)}
	}
	return v
}

func atMost(t *time.Time, limit time.Time) *time.Time {
	if t == nil || !t.After(limit) {
		return t
	}
	return &limit
}

// StatusAt returns the verification status at now. See VerificationAt for changedAt.
func (s Summary) StatusAt(changedAt *time.Time, now time.Time) VerificationStatus {
	switch {
	case s.LastCheckedAt == nil:
		return Unverified
	case !s.Undisputed(changedAt):
		return NeedsReview
	case now.After(s.LastCheckedAt.Add(FreshnessWindow)):
		return Stale
	default:
		return Verified
	}
}

// Undisputed reports whether the latest factual review succeeded and nothing later conflicts with
// it. Such a record is verified up to and including LastCheckedAt + FreshnessWindow, and stale
// after that.
func (s Summary) Undisputed(changedAt *time.Time) bool {
	return s.LastCheckedAt != nil && s.LastOutcome == OutcomeVerified &&
		s.ConflictAt == nil && (changedAt == nil || !changedAt.After(*s.LastCheckedAt))
}
