// Package event has the verification events of the history and what they amount to. It has no
// store and no clock: the same events have the same leaves and the same summary everywhere.
//
// A Record is an event as it is stored and hashed. New makes it from an event of the API, Attach
// adds its private part, and Leaf is its entry in the log. A State is the summary of a listing.
// StateOf derives it from all events of the listing, in any order, so a late or repeated append
// changes nothing else. DrawnForOpinion and Differences are the rules of second opinions.
package event

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"opportunity.internal/pkg/api"
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

// unreachableFor is the time for which an application link must be unreachable, without another
// outcome in between, before it conflicts with a review. A shorter outage says little about the
// platform.
const unreachableFor = 24 * time.Hour

const unevidenced = "recorded as verified without a source or without facts"

// State is the summary of a listing with the events that it follows. It depends only on the set of
// events, not on the clock or the order of arrival, so it can be derived again after a late or
// repeated append.
type State struct {
	api.Summary

	PreviousFacts *api.Facts // in effect before Facts; nil if there were none

	// Ids of the events that curators and the machine refer to, empty if there is none.
	LatestReview   string
	LatestVerified string
	LatestEvidence string // the latest review with quotes, or with pages that were gone or could not be opened
}

// StateOf derives the state of slug from its events, in any order. StateOfRecords sets Sequence and
// LastEventID.
//
// Events are ordered by checkedAt. Of two events at the same time, the one with the more cautious
// outcome (see severity) counts as the later, so a success never hides a doubt. A review recorded
// as verified without a source or facts, before both were required, counts as needs-review.
//
// A closed review without facts has those in effect before it, with applicationStatus closed. They
// are derived here and never recorded, because a review that is recorded later can come before it.
//
// An undone review counts in HistoryCount only, and so does the event that undoes it. Undoing that
// event restores the review.
func StateOf(slug string, events []api.RecordedEvent) State {
	s := State{Summary: api.Summary{Slug: slug, HistoryCount: len(events)}}
	reviews, links := split(InEffect(events))

	s.ReviewCount = len(reviews)
	s.Sources, s.Gone = sources(reviews)
	closed := false
	known := "" // the latest facts; only a closed review without facts changes them
	var quotes []api.Quote
	for _, r := range reviews {
		s.LastCheckedAt, s.LastOutcome, s.LatestReview = &r.CheckedAt, r.Outcome, r.ID
		if len(r.Evidence.Quotes)+len(r.Evidence.Gone)+len(r.Evidence.Unopened) > 0 {
			s.LatestEvidence = r.ID
		}
		facts := r.Facts
		switch r.Outcome {
		case api.OutcomeVerified:
			s.LatestVerified, s.FreshUntil = r.ID, new(r.CheckedAt.Add(api.FreshnessWindow))
		case api.OutcomeClosed:
			closed = true
			facts = withClosed(cmp.Or(facts, s.Facts))
		}
		if facts == nil {
			continue
		}
		text := encoded(facts)
		if known != "" && text != known { // the first facts are not a change
			s.ChangeCount++
		}
		s.PreviousFacts, s.Facts, known = s.Facts, facts, text
		if r.Facts != nil {
			quotes = r.Evidence.Quotes
		}
		s.Unquoted = api.Unquoted(*facts, quotes)
	}
	s.Closed = closed && s.Facts == nil
	if len(reviews) > 0 {
		s.FirstCheckedAt = &reviews[0].CheckedAt
		var status api.ApplicationStatus
		if s.Facts != nil {
			status = s.Facts.ApplicationStatus
		}
		cause := conflict(*s.LastCheckedAt, status, answered(reviews, links), links)
		if cause != nil {
			s.ConflictAt = &cause.CheckedAt
		}
		if s.LastOutcome != api.OutcomeVerified {
			cause = &reviews[len(reviews)-1]
		}
		s.Doubt = doubt(cause)
	}
	if len(links) > 0 {
		last := links[len(links)-1]
		s.ApplicationLink = &api.ApplicationLink{Outcome: last.Outcome, CheckedAt: last.CheckedAt}
	}
	return s
}

// StateOfRecords derives the state of slug from its recorded events, in any order.
func StateOfRecords(slug string, records []Record) (State, error) {
	events := make([]api.RecordedEvent, len(records))
	newest := Record{}
	for i := range records {
		var err error
		if events[i], err = records[i].Recorded(); err != nil {
			return State{}, err
		}
		if records[i].Sequence > newest.Sequence {
			newest = records[i]
		}
	}
	s := StateOf(slug, events)
	s.Sequence, s.LastEventID = newest.Sequence, newest.ID
	return s, nil
}

// InEffect returns the events without undone reviews and without those that undo. An event that
// undoes a review can be undone as well.
func InEffect(events []api.RecordedEvent) []api.RecordedEvent {
	undoing := map[string][]string{} // ids of the events that undo it, by id
	for _, e := range events {
		if e.Evidence != nil && e.Evidence.Undoes != "" {
			undoing[e.Evidence.Undoes] = append(undoing[e.Evidence.Undoes], e.ID)
		}
	}
	if len(undoing) == 0 {
		return events
	}
	known := map[string]bool{} // an event names an earlier one, so this ends
	var undone func(id string) bool
	undone = func(id string) bool {
		if is, ok := known[id]; ok {
			return is
		}
		known[id] = false
		known[id] = slices.ContainsFunc(undoing[id], func(by string) bool { return !undone(by) })
		return known[id]
	}
	return slices.DeleteFunc(slices.Clone(events), func(e api.RecordedEvent) bool {
		return e.CheckType == api.FactualReview && (e.Evidence != nil && e.Evidence.Undoes != "" || undone(e.ID))
	})
}

