package api

import "time"

// FreshnessDays is how many days of 24 hours a successful factual review counts as fresh.
const FreshnessDays = 14

// FreshnessWindow is FreshnessDays as a duration.
const FreshnessWindow = FreshnessDays * 24 * time.Hour

// Verification says how well a record's facts are supported at the instant of the answer.
// FirstCheckedAt and LastCheckedAt speak of factual reviews only; a link check never moves them.
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

// CheckType tells the two kinds of evidence apart. Neither can refresh the other.
type CheckType string

const (
	Review    CheckType = "review"
	LinkCheck CheckType = "application-link"
)

// Outcome is what a check found.
type Outcome string

const (
	OutcomeVerified    Outcome = "verified"
	OutcomeReachable   Outcome = "reachable"
	OutcomeBlocked     Outcome = "blocked"
	OutcomeUnreachable Outcome = "unreachable"
	OutcomeClosed      Outcome = "closed"
	OutcomeNeedsReview Outcome = "needs-review"
)

// Outcomes are the outcomes that each kind of check may have.
var Outcomes = map[CheckType][]Outcome{
	Review:    {OutcomeVerified, OutcomeClosed, OutcomeNeedsReview},
	LinkCheck: {OutcomeReachable, OutcomeBlocked, OutcomeUnreachable, OutcomeClosed, OutcomeNeedsReview},
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

// Summary is what all events of one record come to. The history service computes it, the catalog keeps a copy; with the
// time of the latest material change of the listing and the clock it decides the verification status.
type Summary struct {
	Slug            string           `json:"slug"`
	Sequence        int64            `json:"sequence"`    // position in the feed of summaries; grows with every append
	LastEventID     string           `json:"lastEventId"` // of the event that was recorded last, which need not be the latest check
	FirstCheckedAt  *time.Time       `json:"firstCheckedAt"`
	LastCheckedAt   *time.Time       `json:"lastCheckedAt"`
	LastOutcome     Outcome          `json:"lastOutcome"`     // of the latest factual review, needs-review for one without evidence; empty if there is none
	FreshUntil      *time.Time       `json:"freshUntil"`      // latest successful review + FreshnessWindow
	ConflictAt      *time.Time       `json:"conflictAt"`      // the link check that conflicts with the latest review, if one does
	Doubt           *Doubt           `json:"doubt,omitempty"` // nil where the latest review stands, and in summaries of before there were doubts
	ReviewCount     int              `json:"reviewCount"`
	HistoryCount    int              `json:"historyCount"`
	ChangeCount     int              `json:"changeCount"`
	ApplicationLink *ApplicationLink `json:"applicationLink"`
	Facts           *Facts           `json:"facts"` // of the latest review that carries facts; nil before any
}

// VerificationAt returns the public verification at now. changedAt is the latest material change of the listing outside a
// review, nil if there was none; it conflicts with every review that is older. A check is never shown later than now, even if
// the clock of the host that recorded it is ahead.
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

// StatusAt is the verification status at now; see VerificationAt for changedAt.
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

// Undisputed reports whether the latest factual review succeeded and nothing later conflicts with it: such a record is
// verified up to and including FreshnessWindow after LastCheckedAt, and stale after that.
func (s Summary) Undisputed(changedAt *time.Time) bool {
	return s.LastCheckedAt != nil && s.LastOutcome == OutcomeVerified &&
		s.ConflictAt == nil && (changedAt == nil || !changedAt.After(*s.LastCheckedAt))
}
