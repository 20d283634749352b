// Package audit verifies the history against its signed checkpoints: the hashes of every event, the chain of every listing, the
// tree over all events, the heads and the summaries. It reports findings in sequence order; the first event is where the history stops
// matching, and later findings may be consequences.
package audit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

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
	// Logged returns the newest checkpoint of the log of each origin, in the order of sizes, not verified.
	Logged() ([]checkpoint.LogCheckpoint, error)
	// Tiles returns the hashes of tiles of the log.
	Tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error)
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
	Records  []event.Record // the events of the listing, oldest first, without actors and hashes
}

// Kind is the kind of a finding: what does not match.
type Kind string

// Kinds of findings.
const (
	Event        Kind = "event"      // an event differs from its hashes, its chain or a checkpoint
	Missing      Kind = "missing"    // events that were recorded are not there
	Summarized   Kind = "summary"    // a stored summary does not match the events
	Checkpointed Kind = "checkpoint" // a checkpoint, or data stored with it, was changed or removed
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
	Logged      int64     `json:"logged"`      // events that the newest checkpoint of the log covers
	Findings    []Finding `json:"findings"`    // ordered by sequence; those without an event come last
	Omitted     int       `json:"omitted"`     // findings beyond MaxFindings
}

// Saved is a copy of a checkpoint from outside the database.
type Saved struct {
	Name string // for messages, such as a file name
	Note string // the signed text
}

// Run audits source with the trusted keys, saved checkpoints, and findings about what others have seen and the store is known to lack. It reads
// every event twice, once for its summary, and reads ahead while it verifies. It needs little memory for each listing, and none for each
// event. It returns an error only if source does.
func Run(source Source, keys checkpoint.Keys, saved []Saved, lost []Finding) (Report, error) {
	a := &auditor{source: source, chains: map[string]*chain{}, next: 1}
	appended, stored, err := source.Totals()
	if err != nil {
		return Report{}, err
	}
	a.addClaims(keys, stored, saved)
	if err := a.addLogged(keys); err != nil {
		return Report{}, err
	}
	if err := a.walk(appended); err != nil {
		return Report{}, err
	}
	if err := a.summaries(); err != nil {
		return Report{}, err
	}
	a.checkTiles()
	if a.orphaned {
		a.addFinding(Checkpointed, ref{}, 0, "leaves are stored for events without a checkpoint: newer checkpoints are missing")
	}
	a.findings = append(a.findings, lost...)
	return a.report(), nil
}

const maxFindings = 10_000 // held in memory

// addEventFinding adds a finding of an event, and names the checkpoint that covers it.
func (a *auditor) addEventFinding(kind Kind, at ref, message string, args ...any) {
	a.lastFound = max(a.lastFound, at.sequence)
	if a.firstFound == 0 {
		a.firstFound = at.sequence
	}
	number := int64(0)
	for _, c := range a.claims { // the first is that of the next size
		if c.saved == "" && c.Size >= at.sequence {
			number = c.Number
			break
		}
	}
	a.addFinding(kind, at, number, message, args...)
}

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
		Fits: len(a.findings) == 0, Events: a.events, Chains: len(a.chains), Checkpoints: a.valid, Signed: a.storedSize, Logged: a.loggedSize,
		Findings: append([]Finding{}, a.findings[:named]...), Omitted: len(a.findings) - named + a.omitted,
	}
}
