// Package event is the noun of the history: one verification event as it is recorded for ever, the chain of hashes that ties
// the events of a listing together, and the strict reader of the files that curators append.
package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
)

// Record is an event in the form that is kept and hashed. The two lists are the very JSON texts that were hashed: encoding them
// anew, after the contract has grown by a field, would break the chain.
type Record struct {
	Sequence   int64 // position among all changes of the history; grows with every append
	ID         string
	Slug       string
	CheckedAt  int64 // microseconds since 1970 UTC
	CheckType  api.CheckType
	Outcome    api.Outcome
	SourceURLs string  // a JSON array
	Facts      *string // a JSON object; nil where the event carries none
	Note       string
	Actor      string // the operator who appended it
	RecordedAt int64  // microseconds since 1970 UTC

	ContentHash string // of what the event says, however often it is appended
	PrevHash    string // Hash of the event before it in the chain of its slug; empty for the first
	Hash        string
}

const contentForm = "opportunity verification event content 1"

// Page is a page of a listing's history.
type Page struct {
	Sequence int64 // of the listing's newest event; 0 before any
	Total    int   // events of the listing
	Events   []api.VerificationEvent
}

// UnseenError is the error of an append whose author had not seen the newest events of a listing.
type UnseenError struct {
	Events []Record // recorded since, oldest first
}

func (e *UnseenError) Error() string {
	return fmt.Sprintf("%d events were recorded since the listing was looked at", len(e.Events))
}

// New is the record of e, still outside any chain: Sequence, ID, Actor, RecordedAt, PrevHash and Hash are not set. e must have
// come from an events file, or be as complete.
func New(e api.VerificationEvent) (Record, error) {
	r := Record{Slug: e.Slug, CheckedAt: e.CheckedAt.UnixMicro(), CheckType: e.CheckType, Outcome: e.Outcome, Note: e.Note}
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
	r.ContentHash = digest(contentForm, r.content()...)
	return r, nil
}

// Seal puts the record behind the event with the hash prev; empty for the first of its slug. Everything but Sequence must be
// set: it is what the hash covers.
func (r *Record) Seal(prev string) {
	r.PrevHash = prev
	fields := append([]string{prev, r.ID, r.Actor, strconv.FormatInt(r.RecordedAt, 10)}, r.content()...)
	r.Hash = digest("opportunity verification event 1", fields...)
}

// Leaf is what the log of all events holds of the record. It names the contents by their hash alone, beside the hash that covers
// everything: so it can be shown that an event is in the log without telling who appended it.
func (r *Record) Leaf() []byte {
	return joined("opportunity verification event leaf 1", r.Hash, r.ID, strconv.FormatInt(r.RecordedAt, 10), r.ContentHash)
}

// Intact reports whether the hashes of the record are those of what it says. Whether it follows the right event is for whoever
// knows the chain.
func (r *Record) Intact() bool {
	again := *r
	again.ContentHash = digest(contentForm, r.content()...)
	again.Seal(r.PrevHash)
	facts := r.Facts == nil || *r.Facts != "" // which would hash like none
	return facts && again.ContentHash == r.ContentHash && again.Hash == r.Hash
}

// content is what the event says, in the order in which it is hashed.
func (r *Record) content() []string {
	var facts string // no JSON text is empty, so this is distinct from every object
	if r.Facts != nil {
		facts = *r.Facts
	}
	return []string{r.Slug, strconv.FormatInt(r.CheckedAt, 10), string(r.CheckType), string(r.Outcome), r.SourceURLs, facts, r.Note}
}

// digest is the lower-case hexadecimal SHA-256 over the fields, each behind its length in bytes as eight bytes, most significant
// first: without the lengths, text could move from one field into the next unnoticed. form keeps hashes of different kinds
// apart, and names the version of the layout.
func digest(form string, fields ...string) string {
	sum := sha256.Sum256(joined(form, fields...))
	return hex.EncodeToString(sum[:])
}

// joined is form and the fields, each behind its length.
func joined(form string, fields ...string) []byte {
	size := 8 + len(form)
	for _, f := range fields {
		size += 8 + len(f)
	}
	out := make([]byte, 0, size)
	out = append(binary.BigEndian.AppendUint64(out, uint64(len(form))), form...)
	for _, f := range fields {
		out = append(binary.BigEndian.AppendUint64(out, uint64(len(f))), f...)
	}
	return out
}

// Event is what consumers see of the record.
func (r *Record) Event() (api.VerificationEvent, error) {
	e := api.VerificationEvent{
		ID: r.ID, Slug: r.Slug, CheckedAt: time.UnixMicro(r.CheckedAt).UTC(), CheckType: r.CheckType, Outcome: r.Outcome, Note: r.Note,
	}
	if err := json.Unmarshal([]byte(r.SourceURLs), &e.SourceURLs); err != nil {
		return e, fmt.Errorf("source addresses of event %s: %w", r.ID, err)
	}
	if r.Facts != nil {
		e.Facts = new(api.Facts)
		if err := json.Unmarshal([]byte(*r.Facts), e.Facts); err != nil {
			return e, fmt.Errorf("facts of event %s: %w", r.ID, err)
		}
		e.Facts.Complete() // a field that the contract gained since
	}
	return e, nil
}
