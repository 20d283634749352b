// Package verify verifies the history against its log. Run reads everything once, in the order of
// sequences, and returns a Report. It compares
//
//   - the leaf of every event with the tiles that the newest signed checkpoint authenticates,
//   - older and saved checkpoints with the root at their size,
//   - each stored summary with the one that the events have.
//
// A Finding is a mismatch. Findings are in sequence order: the history matches up to the first one.
// Events that no checkpoint covers yet must be without gaps and agree with themselves.
package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/store"
)

// Kind is the kind of a finding: what does not match.
type Kind string

// Kinds of findings.
const (
	Event        Kind = "event"      // an event differs from the log
	Missing      Kind = "missing"    // events that were recorded are not there
	Summarized   Kind = "summary"    // a stored summary does not match the events
	Checkpointed Kind = "checkpoint" // a checkpoint or a tile was changed or removed
)

// Finding is one mismatch.
type Finding struct {
	Kind     Kind   `json:"kind"`
	Sequence int64  `json:"sequence"` // of the event; 0 if unknown
	ID       string `json:"id"`       // of the event; empty if it is missing
	Slug     string `json:"slug"`     // of the listing; empty if unknown
	Message  string `json:"message"`
}

// MaxFindings is the number of findings that a report lists. It only counts the others.
const MaxFindings = 100

// Report is the result of a verification.
type Report struct {
	Fits        bool      `json:"fits"`
	Events      int64     `json:"events"`
	Listings    int       `json:"listings"`
	Checkpoints int       `json:"checkpoints"` // stored checkpoints with a valid signature
	Logged      int64     `json:"logged"`      // events that the newest of them covers
	Findings    []Finding `json:"findings"`    // ordered by sequence; those without an event come last
	Omitted     int       `json:"omitted"`     // findings beyond MaxFindings
}

// Print writes the report as text: the totals, then one line for each finding.
func (r Report) Print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d events of %d listings; ", r.Events, r.Listings)
	if r.Checkpoints == 0 {
		b.WriteString("not covered by a valid checkpoint\n")
	} else {
		fmt.Fprintf(&b, "valid checkpoints: %d, the newest covers the first %d events\n", r.Checkpoints, r.Logged)
	}
	if r.Fits {
		b.WriteString("everything matches\n")
	}
	for i, f := range r.Findings {
		if i == 0 {
			b.WriteString("mismatches in sequence order:\n")
		}
		fmt.Fprintf(&b, "  %s", f.Kind)
		if f.Sequence != 0 {
			fmt.Fprintf(&b, ", sequence %d", f.Sequence)
		}
		if f.Slug != "" {
			fmt.Fprintf(&b, ", listing %s", f.Slug)
		}
		if f.ID != "" {
			fmt.Fprintf(&b, ", event %s", f.ID)
		}
		fmt.Fprintf(&b, ": %s\n", f.Message)
	}
	if r.Omitted > 0 {
		fmt.Fprintf(&b, "  and %d more\n", r.Omitted)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Saved is a copy of a checkpoint from outside the database.
type Saved struct {
	Name string // for messages, such as a file name
	Note string // the signed text
}

// Run verifies a snapshot of the history with the trusted keys, saved checkpoints, and findings
// about what others have seen and the store is known to lack. It reads every event twice, once for
// its summary, and keeps neither events nor listings in memory. It returns an error only if the
// store does.
func Run(ctx context.Context, s *store.Store, keys checkpoint.Keys, saved []Saved, lost []Finding) (Report, error) {
	v := &verifier{Store: s, keys: keys, next: 1, tileAt: -1, unmatched: -1, report: Report{Findings: []Finding{}}}
	for _, f := range lost {
		v.add(f, "%s", f.Message)
	}
	for _, text := range saved {
		c, err := keys.Open(text.Note)
		if err != nil {
			v.add(Finding{Kind: Checkpointed}, "%s: %v", text.Name, err)
			continue
		}
		v.saved = append(v.saved, claim{Checkpoint: c, file: text.Name})
	}
	for _, step := range []func(context.Context) error{v.findNewest, v.walk, v.summaries} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	v.report.Fits, v.report.Logged = len(v.report.Findings) == 0, v.newest.N
	return v.report, nil
}

// claim is a checkpoint to compare, from the store or from a file.
type claim struct {
	checkpoint.Checkpoint

	madeAt int64  // microseconds since 1970 UTC
	file   string // empty: from the store
}

type verifier struct {
	*store.Store

	keys   checkpoint.Keys
	saved  []claim
	report Report

	newest checkpoint.Checkpoint // the newest valid one, which authenticates the tiles
	hashes tlog.HashReader
	tile   []tlog.Hash // the leaves of a tile, nil if it does not match the newest checkpoint
	tileAt int64       // index of its first leaf
	outage error       // of the store, while it read tiles

	next      int64   // next expected sequence
	claims    []claim // not yet compared, ordered by size
	tree      tree    // of the log as far as its tiles match, otherwise of the events
	broken    bool    // the tree lacks a leaf or has a wrong one: nothing more can be compared with it
	matched   int64   // size of the last stored checkpoint that matches the tree
	kept      int64   // size of the last saved checkpoint that matches the tree
	damaged   int64   // events up to the end of the last tile that does not match
	unmatched int64   // index of the first event without a matching tile or a later matching checkpoint; -1: none
}

func (v *verifier) findNewest(ctx context.Context) error {
	for below := int64(math.MaxInt64); ; {
		stored, err := v.NewestCheckpoint(ctx, "", below)
		if err != nil || stored.Size == 0 {
			return err
		}
		if c, err := v.keys.Verified(stored); err == nil {
			v.newest = c
			v.hashes = torchwood.TileHashReaderWithContext(ctx, c.Tree, v)
			return nil
		}
		below = stored.Size
	}
}

// ReadTiles implements torchwood.TileReader. It remembers an error that does not come from the
// tiles.
func (v *verifier) ReadTiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	hashes, err := v.Store.ReadTiles(ctx, tiles)
	if err != nil && !errors.Is(err, store.ErrNoTile) {
		v.outage = err
	}
	return hashes, err
}

