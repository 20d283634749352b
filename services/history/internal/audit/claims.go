package audit

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"opportunity.internal/services/history/internal/checkpoint"
)

// claim is a checkpoint that was signed, so that the first Size events must hash to its Root.
type claim struct {
	checkpoint.Checkpoint

	frontier [][]byte
	after    int64 // size of the stored claim before
	saved    string
}

// what names the claim in messages.
func (c claim) what() string {
	text := "checkpoint " + strconv.FormatInt(c.Number, 10) + " of " + c.Time.Format(time.DateOnly)
	if c.saved != "" {
		return text + " in " + c.saved
	}
	return text
}

// believe takes as claims the checkpoints that a key of ours signed, and tells of all others.
func (a *auditor) believe(keys checkpoint.Keys, kept []checkpoint.Stored, saved []Saved) {
	var before checkpoint.Stored // the last that was signed
	notes := map[int64]string{}
	for i, k := range kept {
		notes[k.Number] = k.Note
		number := k.Number
		bad := func(message string, args ...any) { a.find(Checkpointed, ref{}, number, message, args...) }
		if want := int64(i + 1); i > 0 && kept[i-1].Number+1 != number || i == 0 && number != want {
			bad("the checkpoint before checkpoint %d is gone", number)
		}
		told, err := keys.Open(k.Note)
		if err != nil {
			bad("checkpoint %d: %v", number, err)
			continue
		}
		if told.Number != number || told.Size != k.Size || !told.Time.Equal(k.Time) {
			bad("checkpoint %d is stored under another number, size or time than it was signed with", number)
		}
		k.Checkpoint = told
		if i > 0 && told.Previous != checkpoint.ID(kept[i-1].Note) || i == 0 && told.Previous != "" {
			bad("checkpoint %d follows another checkpoint than the one that is kept before it", number)
		}
		if err := told.Extends(before.Checkpoint, k.Consistency); err != nil {
			bad("checkpoint %d is not shown to continue the log of checkpoint %d: %v", number, before.Number, err)
		}
		if told.Size < before.Size {
			continue
		}
		a.claims = append(a.claims, claim{Checkpoint: told, frontier: k.Frontier, after: before.Size})
		a.covering = append(a.covering, a.claims[len(a.claims)-1])
		a.valid++
		a.stored = told.Size
		before = k
	}
	a.signed = a.stored
	for _, s := range saved {
		told, err := keys.Open(s.Note)
		if err != nil {
			a.find(Checkpointed, ref{}, 0, "%s: %v", s.Name, err)
			continue
		}
		if note, ok := notes[told.Number]; !ok || note != s.Note {
			a.find(Checkpointed, ref{}, told.Number, "%s: checkpoint %d is not the one that is stored", s.Name, told.Number)
		}
		a.claims = append(a.claims, claim{Checkpoint: told, saved: s.Name})
		a.signed = max(a.signed, told.Size)
	}
	slices.SortStableFunc(a.claims, func(x, y claim) int { return cmp.Compare(x.Size, y.Size) })
	a.tree, _ = checkpoint.NewTree(0, nil) // an empty one is never refused
	a.kept, _ = checkpoint.NewTree(0, nil)
}

// settle compares the first size events with every claim about them.
func (a *auditor) settle(size int64) error {
	for ; len(a.claims) > 0 && a.claims[0].Size <= size; a.claims = a.claims[1:] {
		c := a.claims[0]
		if c.Size < size { // of an empty log
			continue
		}
		root, err := a.tree.Root()
		if err != nil {
			return err
		}
		fits := bytes.Equal(root, c.Root)
		if c.saved != "" {
			c.after = a.vouched
		}
		if !fits {
			a.mismatched = append(a.mismatched, c)
		}
		if c.saved != "" {
			if fits {
				a.vouched = c.Size
			}
			continue
		}
		if err := a.settleKept(c, fits); err != nil {
			return err
		}
		if err := a.settleHeads(c); err != nil {
			return err
		}
	}
	return nil
}

// settleKept finds out whether the kept leaves are what was signed. Those that are not prove nothing. After something that does not
// fit, both trees start from the claim again, so that later claims are judged by what came later.
func (a *auditor) settleKept(c claim, fits bool) error {
	root, err := a.kept.Root()
	if err != nil {
		return err
	}
	sound := bytes.Equal(root, c.Root)
	if !sound {
		a.find(Checkpointed, ref{}, c.Number, "the leaves kept with %s are not those that it signed", c.what())
		within := func(sequence int64) bool { return sequence > c.after && sequence <= c.Size }
		for leaf, at := range a.pendingKept {
			if within(at) {
				delete(a.pendingKept, leaf)
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
		a.find(Checkpointed, ref{}, c.Number, "the frontier kept with %s is not that of the tree that it signed", c.what())
		return nil
	}
	if !fits {
		a.tree = again
	}
	if !sound {
		a.kept, err = checkpoint.NewTree(c.Size, c.frontier)
	}
	return err
}

// settleHeads compares the chains with the heads that were signed.
func (a *auditor) settleHeads(c claim) error {
	heads, err := a.source.Heads(c.Number)
	if err != nil {
		return err
	}
	if checkpoint.HeadsHash(heads) != c.Heads {
		a.find(Checkpointed, ref{}, c.Number, "the heads kept with %s are not those that it signed", c.what())
	} else {
		for _, h := range heads {
			own := a.chains[h.Slug]
			if own == nil {
				own = new(chain)
			}
			if own.events != h.Events || own.hash != h.Hash || own.first != h.Chain {
				a.strayed = append(a.strayed, stray{h, c, own.since, own.events})
			}
		}
	}
	for _, own := range a.grown {
		own.since = ref{}
	}
	a.grown = a.grown[:0]
	return nil
}
