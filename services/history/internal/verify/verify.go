// Package verify verifies the history against its log: it compares the leaf of every event with the
// tiles that the newest signed checkpoint authenticates, older and saved checkpoints with the root
// at their size, and each summary with the events. It reports findings in sequence order: the
// history matches up to the first one.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// Source is a consistent snapshot of the history.
type Source interface {
	// Appended returns the last assigned sequence.
	Appended() (int64, error)
	// Events returns up to limit events with a sequence above after, ordered by sequence.
	Events(after int64, limit int) ([]event.Record, error)
	// Checkpoints returns up to limit checkpoints of all origins with a size above after and up to
	// upTo, ordered by size, not verified.
	Checkpoints(after, upTo int64, limit int) ([]checkpoint.Checkpoint, error)
	// Newest returns the newest checkpoint with a size below below, not verified. It has size 0 if
	// there is none.
	Newest(below int64) (checkpoint.Checkpoint, error)
	// Tiles returns the hashes of tiles of the log. It returns checkpoint.ErrNoTile if one is
	// missing or shorter.
	Tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error)
	// Summaries returns summaries with a slug above after, ordered by slug, with the events of
	// their listings. It returns as many as have up to maxEvents events, and at least one unless
	// there is none.
	Summaries(after string, maxEvents int) ([]Summary, error)
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

// Saved is a copy of a checkpoint from outside the database.
type Saved struct {
	Name string // for messages, such as a file name
	Note string // the signed text
}

// Run verifies source with the trusted keys, saved checkpoints, and findings about what others have
// seen and the store is known to lack. It reads every event twice, once for its summary. It needs
// little memory for each listing, and none for each event. It returns an error only if source does.
func Run(ctx context.Context, source Source, keys checkpoint.Keys, saved []Saved, lost []Finding) (Report, error) {
	a := &verifier{
		source: source, keys: keys, listings: map[string]*listing{}, findings: lost,
		next: 1, tileAt: -1, damaged: span{from: -1}, unmatched: -1,
	}
	for _, s := range saved {
		c, err := keys.Open(s.Note)
		if err != nil {
			a.addFinding(Checkpointed, ref{}, "%s: %v", s.Name, err)
			continue
		}
		a.saved = append(a.saved, claim{c, s.Name})
	}
	slices.SortStableFunc(a.saved, func(x, y claim) int { return cmp.Compare(x.N, y.N) })
	if err := a.findNewest(ctx); err != nil {
		return Report{}, err
	}
	if err := a.walk(); err != nil {
		return Report{}, err
	}
	if err := a.summaries(); err != nil {
		return Report{}, err
	}
	return a.report(), nil
}

type claim struct {
	checkpoint.Checkpoint

	name string
}

type ref struct {
	sequence int64
	id, slug string
}

// span is a range of indexes of events: from, and below to.
type span struct{ from, to int64 }

// listing counts the events of a listing during the walk.
type listing struct {
	events  int64
	summary bool
}

type verifier struct {
	source Source
	keys   checkpoint.Keys
	saved  []claim // not yet compared, ordered by size

	newest checkpoint.Checkpoint // the newest valid one, which authenticates the tiles
	hashes tlog.HashReader
	tile   []tlog.Hash // the leaves of a tile, nil if it does not match the newest checkpoint
	tileAt int64       // index of its first leaf
	outage error       // of the source, while it read tiles

	next      int64 // next expected sequence
	tree      tree  // of the log as far as its tiles match, otherwise of the events
	broken    bool  // the tree lacks a leaf or has a wrong one: nothing more can be compared with it
	matched   int64 // size of the last checkpoint that matches the tree
	kept      int64 // size of the last saved checkpoint that matches the tree
	resigned  bool  // an older checkpoint contradicts the newest one
	damaged   span  // the last range whose tile does not match; from is -1 before any
	unmatched int64 // index of the first event without a matching tile or a later matching checkpoint; -1: none
	events    int64
	valid     int // stored checkpoints
	listings  map[string]*listing

	findings []Finding
	omitted  int
}

func (a *verifier) findNewest(ctx context.Context) error {
	for below := int64(math.MaxInt64); ; {
		c, err := a.source.Newest(below)
		if err != nil || c.N == 0 {
			return err
		}
		if signed, err := a.keys.Verified(c); err == nil {
			a.newest = signed
			a.hashes = torchwood.TileHashReaderWithContext(ctx, signed.Tree, checkpoint.TileReader(a.readTiles))
			return nil
		}
		below = c.N
	}
}