func withClosed(facts *api.Facts) *api.Facts {
	if facts == nil {
		return nil
	}
	closed := *facts
	closed.ApplicationStatus = api.ApplicationClosed
	return &closed
}

func encoded(facts *api.Facts) string {
	text, _ := json.Marshal(facts) // encoding facts never fails
	return string(text)
}

// sources returns the pages that successful reviews used, and those that reviews found gone since,
// both by their latest review, the latest first. reviews are in order.
func sources(reviews []checked) (used, gone []api.SourceCheck) {
	seen := map[string]bool{}
	for _, r := range slices.Backward(reviews) {
		add := func(to []api.SourceCheck, urls []string) []api.SourceCheck {
			for _, u := range urls {
				if !seen[u] && len(to) < api.MaxSources {
					seen[u] = true
					to = append(to, api.SourceCheck{URL: u, CheckedAt: r.CheckedAt})
				}
			}
			return to
		}
		if r.Outcome == api.OutcomeVerified {
			used = add(used, r.SourceURLs)
		}
		gone = add(gone, r.Evidence.Gone)
	}
	slices.SortFunc(gone, func(a, b api.SourceCheck) int {
		return cmp.Or(b.CheckedAt.Compare(a.CheckedAt), cmp.Compare(a.URL, b.URL))
	})
	return used, gone
}

// doubt returns the summary's description of e, the event that puts the record in doubt. It returns
// nil for nil.
func doubt(e *checked) *api.Doubt {
	if e == nil {
		return nil
	}
	return &api.Doubt{EventID: e.ID, CheckType: e.CheckType, Outcome: e.Outcome, CheckedAt: e.CheckedAt, Note: e.Note}
}

// conflict returns the earliest link check that conflicts with a review at reviewedAt, or nil. A
// check whose cause the review answered, or whose page claims the recorded status, does not. An
// unreachable link conflicts once an unbroken series of unreachable checks spans unreachableFor.
// The whole series must be later than the review: a curator sees more than a link check does.
func conflict(reviewedAt time.Time, status api.ApplicationStatus, answered map[string]bool, links []checked) *checked {
	var down *time.Time // start of the current unreachable series
	for i := range links {
		l := &links[i]
		if !l.CheckedAt.After(reviewedAt) {
			continue
		}
		switch cause := l.cause(); {
		case cause != nil && (answered[cause.Text] || cause.Status != "" && cause.Status == status):
			down = nil
		case l.Outcome == api.OutcomeClosed, l.Outcome == api.OutcomeNeedsReview:
			return l
		case l.Outcome == api.OutcomeUnreachable:
			if down == nil {
				down = &l.CheckedAt
			}
			if l.CheckedAt.Sub(*down) >= unreachableFor {
				return l
			}
		default:
			down = nil
		}
	}
	return nil
}

// answered returns the texts of the causes that the curator of the latest review was shown: those
// of the link checks since the review before. If none of these saw the page, they are those of the
// review before.
func answered(reviews, links []checked) (texts map[string]bool) {
	for _, r := range reviews {
		var since map[string]bool
		for len(links) > 0 && !links[0].CheckedAt.After(r.CheckedAt) {
			if o := links[0].Outcome; since == nil && o != api.OutcomeBlocked && o != api.OutcomeUnreachable {
				since = map[string]bool{}
			}
			if cause := links[0].cause(); cause != nil {
				since[cause.Text] = true
			}
			links = links[1:]
		}
		if since != nil {
			texts = since
		}
	}
	return texts
}

// checked is an event with its facts as JSON text for comparison, empty for an event without facts.
type checked struct {
	api.RecordedEvent
	facts string
}

func (c *checked) cause() *api.Cause {
	if c.Outcome != api.OutcomeNeedsReview || c.Evidence == nil {
		return nil
	}
	return c.Evidence.Cause
}

// severity orders outcomes of the same time, the most cautious last.
var severity = map[api.Outcome]int{
	api.OutcomeVerified: 0, api.OutcomeReachable: 1, api.OutcomeBlocked: 2, api.OutcomeUnreachable: 3,
	api.OutcomeClosed: 4, api.OutcomeNeedsReview: 5,
}

// split separates reviews from link checks and puts each in a total order, with the ID as the last
// criterion.
func split(events []api.RecordedEvent) (reviews, links []checked) {
	for _, e := range events {
		if e.CheckType == api.LinkCheck {
			links = append(links, checked{RecordedEvent: e})
			continue
		}
		if e.Outcome == api.OutcomeVerified && !e.Evidenced() {
			e.Outcome, e.Note = api.OutcomeNeedsReview, unevidenced
			if e.Facts != nil && !e.Facts.Known() { // missing facts were recorded as unknown; ignore them
				e.Facts = nil
			}
		}
		if e.Evidence == nil {
			e.Evidence = &api.Evidence{}
		}
		c := checked{RecordedEvent: e}
		if e.Facts != nil {
			c.facts = encoded(e.Facts)
		}
		reviews = append(reviews, c)
	}
	order := func(a, b checked) int {
		return cmp.Or(a.CheckedAt.Compare(b.CheckedAt), cmp.Compare(severity[a.Outcome], severity[b.Outcome]),
			cmp.Compare(a.facts, b.facts),
			cmp.Compare(a.Note, b.Note), slices.Compare(a.SourceURLs, b.SourceURLs), cmp.Compare(a.ID, b.ID))
	}
	slices.SortFunc(reviews, order)
	slices.SortFunc(links, order)
	return reviews, links
}
