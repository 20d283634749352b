package audit

import (
	"bytes"
	"math"

	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// ref identifies an event.
type ref struct {
	sequence int64
	id, slug string
}

// chain is the state of one listing's chain during the walk.
type chain struct {
	first, hash string // hash of the first and of the last event
	events      int64
	last        ref
	since       ref  // first event since the last stored checkpoint
	edited      bool // the last event was edited, which explains a mismatch of the next one
	broken      bool // a break was found, which explains later mismatches
	hasSummary  bool
}

// link is a break in a chain: an event that is not chained to the previous one.
type link struct {
	at, before ref
	resolved   int64 // sequence of a later event to which it is chained; 0 if none
}

// gap is a range of missing sequences.
type gap struct {
	from, to int64
	used     bool // a finding covers it
}

// headMismatch is a chain that does not match a signed head.
type headMismatch struct {
	head   checkpoint.Head
	claim  claim
	since  ref
	events int64
}

// auditor holds the state of an audit.
type auditor struct {
	source       Source
	claims       []claim // not yet checked, ordered by size
	storedClaims []claim // all stored claims, ordered by size
	signedSize   int64   // size of the largest claim
	storedSize   int64   // size of the largest stored claim
	savedSize    int64   // size of the largest saved claim that matches
	valid        int     // number of stored claims

	next         int64 // next expected sequence
	events       int64
	chains       map[string]*chain
	grown        []*chain // since the last stored checkpoint
	links        []link
	waiting      map[string]int  // index in links by the missing hash that the link follows
	editedHashes map[string]bool // of edited events
	gaps         []gap

	tree, storedTree *checkpoint.Tree // over the leaves of the events, and over the stored leaves
	// The next two hold misplaced events and misplaced stored leaves by leaf hash, until they are found in another place.
	pendingSeen   map[string]ref
	pendingStored map[string]int64
	moved         ref  // first event in another place than signed
	orphaned      bool // leaves are stored for events without a checkpoint

	mismatched     []claim
	headMismatches []headMismatch
	badSummaries   []badSummary
	findings       []Finding
	omitted        int
}

const (
	pageSize   = 1000    // events of one read
	maxPending = 100_000 // limits the memory for a history with many misplaced events
)

// walk reads all events in sequence order. appended is the last assigned sequence.
func (a *auditor) walk(appended int64) error {
	if err := a.checkClaims(0); err != nil {
		return err
	}
	after := int64(math.MinInt64)
	read := func() (page Page, more bool, err error) {
		page, err = a.source.Events(after, pageSize)
		if n := len(page.Records); n > 0 {
			after = page.Records[n-1].Sequence
		}
		return page, len(page.Records) > 0, err
	}
	for page, err := range ahead(read) {
		if err != nil {
			return err
		}
		if len(page.Records) == 0 {
			return a.skip(max(appended, a.signedSize), page.Leaves)
		}
		hashed := make([]hashes, len(page.Records))
		inParallel(len(hashed), func(i int) { hashed[i] = hashesOf(&page.Records[i], a.signedSize) })
		for i := range page.Records {
			if err := a.addEvent(&page.Records[i], hashed[i], page.Leaves); err != nil {
				return err
			}
		}
	}
	return nil
}

// hashes are the results of hashing an event.
type hashes struct {
	intact bool   // the event's hashes match its content
	leaf   []byte // nil for an event that is not signed
}

func hashesOf(r *event.Record, signedSize int64) hashes {
	h := hashes{intact: r.Intact()}
	if r.Sequence <= signedSize {
		h.leaf = checkpoint.LeafHash(r.Leaf())
	}
	return h
}

// skip records the sequences from a.next to to as a gap.
func (a *auditor) skip(to int64, leaves map[int64][]byte) error {
	if to < a.next {
		return nil
	}
	a.gaps = append(a.gaps, gap{from: a.next, to: to})
	for ; a.next <= min(to, a.signedSize); a.next++ {
		stored := leaves[a.next]
		if stored == nil {
			stored = make([]byte, checkpoint.HashSize)
		} else if len(a.pendingStored) < maxPending {
			a.expectLeaf(stored, a.next)
		}
		if err := a.addLeaf(stored, stored); err != nil {
			return err
		}
	}
	a.next = to + 1
	return nil
}

// expectLeaf records a signed leaf whose place is empty or has another event.
func (a *auditor) expectLeaf(leaf []byte, sequence int64) {
	if seen, ok := a.pendingSeen[string(leaf)]; ok {
		delete(a.pendingSeen, string(leaf))
		a.noteMoved(seen)
		return
	}
	a.pendingStored[string(leaf)] = sequence
}

// noteMoved records an event in another place than signed.
func (a *auditor) noteMoved(at ref) {
	if a.moved.sequence == 0 || at.sequence < a.moved.sequence {
		a.moved = at
	}
}

// addLeaf adds a leaf to both trees and checks the claims of the new size.
func (a *auditor) addLeaf(leaf, stored []byte) error {
	if err := a.tree.Grow(leaf); err != nil {
		return err
	}
	if err := a.storedTree.Grow(stored); err != nil {
		return err
	}
	return a.checkClaims(a.tree.Size())
}

// addEvent adds the next event to its chain and to the trees.
func (a *auditor) addEvent(r *event.Record, h hashes, leaves map[int64][]byte) error {
	a.events++
	at := ref{r.Sequence, r.ID, r.Slug}
	if r.Sequence < 1 {
		a.addFinding(Reordered, at, 0, "invalid sequence %d", r.Sequence)
		return nil
	}
	if err := a.skip(r.Sequence-1, leaves); err != nil {
		return err
	}
	a.extendChain(r, at, h.intact)
	a.next = r.Sequence + 1
	stored := leaves[r.Sequence]
	if r.Sequence > a.signedSize {
		a.orphaned = a.orphaned || stored != nil
		return nil
	}
	switch {
	case stored == nil:
		stored = make([]byte, checkpoint.HashSize)
	case bytes.Equal(h.leaf, stored) || !h.intact || len(a.pendingSeen) >= maxPending:
	default:
		if _, ok := a.pendingStored[string(h.leaf)]; ok {
			delete(a.pendingStored, string(h.leaf))
			a.noteMoved(at)
		} else {
			a.pendingSeen[string(h.leaf)] = at
		}
		a.expectLeaf(stored, r.Sequence)
	}
	return a.addLeaf(h.leaf, stored)
}

// extendChain adds the event to the chain of its listing. intact is false if the event's hashes do not match its content.
func (a *auditor) extendChain(r *event.Record, at ref, intact bool) {
	own := a.chains[r.Slug]
	if own == nil {
		own = &chain{first: r.Hash}
		a.chains[r.Slug] = own
	}
	if !intact {
		a.addFinding(Edited, at, 0, "the content of event %s does not match its hashes", r.ID)
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
}