// readTiles reads tiles. It remembers an error that does not come from their content.
func (a *verifier) readTiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	data, err := a.source.Tiles(ctx, tiles)
	if err != nil && !errors.Is(err, checkpoint.ErrNoTile) {
		a.outage = err
	}
	return data, err
}

const pageSize = 1000 // events, and checkpoints after the last event, that are read at a time

func (a *verifier) walk() error {
	for after := int64(math.MinInt64); ; {
		records, err := a.source.Events(after, pageSize)
		if err != nil {
			return err
		}
		upTo, limit := int64(math.MaxInt64), pageSize // after the last event
		if n := len(records); n > 0 {
			upTo, limit = records[n-1].Sequence, math.MaxInt32
		}
		checkpoints, err := a.source.Checkpoints(max(after, 0), upTo, limit)
		if err != nil {
			return err
		}
		after = upTo
		leaves := make([][]byte, len(records))
		inParallel(len(leaves), func(i int) { leaves[i] = records[i].Leaf() })
		stored := a.verified(checkpoints)
		for i := range records {
			if stored, err = a.addEvent(&records[i], leaves[i], stored); err != nil {
				return err
			}
		}
		if len(records) == 0 {
			return a.end(stored)
		}
	}
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

func (a *verifier) verified(stored []checkpoint.Checkpoint) []checkpoint.Checkpoint {
	errs := make([]error, len(stored))
	inParallel(len(stored), func(i int) { stored[i], errs[i] = a.keys.Verified(stored[i]) })
	valid := stored[:0]
	for i, c := range stored {
		if errs[i] != nil {
			a.addFinding(Checkpointed, ref{}, "%v", errs[i])
			continue
		}
		valid = append(valid, c)
	}
	a.valid += len(valid)
	return valid
}

// end reports missing events after the last one, and missing checkpoints.
func (a *verifier) end(stored []checkpoint.Checkpoint) error {
	last, err := a.source.Appended()
	if err != nil {
		return err
	}
	last = max(last, a.newest.N)
	for _, c := range a.saved {
		last = max(last, c.N)
	}
	if _, err := a.skip(last, stored); err != nil {
		return err
	}
	a.reportDamage()
	number, width := a.newest.N/torchwood.TileWidth, int(a.newest.N%torchwood.TileWidth)+1
	next := tlog.Tile{H: torchwood.TileHeight, N: number, W: width}
	_, err = a.source.Tiles(context.Background(), []tlog.Tile{next})
	if err == nil {
		a.addFinding(Checkpointed, ref{},
			"the log has tiles of events that no valid checkpoint covers: checkpoints above %d events are missing",
			a.newest.N)
	}
	if errors.Is(err, checkpoint.ErrNoTile) {
		return nil
	}
	return err
}

// skip reports the sequences from a.next to to as missing. It returns the checkpoints that remain
// to be compared.
func (a *verifier) skip(to int64, stored []checkpoint.Checkpoint) ([]checkpoint.Checkpoint, error) {
	if to < a.next {
		return stored, nil
	}
	a.addFinding(Missing, ref{sequence: a.next}, "events %d to %d are missing", a.next, to)
	for ; a.next <= min(to, a.newest.N); a.next++ {
		leaf, logged, err := a.logged(a.next - 1)
		if err != nil {
			return stored, err
		}
		stored = a.grow(leaf, logged, stored)
	}
	a.broken = a.broken || a.next <= to
	a.next = to + 1
	return stored, nil
}

// addEvent compares the next event with the log. leaf is nil if the event contradicts itself. It
// returns the checkpoints that remain to be compared.
func (a *verifier) addEvent(
	r *event.Record, leaf []byte, stored []checkpoint.Checkpoint,
) ([]checkpoint.Checkpoint, error) {
	a.events++
	if own := a.listings[r.Slug]; own != nil {
		own.events++
	} else {
		a.listings[r.Slug] = &listing{events: 1}
	}
	at := ref{r.Sequence, r.ID, r.Slug}
	if r.Sequence < 1 {
		a.addFinding(Event, at, "got sequence %d, want 1 or more", r.Sequence)
		return stored, nil
	}
	stored, err := a.skip(r.Sequence-1, stored)
	if err != nil {
		return stored, err
	}
	a.next = r.Sequence + 1
	own := tlog.RecordHash(leaf)
	recorded, logged, err := a.logged(r.Sequence - 1)
	switch {
	case err != nil:
		return stored, err
	case leaf == nil:
		a.addFinding(Event, at, "event %s was changed: its content, its author or its time does not match its hashes",
			r.ID)
	case logged && own != recorded:
		a.addFinding(Event, at, "event %s differs from the one that the log recorded in its place", r.ID)
	}
	if logged {
		own = recorded
	}
	return a.grow(own, logged || leaf != nil, stored), nil
}

// logged returns the leaf at an index of the log. ok is false if the newest checkpoint does not
// cover it, or the tile does not match it.
func (a *verifier) logged(index int64) (leaf tlog.Hash, ok bool, err error) {
	if index >= a.newest.N {
		return leaf, false, nil
	}
	if first := index - index%torchwood.TileWidth; first != a.tileAt {
		indexes := make([]int64, min(torchwood.TileWidth, a.newest.N-first))
		for i := range indexes {
			indexes[i] = tlog.StoredHashIndex(0, first+int64(i))
		}
		a.tileAt = first
		if a.tile, err = a.hashes.ReadHashes(indexes); a.outage != nil {
			return leaf, false, a.outage
		}
		if err != nil {
			a.tile = nil
			a.damage(span{first, first + int64(len(indexes))})
		}
	}
	if a.tile == nil {
		return leaf, false, nil
	}
	return a.tile[index-a.tileAt], true, nil
}

// damage notes that the tile of a range does not match the newest checkpoint.
func (a *verifier) damage(s span) {
	if a.unmatched < 0 {
		a.unmatched = s.from
	}
	if a.damaged.from >= 0 && a.damaged.to == s.from {
		a.damaged.to = s.to
		return
	}
	a.reportDamage()
	a.damaged = s
}

func (a *verifier) reportDamage() {
	if a.damaged.from >= 0 {
		a.addFinding(Checkpointed, ref{}, "the stored tiles of the events %d to %d do not match the newest checkpoint",
			a.damaged.from+1, a.damaged.to)
	}
}

// grow adds a leaf to the tree, if it is known, and compares the tree with the checkpoints of its
// size. It returns the remaining ones.
func (a *verifier) grow(leaf tlog.Hash, known bool, stored []checkpoint.Checkpoint) []checkpoint.Checkpoint {
	if a.broken = a.broken || !known; a.broken {
		return stored
	}
	a.tree.add(leaf)
	size := a.tree.n
	for ; len(stored) > 0 && stored[0].N <= size; stored = stored[1:] {
		if c := stored[0]; c.N == size {
			a.compare(c)
		}
	}
	for ; len(a.saved) > 0 && a.saved[0].N <= size; a.saved = a.saved[1:] {
		switch c := a.saved[0]; {
		case c.N < size: // compared, or covered by a missing event
		case c.Hash == a.tree.root():
			a.kept = size
		default:
			a.addFinding(Event, ref{sequence: a.kept + 1},
				"some of the events %d to %d differ from those of the checkpoint in %s",
				a.kept+1, size, c.name)
		}
	}
	return stored
}

// compare compares the tree with a stored checkpoint of its size.
func (a *verifier) compare(c checkpoint.Checkpoint) {
	switch {
	case c.Hash == a.tree.root():
		a.matched = c.N
		if a.damaged.to <= c.N {
			a.unmatched = -1
		}
	case a.unmatched >= 0:
		from := max(a.unmatched, a.matched) + 1
		to := min(a.damaged.to, c.N)
		a.addFinding(Event, ref{sequence: from},
			"some of the events %d to %d were changed together with the tiles of the log",
			from, to)
		a.broken = true
	case !a.resigned:
		a.addFinding(Checkpointed, ref{},
			"the log has signed two histories of its first %d events: a checkpoint of %s contradicts the newest one",
			c.N, c.MadeAt.Format(time.DateOnly))
		a.resigned = true
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

const maxFindings = 10_000 // held in memory

func (a *verifier) addFinding(kind Kind, at ref, message string, args ...any) {
	if len(a.findings) >= maxFindings {
		a.omitted++
		return
	}
	a.findings = append(a.findings, Finding{kind, at.sequence, at.id, at.slug, fmt.Sprintf(message, args...)})
}

func (a *verifier) report() Report {
	last := func(f Finding) int64 {
		if f.Sequence == 0 {
			return math.MaxInt64
		}
		return f.Sequence
	}
	slices.SortStableFunc(a.findings, func(x, y Finding) int { return cmp.Compare(last(x), last(y)) })
	named := min(len(a.findings), MaxFindings)
	return Report{
		Fits: len(a.findings) == 0, Events: a.events, Listings: len(a.listings), Checkpoints: a.valid,
		Logged:   a.newest.N,
		Findings: append([]Finding{}, a.findings[:named]...), Omitted: len(a.findings) - named + a.omitted,
	}
}
