package audit

import (
	"bytes"
	"math"

	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// ref names an event.
type ref struct {
	sequence int64
	id, slug string
}

// chain is how far the walk has come on one listing.
type chain struct {
	first, hash string // of the first event and of the last
	events      int64
	last        ref
	since       ref  // first event since the last stored checkpoint
	edited      bool // the last event is: no wonder that the next one does not fit
	broken      bool // a break was found; what comes after it does not fit for the same reason
	summed      bool // it has a summary
}

// link is a break in a chain: an event that does not follow the one before it.
type link struct {
	at, before ref
	resolved   int64 // sequence of the event that it does follow, where that came later
}

// gap is sequences that no event has.
type gap struct {
	from, to int64
	used     bool // a finding says what was there
}

// stray is a chain that is not where a signed head says it was.
type stray struct {
	head   checkpoint.Head
	claim  claim
	since  ref
	events int64
}

type auditor struct {
	source   Source
	claims   []claim // in the order of their sizes; those that were met are gone
	covering []claim // the stored ones, in the same order
	signed   int64   // size of the largest
	stored   int64   // size of the largest that is stored
	valid    int

	next         int64 // sequence that comes next
	events       int64
	chains       map[string]*chain
	grown        []*chain // since the last stored checkpoint
	links        []link
	waiting      map[string]int  // hash that a broken link follows -> its place in links
	editedHashes map[string]bool // of edited events
	gaps         []gap

	tree, kept *checkpoint.Tree // over the events as they are, and over the leaves that were kept
	// The events, and the kept leaves, that were not found in their places, each until it is found elsewhere.
	pendingSeen map[string]ref
	pendingKept map[string]int64
	moved       ref // first event that stands elsewhere than it was signed
	orphaned    bool

	mismatched []claim
	strayed    []stray
	untold     []Summary // summaries that do not fit
	findings   []Finding
	omitted    int
	vouched    int64 // size of the largest saved claim that fits
}

// pageSize is how many events are read at once.
const pageSize = 1000

// maxPending bounds what is remembered of a history in which nothing is where it was.
const maxPending = 100_000

func (a *auditor) walk(appended int64) error {
	if err := a.settle(0); err != nil {
		return err
	}
	for after := int64(math.MinInt64); ; {
		page, err := a.source.Events(after, pageSize)
		if err != nil {
			return err
		}
		for i := range page.Records {
			if err := a.take(&page.Records[i], page.Leaves); err != nil {
				return err
			}
		}
		if n := len(page.Records); n > 0 {
			after = page.Records[n-1].Sequence
			continue
		}
		return a.miss(max(appended, a.signed), page.Leaves)
	}
}

// miss passes over sequences up to and including to.
func (a *auditor) miss(to int64, leaves map[int64][]byte) error {
	if to < a.next {
		return nil
	}
	a.gaps = append(a.gaps, gap{from: a.next, to: to})
	for ; a.next <= min(to, a.signed); a.next++ {
		kept := leaves[a.next]
		if kept == nil {
			kept = make([]byte, checkpoint.HashSize)
		} else if len(a.pendingKept) < maxPending {
			a.expect(kept, a.next)
		}
		if err := a.grow(kept, kept); err != nil {
			return err
		}
	}
	a.next = to + 1
	return nil
}

// expect notes that the leaf was signed at a place where another event stands, or none.
func (a *auditor) expect(leaf []byte, sequence int64) {
	if seen, ok := a.pendingSeen[string(leaf)]; ok {
		delete(a.pendingSeen, string(leaf))
		a.move(seen)
		return
	}
	a.pendingKept[string(leaf)] = sequence
}

func (a *auditor) move(at ref) {
	if a.moved.sequence == 0 || at.sequence < a.moved.sequence {
		a.moved = at
	}
}

// grow adds a place to both trees, and compares what is due there.
func (a *auditor) grow(leaf, kept []byte) error {
	if err := a.tree.Grow(leaf); err != nil {
		return err
	}
	if err := a.kept.Grow(kept); err != nil {
		return err
	}
	return a.settle(a.tree.Size())
}

func (a *auditor) take(r *event.Record, leaves map[int64][]byte) error {
	a.events++
	at := ref{r.Sequence, r.ID, r.Slug}
	if r.Sequence < 1 {
		a.find(Reordered, at, 0, "no append gives the sequence %d", r.Sequence)
		return nil
	}
	if err := a.miss(r.Sequence-1, leaves); err != nil {
		return err
	}
	intact := a.follow(r, at)
	a.next = r.Sequence + 1
	kept := leaves[r.Sequence]
	if r.Sequence > a.signed {
		a.orphaned = a.orphaned || kept != nil
		return nil
	}
	leaf := checkpoint.LeafHash(r.Leaf())
	switch {
	case kept == nil:
		kept = make([]byte, checkpoint.HashSize)
	case bytes.Equal(leaf, kept) || !intact || len(a.pendingSeen) >= maxPending:
	default:
		if _, ok := a.pendingKept[string(leaf)]; ok {
			delete(a.pendingKept, string(leaf))
			a.move(at)
		} else {
			a.pendingSeen[string(leaf)] = at
		}
		a.expect(kept, r.Sequence)
	}
	return a.grow(leaf, kept)
}

// follow puts the event behind the last one of its chain, and reports whether its own hashes are right.
func (a *auditor) follow(r *event.Record, at ref) (intact bool) {
	own := a.chains[r.Slug]
	if own == nil {
		own = &chain{first: r.Hash}
		a.chains[r.Slug] = own
	}
	if intact = r.Intact(); !intact {
		a.find(Edited, at, 0, "what event %s says is not what its hashes cover", r.ID)
		a.editedHashes[r.Hash] = true
	}
	if i, ok := a.waiting[r.Hash]; ok && a.links[i].resolved == 0 {
		a.links[i].resolved = r.Sequence
	}
	if r.PrevHash != own.hash && intact && !own.edited && !own.broken && !a.editedHashes[r.PrevHash] {
		own.broken = true
		a.waiting[r.PrevHash] = len(a.links)
		a.links = append(a.links, link{at: at, before: own.last})
	}
	own.hash, own.last, own.edited = r.Hash, at, !intact
	own.events++
	if own.since.sequence == 0 {
		own.since = at
		a.grown = append(a.grown, own)
	}
	return intact
}
