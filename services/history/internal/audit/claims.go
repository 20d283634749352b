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
		switch {
		case c.saved == "":
			err = a.checkStored(c, fits)
		case fits:
			a.savedSize = c.Size
		default:
			c.after = a.savedSize
			a.addRange(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkStored checks the leaves, the heads and the frontier that are stored with a claim, and reports the events that do not match it. It then
// restarts the trees from the claim, so that later claims are checked against later events only.
func (a *auditor) checkStored(c claim, fits bool) error {
	root, err := a.storedTree.Root()
	if err != nil {
		return err
	}
	leavesMatch := bytes.Equal(root, c.Root)
	if !leavesMatch {
		a.addFinding(Checkpointed, ref{}, c.Number, "the leaves stored with %s do not match it", c.name())
	}
	changed, err := a.changedChains(c)
	if err != nil {
		return err
	}
	switch at := a.unlike; {
	case fits:
	case leavesMatch:
		if at.sequence != 0 && (a.firstFound == 0 || at.sequence < a.firstFound) {
			a.addFinding(Event, at, c.Number, "%s signed another event in the place of event %s", c.name(), at.id)
			a.lastFound = max(a.lastFound, at.sequence)
		}
	case a.lastFound > c.after:
	case len(changed) > 0:
		for _, at := range changed {
			a.addFinding(Event, at, c.Number, "events of %s, from this one at the earliest, differ from those that %s signed", at.slug, c.name())
		}
	default:
		a.addRange(c)
	}
	a.unlike, a.firstFound = ref{}, 0
	return a.restart(c, fits, leavesMatch)
}

// changedChains returns the first events since the previous stored checkpoint of the listings whose chains differ from the signed heads. It
// returns none if the stored heads do not match the claim.
func (a *auditor) changedChains(c claim) (changed []ref, err error) {
	heads, err := a.source.Heads(c.Number)
	if err != nil {
		return nil, err
	}
	if checkpoint.HeadsHash(heads) != c.Heads {
		a.addFinding(Checkpointed, ref{}, c.Number, "the heads stored with %s do not match it", c.name())
		heads = nil
	}
	for _, h := range heads {
		own := a.chains[h.Slug]
		if own == nil {
			own = new(chain)
		}
		if own.events != h.Events || own.hash != h.Hash || own.first != h.Chain {
			at := own.since
			at.slug = h.Slug
			changed = append(changed, at)
		}
	}
	for _, own := range a.grown {
		own.since = ref{}
	}
	a.grown = a.grown[:0]
	return changed, nil
}

// addRange adds a finding for the events of a claim, unless one of them has a finding.
func (a *auditor) addRange(c claim) {
	if a.lastFound <= c.after {
		a.lastFound = c.Size
		a.addFinding(Event, ref{sequence: c.after + 1}, c.Number, "some of the events %d to %d differ from those that %s signed", c.after+1, c.Size, c.name())
	}
}

// restart continues the trees that do not match the claim from its frontier.
func (a *auditor) restart(c claim, fits, leavesMatch bool) error {
	again, err := checkpoint.NewTree(c.Size, c.frontier)
	var root []byte
	if err == nil {
		root, err = again.Root()
	}
	if err != nil || !bytes.Equal(root, c.Root) {
		a.addFinding(Checkpointed, ref{}, c.Number, "the frontier stored with %s does not match its root hash", c.name())
		return nil
	}
	if !fits {
		a.tree, a.logUnlike = again, false
	}
	if !leavesMatch {
		a.storedTree, err = checkpoint.NewTree(c.Size, c.frontier)
	}
	return err
}
