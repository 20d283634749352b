// Package audit proves the history against what was signed of it: the hashes of every event, the chain of every listing, the tree
// over all events, the heads and the summaries. It tells what was done to an event from what no longer fits because of that,
// and names the first.
package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// Source is the history at one instant.
type Source interface {
	// Totals gives the number of the last append and every checkpoint in order, unproven.
	Totals() (appended int64, checkpoints []checkpoint.Stored, err error)
	// Events reads the next events after a sequence, at most limit of them, and the leaves kept up to the last of them; where
	// there are no more events, all leaves kept beyond.
	Events(after int64, limit int) (Page, error)
	// Heads are those kept with a checkpoint.
	Heads(number int64) ([]checkpoint.Head, error)
	// Summaries reads the next summaries after a slug, at most limit of them.
	Summaries(after string, limit int) ([]Summary, error)
}

// Page is some events, and the hashes of leaves that were kept, by their sequence.
type Page struct {
	Records []event.Record
	Leaves  map[int64][]byte
}

// Summary is what a listing's events come to, as it is kept, and as it is due.
type Summary struct {
	Slug        string
	Sequence    int64
	Events      int
	Kept        string
	DueSequence int64 // 0 where the listing has no events
	DueEvents   int
	Due         string
}

// Kind is what was done.
type Kind string

// The kinds.
const (
	Edited        Kind = "edited"         // what an event says is not what its hashes cover
	RemovedMiddle Kind = "removed-middle" // later events of the listing follow an event that is gone
	RemovedTail   Kind = "removed-tail"   // the last events of a listing are gone
	Reordered     Kind = "reordered"      // events stand in another order than they were recorded in
	Replaced      Kind = "replaced"       // events whose hashes agree stand where others were signed or followed
	Inserted      Kind = "inserted"       // an event stands among the signed ones and is none of them
	Summarized    Kind = "summary"        // the summary kept is not what the events come to
	Checkpointed  Kind = "checkpoint"     // a checkpoint, or what was kept with it, is not what was signed
)

// Finding is one thing that does not fit.
type Finding struct {
	Kind       Kind   `json:"kind"`
	Sequence   int64  `json:"sequence"`   // of the event; 0 where it is not known
	ID         string `json:"id"`         // of the event; empty where it is gone
	Slug       string `json:"slug"`       // of the listing; empty where it is not known
	Checkpoint int64  `json:"checkpoint"` // the one that tells; 0 where none is needed
	Message    string `json:"message"`
}

// MaxFindings is how many findings a report names; more are counted.
const MaxFindings = 100

// Report is the outcome.
type Report struct {
	Fits        bool      `json:"fits"`
	Events      int64     `json:"events"`
	Chains      int       `json:"chains"`
	Checkpoints int       `json:"checkpoints"` // stored ones with a valid signature
	Signed      int64     `json:"signed"`      // events that the newest of these covers
	Findings    []Finding `json:"findings"`    // in the order of the sequence; those that name no event come last
	Omitted     int       `json:"omitted"`     // findings beyond MaxFindings
}

// Saved is a checkpoint that somebody kept elsewhere.
type Saved struct {
	Name string // for messages, such as the file's
	Note string // the signed text
}

// Run reads everything once, summaries' events a second time, and holds no more than a little for each listing.
func Run(source Source, keys checkpoint.Keys, saved []Saved) (Report, error) {
	a := &auditor{
		source: source, chains: map[string]*chain{}, waiting: map[string]int{}, editedHashes: map[string]bool{},
		pendingKept: map[string]int64{}, pendingSeen: map[string]ref{}, next: 1,
	}
	appended, kept, err := source.Totals()
	if err != nil {
		return Report{}, err
	}
	a.believe(keys, kept, saved)
	if err := a.walk(appended); err != nil {
		return Report{}, err
	}
	if err := a.summaries(); err != nil {
		return Report{}, err
	}
	a.resolve()
	return a.report(), nil
}

// maxFindings bounds what is held of a history in which nothing fits.
const maxFindings = 10_000

func (a *auditor) find(kind Kind, at ref, number int64, message string, args ...any) {
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
		Fits: len(a.findings) == 0, Events: a.events, Chains: len(a.chains), Checkpoints: a.valid, Signed: a.stored,
		Findings: append([]Finding{}, a.findings[:named]...), Omitted: len(a.findings) - named + a.omitted,
	}
}
