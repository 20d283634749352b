package audit

import (
	"bytes"
	"math"

	"golang.org/x/mod/sumdb/tlog"

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
	since       ref // first event since the last stored checkpoint
	summary     bool
}

// auditor holds the state of an audit.
type auditor struct {
	source     Source
	claims     []claim // not yet checked, ordered by size
	signedSize int64   // size of the largest claim
	storedSize int64   // size of the largest stored claim
	savedSize  int64   // size of the largest saved claim that matches
	valid      int     // number of stored claims

	logged      []checkpoint.LogCheckpoint // not yet checked, ordered by size
	loggedTree  tlog.Tree                  // of the newest one
	loggedSize  int64
	loggedAfter int64 // size of the last one that matches
	logUnlike   bool  // the tree is not the one that was logged, until it is restarted

	next   int64 // next expected sequence
	events int64
	chains map[string]*chain
	grown  []*chain // since the last stored checkpoint

	tree, storedTree *checkpoint.Tree // over the leaves of the events, and over the stored leaves
	unlike           ref              // first event since the last stored checkpoint whose leaf is not the stored one
	orphaned         bool             // leaves are stored for events without a checkpoint
	firstFound       int64            // sequence of the first event with a finding since the last stored checkpoint; 0: none
	lastFound        int64            // highest sequence of an event with a finding

	findings []Finding
	omitted  int
}

const pageSize = 1000 // events that are read at a time

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
			return a.skip(max(appended, a.signedSize, a.loggedSize), page.Leaves)
		}
		hashed := make([]hashes, len(page.Records))
		inParallel(len(hashed), func(i int) { hashed[i] = hashesOf(&page.Records[i], max(a.signedSize, a.loggedSize)) })
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
	leaf, intact := r.IntactLeaf()
	h := hashes{intact: intact}
	if r.Sequence <= signedSize {
		h.leaf = checkpoint.LeafHash(leaf)
	}
	return h
}

// skip reports the sequences from a.next to to as missing.
func (a *auditor) skip(to int64, leaves map[int64][]byte) error {
	if to < a.next {
		return nil
	}
	a.addEventFinding(Missing, ref{sequence: a.next}, "events %d to %d are missing", a.next, to)
	a.lastFound = to
	for ; a.next <= min(to, a.signedSize); a.next++ {
		leaf := storedLeaf(leaves, a.next)
		if err := a.addLeaf(leaf, leaf); err != nil {
			return err
		}
	}
	a.next, a.logUnlike = to+1, true
	return nil
}

// storedLeaf returns the stored leaf of a sequence, or one that matches no event if it is missing.
func storedLeaf(leaves map[int64][]byte, sequence int64) []byte {
	if leaf := leaves[sequence]; leaf != nil {
		return leaf
	}
	return make([]byte, checkpoint.HashSize)
}

// growTree adds a leaf to the tree of events and checks the checkpoint of the log of the new size.
func (a *auditor) growTree(leaf []byte) error {
	if err := a.tree.Grow(leaf); err != nil {
		return err
	}
	return a.checkLogged(a.tree.Size())
}

// addLeaf adds a leaf to both trees and checks the claims of the new size.
func (a *auditor) addLeaf(leaf, stored []byte) error {
	if err := a.growTree(leaf); err != nil {
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
		a.addFinding(Event, at, 0, "got sequence %d, want 1 or more", r.Sequence)
		return nil
	}
	if err := a.skip(r.Sequence-1, leaves); err != nil {
		return err
	}
	a.next = r.Sequence + 1
	a.extendChain(r, at, h.intact)
	if r.Sequence > a.signedSize {
		a.orphaned = a.orphaned || leaves[r.Sequence] != nil
		if r.Sequence > a.loggedSize || a.logUnlike {
			return nil
		}
		return a.growTree(h.leaf)
	}
	stored := storedLeaf(leaves, r.Sequence)
	if a.unlike.sequence == 0 && !bytes.Equal(h.leaf, stored) {
		a.unlike = at
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
	switch {
	case !intact:
		a.addEventFinding(Event, at, "the content of event %s does not match its hashes", r.ID)
	case r.PrevHash != own.hash:
		a.addEventFinding(Event, at, "event %s names %s as the hash of the event before it in its listing, want %s", r.ID, orNone(r.PrevHash), orNone(own.hash))
	}
	own.hash = r.Hash
	own.events++
	if own.since.sequence == 0 {
		own.since = at
		a.grown = append(a.grown, own)
	}
}

func orNone(hash string) string {
	if hash == "" {
		return "none"
	}
	return hash
}