const pageSize = 1000 // events, and checkpoints after the last event, that are read at a time

func (v *verifier) walk(ctx context.Context) error {
	for after := int64(math.MinInt64); ; {
		records, err := v.Records(ctx, after, pageSize)
		if err != nil {
			return err
		}
		upTo, limit := int64(math.MaxInt64), pageSize // after the last event
		if n := len(records); n > 0 {
			upTo, limit = records[n-1].Sequence, -1
		}
		if err := v.readClaims(ctx, max(after, 0), upTo, limit); err != nil {
			return err
		}
		leaves := make([][]byte, len(records))
		inParallel(len(leaves), func(i int) { leaves[i] = records[i].Leaf() })
		for i := range records {
			v.addEvent(&records[i], leaves[i])
		}
		if len(records) == 0 {
			err = v.end(ctx)
		}
		if err = cmp.Or(v.outage, err); err != nil || len(records) == 0 {
			return err
		}
		after = upTo
	}
}

// readClaims sets the claims to those with a size above after and up to upTo.
func (v *verifier) readClaims(ctx context.Context, after, upTo int64, limit int) error {
	stored, err := v.Checkpoints(ctx, after, upTo, limit)
	if err != nil {
		return err
	}
	claims, errs := make([]claim, len(stored)), make([]error, len(stored))
	inParallel(len(stored), func(i int) {
		claims[i].madeAt = stored[i].MadeAt
		claims[i].Checkpoint, errs[i] = v.keys.Verified(stored[i])
	})
	v.claims = nil
	for i, c := range claims {
		if errs[i] != nil {
			v.add(Finding{Kind: Checkpointed}, "%v", errs[i])
			continue
		}
		v.report.Checkpoints++
		v.claims = append(v.claims, c)
	}
	for _, c := range v.saved {
		if c.N > after && c.N <= upTo {
			v.claims = append(v.claims, c)
		}
	}
	slices.SortStableFunc(v.claims, func(a, b claim) int { return cmp.Compare(a.N, b.N) })
	return nil
}

