package api

import (
	"encoding/json"
	"time"
)

// This file is the contract between the operator API and its clients for curation: the desk and the
// `reviews` and `listings` commands. docs/operators/desk-api.md lists the endpoints.

// Role limits what the holder of an operator token can do. The gateway enforces it.
type Role string

const (
	RoleAdmin     Role = "admin"     // everything
	RoleCurator   Role = "curator"   // reviews, drafts, leases, edits of listings
	RolePublisher Role = "publisher" // what a curator can do, and import, publish, withdraw
	RoleSupport   Role = "support"   // keys, accounts, usage
)

// Roles lists all roles.
var Roles = []Role{RoleAdmin, RoleCurator, RolePublisher, RoleSupport}

// Operator is the sender of a request, as the gateway identified it by the token.
type Operator struct {
	Name string `json:"name"` // recorded with every action
	Role Role   `json:"role"`
}

// SharedOperator is the recorded name of operator tokens without one, if the sender claims none.
const SharedOperator = "operator"

// Lease marks a listing as being worked on. It is advisory: the precondition of a review protects
// against overwriting.
type Lease struct {
	Holder    string    `json:"holder"`
	TakenAt   time.Time `json:"takenAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// LeaseRequest takes or renews the lease of a listing for LeaseTime. TakeOver takes it from another
// holder.
type LeaseRequest struct {
	TakeOver bool `json:"takeOver"`
}

// LeaseTime is the lifetime of a lease since it was taken or renewed.
const LeaseTime = 15 * time.Minute

// Skip hides a record from the queue until it returns at Until.
type Skip struct {
	Actor     string    `json:"actor"`
	Reason    string    `json:"reason"`
	SkippedAt time.Time `json:"skippedAt"`
	Until     time.Time `json:"until"`
}

// SkipRequest skips a record. Until is after now and at most MaxSkip later; Reason is required.
type SkipRequest struct {
	Reason string    `json:"reason"`
	Until  Timestamp `json:"until"`
}

// MaxSkip is the longest time for which a record can be skipped.
const MaxSkip = 14 * 24 * time.Hour

// Draft is the unfinished input of one operator for one listing. Content is any JSON of at most
// MaxDraft bytes.
type Draft struct {
	Content json.RawMessage `json:"content"`
	SavedAt time.Time       `json:"savedAt"`
}

// MaxDraft is the maximum size of the content of a draft, in bytes.
const MaxDraft = 64 << 10

// Curation holds private notes of curators about a listing. Consumers never see them.
type Curation struct {
	Contact string `json:"contact"`
	Notes   string `json:"notes"`
}

// QueueRecord is a published record in the review queue.
type QueueRecord struct {
	DueRecord

	Host   string `json:"host"`            // of the company's website, without www.
	Lease  *Lease `json:"lease,omitempty"` // nil if no lease is active
	Skip   *Skip  `json:"skip,omitempty"`  // nil unless the record is skipped now
	Draft  bool   `json:"draft"`           // the caller has a draft for it
	Quotes string `json:"quotes"`          // QuotesMissing, QuotesPresent or ""
}

// ReviewQueue is a page of the review queue, longest due first.
type ReviewQueue struct {
	GeneratedAt time.Time     `json:"generatedAt"`
	Records     []QueueRecord `json:"records"`
	Next        string        `json:"next,omitempty"` // cursor: pass it as after; empty on the last page
	Due         int           `json:"due"`            // records that are due now
	Today       Workday       `json:"today"`
}

// Workday is the progress of the current UTC day. Target makes the load of the working days even
// and includes the reviews that are Done. It is 0 on Saturday and Sunday.
type Workday struct {
	Target int            `json:"target"`
	Done   int            `json:"done"`   // reviews recorded today
	DoneBy map[string]int `json:"doneBy"` // the same by operator; empty while the history service is unavailable
}

// MaxSheetEvents is the maximum number of events on a review sheet.
const MaxSheetEvents = 100

// ReviewSubmission is a review to record. The review is a line of an events file, with its private
// evidence: slug and checkType can be left out; lastEventId is required and names the newest event
// on the sheet ("" if none). checkedAt is generatedAt of the sheet. Sending the same review again
// records nothing and returns the same event.
type ReviewSubmission struct {
	Review Review `json:"review"` // slug and checkType can be left out
	// id of the review that was drawn for a second opinion
	SecondOpinionOf string `json:"secondOpinionOf,omitempty"`
	// by fact, whether other words mean the same; see ReviewReport.Texts
	SameTexts map[string]bool `json:"sameTexts,omitempty"`
	// changes of ReviewedFields, which are strings, as a part of the review: they put it in no doubt
	Changes []FieldChange `json:"changes,omitempty"`
}

// ReviewedFields lists the fields of a listing that a review covers besides its facts and sources.
var ReviewedFields = []string{
	"company.name", "company.website", "applicationUrl", "category", "startingCost", "workModel",
}

// ReviewReport is the response to a review. As in AppendReport, Applied is false if the review was
// rejected (status 200, Rejected says why), if events were recorded since the sheet (status 409,
// Newer has them), or if the author of a second opinion has to compare texts (status 200, Texts has
// them): the same submission with SameTexts for each of these facts is recorded.
type ReviewReport struct {
	AppendReport

	EventID string  `json:"eventId"`           // of the review; also if it was sent before
	Outcome Outcome `json:"outcome,omitempty"` // as recorded: needs-review if a second opinion disagrees
	// facts, or "outcome", in which a second opinion differs from the first
	Disagree []string `json:"disagree,omitempty"`

	Texts []ComparedTexts `json:"texts,omitempty"` // in other words than those of the first review
}

// ComparedTexts are the texts of a fact in two reviews, such as its requirements. Either may have
// none.
type ComparedTexts struct {
	Fact   string   `json:"fact"`
	First  []string `json:"first"`
	Second []string `json:"second"`
}

// ReviewHistory has the summary and the events of a record, from the history service for the
// catalog.
type ReviewHistory struct {
	Summary       Summary         `json:"summary"`
	PreviousFacts *Facts          `json:"previousFacts"` // in effect before those of the summary
	Events        []RecordedEvent `json:"events"`        // the latest MaxSheetEvents, newest check first
	Opinion       *SecondOpinion  `json:"opinion"`       // if the latest review is a second opinion that disagrees
	OpinionFacts  []string        `json:"opinionFacts"`  // as in ReviewSheet
	Evidence      Evidence        `json:"evidence"`      // of the latest review that stored any
	Readings      []QuoteReading  `json:"readings"`      // of its quotes by the machine; empty, never null
	// sentences for facts without a quote, and for missing quotes; empty, never null
	Suggestions []Quote `json:"suggestions"`
}

// ReviewAppend is a review that the catalog passes on to the history service.
type ReviewAppend struct {
	ReviewSubmission

	Actor  string `json:"actor"`
	Undoes string `json:"undoes,omitempty"` // id of the review that this one undoes
	Opened string `json:"opened,omitempty"` // see Evidence.Opened
}

// UndoRequest undoes the caller's latest review of a record. EventID must be its newest event. The
// undo is an event, too: a needs-review without facts. The record is then as if neither had been
// recorded; undoing the undo restores the review. The response is a ReviewReport.
type UndoRequest struct {
	EventID string `json:"eventId"`
}

// OpeningRequest records that the caller opened a source from the review sheet with that newest
// event.
type OpeningRequest struct {
	SourceURL   string `json:"sourceUrl"`
	LastEventID string `json:"lastEventId"`
}

// WithdrawalRequest proposes to withdraw a record, or declines the proposal. Reason is required to
// propose.
type WithdrawalRequest struct {
	Reason string `json:"reason"`
}

// ReasonEnded is the reason of the proposal that a review makes which ends in closed because the
// programme has ended. A later review takes it back.
const ReasonEnded = "A review found that the programme has ended."

// Withdrawal is a proposal to withdraw a published record, for a publisher to decide.
type Withdrawal struct {
	ID         string    `json:"id"` // of the listing
	Company    string    `json:"company"`
	Actor      string    `json:"actor"`
	Reason     string    `json:"reason"`
	ProposedAt time.Time `json:"proposedAt"`
}

// WithdrawalList lists the open proposals, oldest first.
type WithdrawalList struct {
	Withdrawals []Withdrawal `json:"withdrawals"`
}

// OpinionRequest is a review that was drawn for a second opinion. It does not reveal the content of
// the review.
type OpinionRequest struct {
	EventID string    `json:"eventId"`
	ID      string    `json:"id"` // of the listing
	DrawnAt time.Time `json:"drawnAt"`
}

// OpinionList lists the open requests for second opinions about other operators' reviews, oldest
// first.
type OpinionList struct {
	Requests []OpinionRequest `json:"requests"`
}

// SecondOpinion is a given second opinion.
type SecondOpinion struct {
	EventID string          `json:"eventId"` // the first review
	Actor   string          `json:"actor"`
	GivenAt time.Time       `json:"givenAt"`
	Review  json.RawMessage `json:"review"`   // as sent
	Differs []string        `json:"differs"`  // facts, or "outcome", in which it differs
	Event   string          `json:"recorded"` // id of the event that it was recorded as
}

// EditReport is the response to an edit of a listing. If Applied is false, the edit was a dry run,
// Problems has the reasons (status 200), or Current is the version that the edit did not know
// (status 412).
type EditReport struct {
	Applied  bool           `json:"applied"`
	Fields   []string       `json:"fields"`           // that changed, or would in a dry run
	Material []string       `json:"material"`         // of Fields, those that put the latest review in doubt
	Change   *ListingChange `json:"change,omitempty"` // the same by path; nil if nothing was compared
	Problems Problems       `json:"problems"`         // empty, never null
	Current  *ListingDetail `json:"current"`          // after the edit, or the unknown version
}

// Candidate is a private listing with what it lacks before it can be published and verified.
type Candidate struct {
	ID        string    `json:"id"`
	Company   string    `json:"company"`
	Category  Category  `json:"category"`
	Host      string    `json:"host"`
	CreatedAt time.Time `json:"createdAt"`
	Reviewed  bool      `json:"reviewed"` // has a factual review
	Sources   int       `json:"sources"`  // how many it cites
	// empty fields, such as sources or facts.countryEligibility; empty, never null
	Missing    []string    `json:"missing"`
	Duplicates []Duplicate `json:"duplicates"`
	Lease      *Lease      `json:"lease,omitempty"`
}

// Duplicate is another listing that may be about the same platform.
type Duplicate struct {
	ID         string `json:"id"`
	Visibility string `json:"visibility"`
	By         string `json:"by"` // host, name or both
}

// CandidateList is a page of candidates in the order of their ids.
type CandidateList struct {
	Candidates []Candidate `json:"candidates"`
	Next       string      `json:"next,omitempty"` // pass it as after; empty on the last page
}

// Freshness describes the backlog: now, over time, and ahead.
type Freshness struct {
	GeneratedAt time.Time       `json:"generatedAt"`
	Now         FreshnessSample `json:"now"`
	// one sample for each past UTC day that has one, oldest first; at most 365
	Days   []FreshnessSample `json:"days"`
	Ahead  []DueDay          `json:"ahead"`  // the next 15 UTC days, today first; overdue records count today
	Links  map[Outcome]int   `json:"links"`  // published records by their latest link check; "" has none
	Facts  int               `json:"facts"`  // known facts of the published records that reviews recorded
	Quoted int               `json:"quoted"` // of Facts, those with a quote
}

// FreshnessSample counts the published records by status.
type FreshnessSample struct {
	Day         string `json:"day"` // UTC, such as 2026-11-20
	Verified    int    `json:"verified"`
	Stale       int    `json:"stale"`
	NeedsReview int    `json:"needsReview"`
	Unverified  int    `json:"unverified"`
}

// DueDay is the number of records that become due on a UTC day, and the levelled number to review
// on it.
type DueDay struct {
	Day    string `json:"day"`
	Due    int    `json:"due"`
	Target int    `json:"target"`
}

// ListingActList is a page of what operators did to listings, newest first.
type ListingActList struct {
	Acts []IdentifiedAct `json:"acts"`
	Next int64           `json:"next,omitempty"` // the next page has the acts before this id
}

// IdentifiedAct is a ListingAct with its listing.
type IdentifiedAct struct {
	ID      int64  `json:"id"`
	Listing string `json:"listing"`
	ListingAct
}

// EventActList is a page of recorded events in the order of recording, newest first.
type EventActList struct {
	Events []PlacedEvent `json:"events"`
	Next   int64         `json:"next,omitempty"` // the next page has the events before this position
}

// PlacedEvent is a recorded event with its position in the order of recording.
type PlacedEvent struct {
	Position int64 `json:"position"`
	RecordedEvent
}
