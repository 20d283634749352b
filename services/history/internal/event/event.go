// Package event has the verification events of the history: Record, an event as it is stored, with
// its leaf in the log; State, the summary of a listing, which StateOf derives from its events; and
// the rules of second opinions, Differences and DrawnForOpinion.
package event

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
)

// Record is an event as it is stored and hashed. SourceURLs and Facts are the exact JSON texts that
// were hashed: encoding them again, after the API gained a field, would change the leaf.
type Record struct {
	Sequence   int64 `gorm:"primaryKey;autoIncrement:false"` // position among all events of the history
	ID         string
	Slug       string
	CheckedAt  int64 // microseconds since 1970 UTC
	CheckType  api.CheckType
	Outcome    api.Outcome
	SourceURLs string  `gorm:"column:source_urls"` // a JSON array
	Facts      *string // a JSON object; nil if the event has no facts
	Note       string
	Actor      string // the operator who appended it
	RecordedAt int64  // microseconds since 1970 UTC

	// Evidence is the private part: JSON of a privatePart, as hashed. The leaf commits to it
	// separately from the public part, so that a reader can verify the public one.
	Evidence string

	ContentHash string // of the content; equal for duplicates
}

// TableName is the table of the store.
func (Record) TableName() string { return "verification_events" }

// ReviewBy reports whether the event is a review by an operator.
func (r *Record) ReviewBy(actor string) bool {
	return r.CheckType == api.FactualReview && r.Actor == actor
}

// Page is a page of a listing's history.
type Page struct {
	Sequence int64 // of the listing's newest event; 0 without events
	Total    int   // events of the listing
	Events   []api.VerificationEvent
}

// UnseenError is the error of an append by an author who has not seen the newest events of a
// listing.
type UnseenError struct {
	Events []Record // the unseen events, oldest first
}

func (e *UnseenError) Error() string {
	return fmt.Sprintf("%d events were recorded since the listing was looked at", len(e.Events))
}

// ActFilter selects recorded events. A field with its zero value matches every event.
type ActFilter struct {
	Actor     string
	Slug      string
	CheckType api.CheckType
	Since     time.Time // recorded at or after
	Until     time.Time // recorded before
	Before    int64     // with a lower sequence
	Limit     int
}

// TextsError is the error of a second opinion whose author has to say whether texts mean the same,
// see Differences.
type TextsError struct {
	Texts []api.ComparedTexts
}

func (e *TextsError) Error() string {
	return fmt.Sprintf("%d facts have other words than in the first review", len(e.Texts))
}

// ErrNoOpinion is the error of a second opinion that was not asked of its author: on another
// record, on the author's own review, on one that a later review by another curator replaced, or on
// one that has an opinion.
var ErrNoOpinion = errors.New("no second opinion was requested")

// Proposal is a review to record.
type Proposal struct {
	api.ReviewAppend

	Line eventfile.Line // the review, checked
	Sent string         // the review as sent; JSON
}

// Reviewed is the result of recording a review.
type Reviewed struct {
	Record    Record   // as recorded, now or before
	Duplicate bool     // a review with this content was recorded before
	Differs   []string // in what a second opinion differs, see Differences
}

// New returns the record of e before it is recorded: Sequence, ID, Actor, RecordedAt and Evidence
// are not set. Every field of e that package eventfile fills in must be set.
func New(e api.VerificationEvent) (Record, error) {
	r := Record{Slug: e.Slug, CheckedAt: e.CheckedAt.UnixMicro(), CheckType: e.CheckType, Outcome: e.Outcome,
		Note: e.Note}
	urls, err := json.Marshal(e.SourceURLs)
	if err != nil {
		return Record{}, err
	}
	r.SourceURLs = string(urls)
	if e.Facts != nil {
		facts, err := json.Marshal(e.Facts)
		if err != nil {
			return Record{}, err
		}
		r.Facts = new(string(facts))
	}
	r.ContentHash = r.contentHash()
	return r, nil
}

// privatePart is the part of an event that no consumer sees. The salt keeps a hash of it from
// confirming a guess. Actor comes first, so that Leaf finds it without parsing. The evidence is nil
// if the event has none.
type privatePart struct {
	Actor string `json:"actor"`
	Salt  string `json:"salt"` // 128 random bits, hexadecimal
	*api.Evidence
}