// inParallel calls do for each number below n, on all processors.
func inParallel(n int, do func(i int)) {
	var wait sync.WaitGroup
	size := (n + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
	for from := 0; from < n; from += size {
		wait.Go(func() {
			for i := from; i < min(from+size, n); i++ {
				do(i)
			}
		})
	}
	wait.Wait()
}

// end reports missing events after the last one, and missing checkpoints.
func (v *verifier) end(ctx context.Context) error {
	last, err := v.LastSequence(ctx)
	if err != nil {
		return err
	}
	last = max(last, v.newest.N)
	for _, c := range v.saved {
		last = max(last, c.N)
	}
	v.skip(last)
	number, width := v.newest.N/torchwood.TileWidth, int(v.newest.N%torchwood.TileWidth)+1
	_, err = v.Store.ReadTiles(ctx, []tlog.Tile{{H: torchwood.TileHeight, N: number, W: width}})
	if err == nil {
		v.add(Finding{Kind: Checkpointed},
			"the log has tiles of events that no valid checkpoint covers: checkpoints above %d events are missing",
			v.newest.N)
	}
	if errors.Is(err, store.ErrNoTile) {
		return nil
	}
	return err
}

// skip reports the sequences from v.next to to as missing.
func (v *verifier) skip(to int64) {
	if to < v.next {
		return
	}
	v.add(Finding{Kind: Missing, Sequence: v.next}, "events %d to %d are missing", v.next, to)
	for ; v.next <= min(to, v.newest.N); v.next++ {
		v.grow(v.logged(v.next - 1))
	}
	v.broken = v.broken || v.next <= to
	v.next = to + 1
}

// addEvent compares the next event with the log. leaf is nil if the event contradicts itself.
func (v *verifier) addEvent(r *event.Record, leaf []byte) {
	v.report.Events++
	at := Finding{Kind: Event, Sequence: r.Sequence, ID: r.ID, Slug: r.Slug}
	if r.Sequence < 1 {
		v.add(at, "got sequence %d, want 1 or more", r.Sequence)
		return
	}
	v.skip(r.Sequence - 1)
	v.next = r.Sequence + 1
	own := tlog.RecordHash(leaf)
	recorded, logged := v.logged(r.Sequence - 1)
	switch {
	case leaf == nil:
		v.add(at, "event %s was changed: its content, its author or its time does not match its hashes", r.ID)
	case logged && own != recorded:
		v.add(at, "event %s differs from the one that the log recorded in its place", r.ID)
	}
	if logged {
		own = recorded
	}
	v.grow(own, logged || leaf != nil)
}

// logged returns the leaf at an index of the log. ok is false if the newest checkpoint does not
// cover it, or the tile does not match it.
func (v *verifier) logged(index int64) (leaf tlog.Hash, ok bool) {
	if index >= v.newest.N {
		return leaf, false
	}
	if first := index - index%torchwood.TileWidth; first != v.tileAt {
		indexes := make([]int64, min(torchwood.TileWidth, v.newest.N-first))
		for i := range indexes {
			indexes[i] = tlog.StoredHashIndex(0, first+int64(i))
		}
		v.tileAt = first
		var err error
		if v.tile, err = v.hashes.ReadHashes(indexes); err != nil {
			v.tile, v.damaged = nil, first+int64(len(indexes))
			if v.unmatched < 0 {
				v.unmatched = first
			}
			v.add(Finding{Kind: Checkpointed}, "the stored tiles of the events %d to %d do not match the newest checkpoint",
				first+1, v.damaged)
		}
	}
	if v.tile == nil {
		return leaf, false
	}
	return v.tile[index-v.tileAt], true
}

// grow adds a leaf to the tree, if it is known, and compares the tree with the claims of its size.
func (v *verifier) grow(leaf tlog.Hash, known bool) {
	if v.broken = v.broken || !known; v.broken {
		return
	}
	v.tree.add(leaf)
	for ; len(v.claims) > 0 && v.claims[0].N <= v.tree.n; v.claims = v.claims[1:] {
		if c := v.claims[0]; c.N == v.tree.n { // otherwise a missing event broke the tree of its size
			v.compare(c)
		}
	}
}

func (v *verifier) compare(c claim) {
	same := c.Hash == v.tree.root()
	switch {
	case c.file != "" && same:
		v.kept = c.N
	case c.file != "":
		v.add(Finding{Kind: Event, Sequence: v.kept + 1},
			"some of the events %d to %d differ from those of the checkpoint in %s", v.kept+1, c.N, c.file)
	case same:
		v.matched = c.N
		if v.damaged <= c.N {
			v.unmatched = -1
		}
	case v.unmatched >= 0:
		from := max(v.unmatched, v.matched) + 1
		v.add(Finding{Kind: Event, Sequence: from},
			"some of the events %d to %d were changed together with the tiles of the log", from, min(v.damaged, c.N))
		v.broken = true
	default:
		v.add(Finding{Kind: Checkpointed},
			"the log has signed two histories of its first %d events: a checkpoint of %s contradicts the newest one",
			c.N, time.UnixMicro(c.madeAt).UTC().Format(time.DateOnly))
	}
}

// tree is the right edge of a tree: the hashes of complete subtrees, largest first.
type tree struct {
	n    int64
	edge []tlog.Hash
}

func (t *tree) add(h tlog.Hash) {
	for n := t.n; n&1 == 1; n >>= 1 {
		h = tlog.NodeHash(t.edge[len(t.edge)-1], h)
		t.edge = t.edge[:len(t.edge)-1]
	}
	t.edge, t.n = append(t.edge, h), t.n+1
}

// root returns the root hash of a tree that is not empty.
func (t *tree) root() tlog.Hash {
	last := len(t.edge) - 1
	h := t.edge[last]
	for _, left := range slices.Backward(t.edge[:last]) {
		h = tlog.NodeHash(left, h)
	}
	return h
}

func (v *verifier) summaries(ctx context.Context) error {
	listings, missing, err := v.Listings(ctx)
	if err != nil {
		return err
	}
	v.report.Listings = listings
	for _, slug := range missing {
		v.add(Finding{Kind: Summarized, Slug: slug}, "the summary of the events of %s is missing", slug)
	}
	const maxEvents = 5000 // in memory, unless one listing has more
	for after := ""; ; {
		page, err := v.StoredSummaries(ctx, after, maxEvents)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].Slug
		match := make([]bool, len(page))
		inParallel(len(page), func(i int) { match[i] = matches(page[i]) })
		for i, s := range page {
			if !match[i] {
				v.add(Finding{Kind: Summarized, Slug: s.Slug},
					"the summary of %s, of %d events up to sequence %d, does not match its %d events", s.Slug, s.Events,
					s.Sequence, len(s.Records))
			}
		}
	}
}

func matches(s store.StoredSummary) bool {
	if len(s.Records) == 0 || len(s.Records) != s.Events {
		return false
	}
	state, err := event.StateOfRecords(s.Slug, s.Records)
	if err != nil || state.Sequence != s.Sequence {
		return false
	}
	derived, err := json.Marshal(state.Summary)
	return err == nil && s.Summary == string(derived)
}

// add inserts a finding with a message by its sequence, behind those without a greater one.
func (v *verifier) add(f Finding, message string, args ...any) {
	f.Message = fmt.Sprintf(message, args...)
	found := v.report.Findings
	at := len(found)
	for at > 0 && f.Sequence != 0 && (found[at-1].Sequence == 0 || found[at-1].Sequence > f.Sequence) {
		at--
	}
	found = slices.Insert(found, at, f)
	if len(found) > MaxFindings {
		found, v.report.Omitted = found[:MaxFindings], v.report.Omitted+1
	}
	v.report.Findings = found
}
