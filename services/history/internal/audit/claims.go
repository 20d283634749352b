package audit

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"opportunity.internal/services/history/internal/checkpoint"
)

// claim is a signed checkpoint. It claims that the first Size events have the root hash Root.
type claim struct {
	checkpoint.Checkpoint

	frontier [][]byte
	after    int64  // size of the previous stored claim
	saved    string // name of a saved checkpoint; empty for a stored one
}

// name returns the name of the claim for messages.
func (c claim) name() string {
	text := "checkpoint " + strconv.FormatInt(c.Number, 10) + " of " + c.Time.Format(time.DateOnly)
	if c.saved != "" {
		return text + " in " + c.saved
	}
	return text
}

// addClaims adds the checkpoints with a valid signature as claims. It adds findings for all others.
func (a *auditor) addClaims(keys checkpoint.Keys, stored []checkpoint.Stored, saved []Saved) {
	var before checkpoint.Stored // the last valid one
	notes := map[int64]string{}
	for i, k := range stored {
		notes[k.Number] = k.Note
		number := k.Number
		bad := func(message string, args ...any) { a.addFinding(Checkpointed, ref{}, number, message, args...) }
		signed, err := keys.Open(k.Note)
		follows := i > 0 && stored[i-1].Number+1 == number || i == 0 && number == 1
		if begins := err == nil && signed.Generation > max(1, before.Generation); !follows && !begins {
			bad("the checkpoint before checkpoint %d is missing", number)
		}
		if err != nil {
			bad("checkpoint %d: %v", number, err)
			continue
		}
		if signed.Number != number || signed.Size != k.Size || !signed.Time.Equal(k.Time) {
			bad("the stored number, size or time of checkpoint %d differs from the signed one", number)
		}
		k.Checkpoint = signed
		if i > 0 && signed.Previous != checkpoint.ID(stored[i-1].Note) || i == 0 && signed.Previous != "" {
			bad("checkpoint %d does not name the stored checkpoint before it as its previous one", number)
		}
		if err := signed.Extends(before.Checkpoint, k.Consistency); err != nil {
			bad("no valid proof that checkpoint %d extends checkpoint %d: %v", number, before.Number, err)
		}
		if signed.Size < before.Size {
			continue
		}
		a.claims = append(a.claims, claim{Checkpoint: signed, frontier: k.Frontier, after: before.Size})
		a.storedClaims = append(a.storedClaims, a.claims[len(a.claims)-1])
		a.valid++
		a.storedSize = signed.Size
		before = k
	}
	a.signedSize = a.storedSize
	for _, s := range saved {
		signed, err := keys.Open(s.Note)
		if err != nil {
			a.addFinding(Checkpointed, ref{}, 0, "%s: %v", s.Name, err)
			continue
		}
		if note, ok := notes[signed.Number]; !ok || note != s.Note {
			a.addFinding(Checkpointed, ref{}, signed.Number, "%s: checkpoint %d differs from the stored one", s.Name, signed.Number)
		}
		a.claims = append(a.claims, claim{Checkpoint: signed, saved: s.Name})
		a.signedSize = max(a.signedSize, signed.Size)
	}
	slices.SortStableFunc(a.claims, func(x, y claim) int { return cmp.Compare(x.Size, y.Size) })
	a.tree, _ = checkpoint.NewTree(0, nil) // never fails for an empty tree
	a.storedTree, _ = checkpoint.NewTree(0, nil)
}

// checkClaims compares the first size events with every claim of that size.
func (a *auditor) checkClaims(size int64) error {
	for ; len(a.claims) > 0 && a.claims[0].Size <= size; a.claims = a.claims[1:] {
		c := a.claims[0]
		if c.Size < size { // claims of an empty log
			continue
		}
		root, err := a.tree.Root()
		if err != nil {
			return err
		}
		fits := bytes.Equal(root, c.Root)
		if c.saved != "" {
			c.after = a.savedSize
		}
		if !fits {
			a.mismatched = append(a.mismatched, c)
		}
		if c.saved != "" {
			if fits {
				a.savedSize = c.Size
			}
			continue
		}
		if err := a.checkLeaves(c, fits); err != nil {
			return err
		}
		if err := a.checkHeads(c); err != nil {
			return err
		}
	}
	return nil
}

// checkLeaves checks the stored leaves of a claim. It ignores leaves that do not match, because they prove nothing. After any
// mismatch it restarts the tree from the claim, so that later claims are checked against later events only.
func (a *auditor) checkLeaves(c claim, fits bool) error {
	root, err := a.storedTree.Root()
	if err != nil {
		return err
	}
	leavesMatch := bytes.Equal(root, c.Root)
	if !leavesMatch {
		a.addFinding(Checkpointed, ref{}, c.Number, "the leaves stored with %s do not match it", c.name())
		within := func(sequence int64) bool { return sequence > c.after && sequence <= c.Size }
		for leaf, at := range a.pendingStored {
			if within(at) {
				delete(a.pendingStored, leaf)
			}
		}
		for leaf, at := range a.pendingSeen {
			if within(at.sequence) {
				delete(a.pendingSeen, leaf)
			}
		}
		if within(a.moved.sequence) {
			a.moved = ref{}
		}
	}
	again, err := checkpoint.NewTree(c.Size, c.frontier)
	if err == nil {
		root, err = again.Root()
	}
	if err != nil || !bytes.Equal(root, c.Root) {
		a.addFinding(Checkpointed, ref{}, c.Number, "the frontier stored with %s does not match its root hash", c.name())
		return nil
	}
	if !fits {
		a.tree = again
	}
	if !leavesMatch {
		a.storedTree, err = checkpoint.NewTree(c.Size, c.frontier)
	}
	return err
}

// checkHeads compares the chains with the signed heads of a claim.
func (a *auditor) checkHeads(c claim) error {
	heads, err := a.source.Heads(c.Number)
	if err != nil {
		return err
	}
	if checkpoint.HeadsHash(heads) != c.Heads {
		a.addFinding(Checkpointed, ref{}, c.Number, "the heads stored with %s do not match it", c.name())
	} else {
		for _, h := range heads {
			own := a.chains[h.Slug]
			if own == nil {
				own = new(chain)
			}
			if own.events != h.Events || own.hash != h.Hash || own.first != h.Chain {
				a.headMismatches = append(a.headMismatches, headMismatch{h, c, own.since, own.events})
			}
		}
	}
	for _, own := range a.grown {
		own.since = ref{}
	}
	a.grown = a.grown[:0]
	return nil
}