// Attach sets the private part. Actor must be set.
func (r *Record) Attach(e api.Evidence) error {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	part := privatePart{Actor: r.Actor, Salt: hex.EncodeToString(salt)}
	if !e.Empty() {
		part.Evidence = &e
	}
	text, err := json.Marshal(part)
	r.Evidence = string(text)
	return err
}

// Private returns the private evidence, nil if there is none.
func (r *Record) Private() (*api.Evidence, error) {
	found, err := PrivateOf(r.Evidence)
	if err != nil {
		return nil, fmt.Errorf("evidence of event %s: %w", r.ID, err)
	}
	return found, nil
}

// PrivateOf returns the evidence in the private part of a record, nil if there is none.
func PrivateOf(part string) (*api.Evidence, error) {
	var p privatePart
	err := json.Unmarshal([]byte(part), &p)
	if p.Evidence != nil {
		p.Complete()
	}
	return p.Evidence, err
}

// Leaf returns the leaf of the record in the log: canonical JSON (RFC 8785) of the event as the API
// showed it when it was recorded, the time of recording, and a salted hash of the private part. It
// returns nil if the record contradicts itself: its JSON is not valid, its content does not have
// the content hash, or its private part is that of another actor.
func (r *Record) Leaf() []byte {
	if !r.namesActor() || r.ContentHash != r.contentHash() {
		return nil
	}
	var facts json.RawMessage // null in JSON
	if r.Facts != nil {
		facts = json.RawMessage(*r.Facts)
	}
	private := sha256.Sum256([]byte(r.Evidence))
	entry, err := json.Marshal(map[string]any{
		"event": storedEvent{
			ID: r.ID, Slug: r.Slug, CheckedAt: time.UnixMicro(r.CheckedAt).UTC(), CheckType: r.CheckType,
			Outcome:    r.Outcome,
			SourceURLs: json.RawMessage(r.SourceURLs), Facts: facts, Note: r.Note,
		},
		"private": hex.EncodeToString(private[:]), "recordedAt": time.UnixMicro(r.RecordedAt).UTC(),
	})
	if err != nil {
		return nil
	}
	leaf, err := jcs.Transform(entry)
	if err != nil {
		return nil
	}
	return leaf
}

// storedEvent is an api.VerificationEvent with the JSON that was recorded.
type storedEvent struct {
	ID         string          `json:"id"`
	Slug       string          `json:"slug"`
	CheckedAt  time.Time       `json:"checkedAt"`
	CheckType  api.CheckType   `json:"checkType"`
	Outcome    api.Outcome     `json:"outcome"`
	SourceURLs json.RawMessage `json:"sourceUrls"`
	Facts      json.RawMessage `json:"facts"`
	Note       string          `json:"note"`
}

func (r *Record) namesActor() bool {
	actor, err := json.Marshal(r.Actor)
	return err == nil && strings.HasPrefix(r.Evidence, `{"actor":`+string(actor)+`,`)
}

// contentHash returns the lower-case hexadecimal SHA-256 of the content as a JSON array, so that no
// text can move from one field to the next without changing it.
func (r *Record) contentHash() string {
	// never fails
	text, _ := json.Marshal([]any{r.Slug, r.CheckedAt, r.CheckType, r.Outcome, r.SourceURLs, r.Facts, r.Note})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Recorded returns the record as operators see it.
func (r *Record) Recorded() (api.RecordedEvent, error) {
	e, err := r.Event()
	if err != nil {
		return api.RecordedEvent{}, err
	}
	evidence, err := r.Private()
	return api.RecordedEvent{VerificationEvent: e, RecordedAt: time.UnixMicro(r.RecordedAt).UTC(), Actor: r.Actor,
		Evidence: evidence}, err
}

// Event returns the record as consumers see it.
func (r *Record) Event() (api.VerificationEvent, error) {
	e := api.VerificationEvent{
		ID: r.ID, Slug: r.Slug, CheckedAt: time.UnixMicro(r.CheckedAt).UTC(), CheckType: r.CheckType,
		Outcome: r.Outcome, Note: r.Note,
	}
	if err := json.Unmarshal([]byte(r.SourceURLs), &e.SourceURLs); err != nil {
		return e, fmt.Errorf("source addresses of event %s: %w", r.ID, err)
	}
	if r.Facts != nil {
		e.Facts = new(api.Facts)
		if err := json.Unmarshal([]byte(*r.Facts), e.Facts); err != nil {
			return e, fmt.Errorf("facts of event %s: %w", r.ID, err)
		}
		e.Facts.Complete() // fields that the API has gained since
	}
	return e, nil
}
