// Package audit verifies the history against its signed checkpoints: the hashes of every event, the chain of every listing, the
// tree over all events, the heads and the summaries. It separates causes from consequences and reports findings in sequence
// order.
package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// Source is a consistent snapshot of the history. Its methods may be called concurrently.
type Source interface {
	// Totals returns the last assigned sequence and all checkpoints in order, not verified.
	Totals() (appended int64, checkpoints []checkpoint.Stored, err error)
	// Events returns up to limit events with a sequence above after, and the stored leaves up to the last of these events.
	// Without further events, it returns all stored leaves above after.
	Events(after int64, limit int) (Page, error)
	// Heads returns the heads stored with a checkpoint.
	Heads(number int64) ([]checkpoint.Head, error)
	// Summaries returns summaries with a slug above after, ordered by slug, with the events of their listings. It returns as many as have up to
	// maxEvents events, and at least one unless there is none.
	Summaries(after string, maxEvents int) ([]Summary, error)
}

// Page is a page of events with the stored leaf hashes by sequence.
type Page struct {
	Records []event.Record
	Leaves  map[int64][]byte
}

// Summary is the stored summary of a listing.
type Summary struct {
	Slug     string
	Sequence int64
	Events   int
	Stored   string
	Outdated bool           // derived by older rules; the service derives it again before it serves it
	Records  []event.Record // the events of the listing, oldest first, without actors and hashes
}

// Kind is the kind of a finding.
type Kind string

// Kinds of findings.
const (
	Edited        Kind = "edited"         // the content of an event does not match its hashes
	RemovedMiddle Kind = "removed-middle" // an event is missing, and later events of the listing were chained to it
	RemovedTail   Kind = "removed-tail"   // the last events of a listing are missing
	Reordered     Kind = "reordered"      // events are not in the order in which they were recorded
	Replaced      Kind = "replaced"       // an event with consistent hashes is in the place of another signed or chained event
	Inserted      Kind = "inserted"       // an event among the signed events was not signed
	Summarized    Kind = "summary"        // a stored summary does not match the events
	Checkpointed  Kind = "checkpoint"     // a checkpoint, or data stored with it, was changed or removed
)

// Finding is one mismatch.
type Finding struct {
	Kind       Kind   `json:"kind"`
	Sequence   int64  `json:"sequence"`   // of the event; 0 if unknown
	ID         string `json:"id"`         // of the event; empty if it is missing
	Slug       string `json:"slug"`       // of the listing; empty if unknown
	Checkpoint int64  `json:"checkpoint"` // the one that proves the finding; 0 if none is needed
	Message    string `json:"message"`
}

// MaxFindings is the number of findings that a report lists. It only counts the others.
const MaxFindings = 100

// Report is the result of an audit.
type Report struct {
	Fits        bool      `json:"fits"`
	Events      int64     `json:"events"`
	Chains      int       `json:"chains"`
	Checkpoints int       `json:"checkpoints"` // stored checkpoints with a valid signature
	Signed      int64     `json:"signed"`      // events that the newest of these checkpoints covers
	Findings    []Finding `json:"findings"`    // ordered by sequence; those without an event come last
	Omitted     int       `json:"omitted"`     // findings beyond MaxFindings
}

// Saved is a copy of a checkpoint from outside the database.
type Saved struct {
	Name string // for messages, such as a file name
	Note string // the signed text
}

// Run audits source with the trusted keys, saved checkpoints, and events that the catalog has seen and the store is known to lack. It reads
// every event twice, once for its summary, and reads ahead while it verifies. It needs little memory for each listing, and none for each
// event. It returns an error only if source does.
func Run(source Source, keys checkpoint.Keys, saved []Saved, lost []api.FeedMark) (Report, error) {
	a := &auditor{
		source: source, chains: map[string]*chain{}, waiting: map[string]int{}, editedHashes: map[string]bool{},
		pendingStored: map[string]int64{}, pendingSeen: map[string]ref{}, next: 1,
	}
	appended, stored, err := source.Totals()
	if err != nil {
		return Report{}, err
	}
	a.addClaims(keys, stored, saved)
	if err := a.walk(appended); err != nil {
		return Report{}, err
	}
	if err := a.summaries(); err != nil {
		return Report{}, err
	}
	a.resolve()
	for _, l := range lost {
		a.addFinding(RemovedTail, ref{sequence: l.Sequence, id: l.ID}, 0, "the catalog has seen this event, which is missing")
	}
	return a.report(), nil
}

const maxFindings = 10_000 // held in memory

func (a *auditor) addFinding(kind Kind, at ref, number int64, message string, args ...any) {
	if len(a.findings) >= maxFindings {
		a.omitted++
		return
	}
	a.findings = append(a.findings, Finding{kind, at.sequence, at.id, at.slug, number, fmt.Sprintf(message, args...)})
}

func (a *auditor) report() Report {
	last := func(f Finding) int64 {
		if f.Sequence == 0 {
			return math.MaxInt64
		}
		return f.Sequence
	}
	slices.SortStableFunc(a.findings, func(x, y Finding) int { return cmp.Compare(last(x), last(y)) })
	named := min(len(a.findings), MaxFindings)
	return Report{
		Fits: len(a.findings) == 0, Events: a.events, Chains: len(a.chains), Checkpoints: a.valid, Signed: a.storedSize,
		Findings: append([]Finding{}, a.findings[:named]...), Omitted: len(a.findings) - named + a.omitted,
	}
}
