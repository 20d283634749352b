// Package notary makes the checkpoints: once on every UTC day, and whenever it is asked to.
package notary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// Store is where events and checkpoints lie.
type Store interface {
	// LastCheckpoint is the newest one as it is stored, with number 0 where there is none; lastDay is the newest UTC day that has
	// its checkpoint.
	LastCheckpoint(ctx context.Context) (c checkpoint.Kept, lastDay string, err error)
	// LastHeads are the newest signed heads of the chains of slugs, as far as they have any.
	LastHeads(ctx context.Context, slugs []string) (map[string]checkpoint.Head, error)
	// Records are the next events after a sequence, at most limit of them.
	Records(ctx context.Context, after int64, limit int) ([]event.Record, error)
	// SaveCheckpoint reports false where another one has taken the number or the day meanwhile; then nothing is kept.
	SaveCheckpoint(ctx context.Context, day string, c checkpoint.Kept, heads []checkpoint.Head, leaves [][]byte) (saved bool, err error)
}

// Notary signs what the store holds.
type Notary struct {
	Store Store
	Keys  checkpoint.Keys
	Now   func() time.Time
	Log   *slog.Logger

	Failed func() // called when Run could not make the checkpoint of a day, each time that it tried
}

// look is how often the clock is looked at, and for the first event of all; patience how long a failure is left alone.
const (
	look     = time.Second
	patience = 10 * time.Second
)

// Run makes the checkpoint of each UTC day when it begins, or as soon as it can: of a day on which nothing ran there is none.
// Any number of replicas may run it, one of them makes the checkpoint. It ends with ctx.
func (n Notary) Run(ctx context.Context) error {
	if !n.Keys.Signs() {
		n.Log.WarnContext(ctx, "no checkpoints of the history are made: OPPORTUNITY_HISTORY_SIGNING_KEY is not set")
		<-ctx.Done()
		return ctx.Err()
	}
	for done := ""; ; {
		pause := look
		if day := n.Now().UTC().Format(time.DateOnly); day != done {
			c, made, err := n.Make(ctx, day)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				n.Failed()
				n.Log.ErrorContext(ctx, "the checkpoint of the day was not made", "day", day, "error", err.Error())
				pause = patience
			case !made && c.Size == 0: // there is no event yet
			default:
				done = day
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// attempts bounds how often Make begins anew because another checkpoint came first.
const attempts = 5

// Make signs all events that there are. day is the UTC day whose checkpoint it is to be, empty where none; made is false where
// the day has one, or where there is nothing to sign: no event was ever recorded. It refuses to sign events that do not
// continue what was signed before.
func (n Notary) Make(ctx context.Context, day string) (c checkpoint.Kept, made bool, err error) {
	for range attempts {
		last, lastDay, err := n.last(ctx)
		if err != nil || day != "" && lastDay >= day {
			return last, false, err
		}
		g, err := n.grow(ctx, last)
		if err != nil || g.tree.Size() == 0 {
			return last, false, err
		}
		if c, err = n.sign(last, g); err != nil {
			return c, false, err
		}
		saved, err := n.Store.SaveCheckpoint(ctx, day, c, g.heads, g.leaves)
		if err != nil {
			return c, false, err
		}
		if saved {
			n.Log.InfoContext(ctx, "checkpoint", "number", c.Number, "events", c.Size, "chains", c.Chains)
			return c, true, nil
		}
	}
	return c, false, errors.New("other checkpoints were made all the time")
}

// growth is what came since the last checkpoint.
type growth struct {
	tree        *checkpoint.Tree
	consistency [][]byte
	heads       []checkpoint.Head
	leaves      [][]byte
	newChains   int64
}

// batch is how many events are read at once.
const batch = 1000

func (n Notary) grow(ctx context.Context, last checkpoint.Kept) (g growth, err error) {
	if g.tree, err = continued(last); err != nil {
		return g, err
	}
	heads := map[string]checkpoint.Head{}
	for next := last.Size + 1; ; {
		records, err := n.Store.Records(ctx, next-1, batch)
		if err != nil {
			return g, err
		}
		if len(records) == 0 {
			break
		}
		if err := n.learn(ctx, heads, records); err != nil {
			return g, err
		}
		for i := range records {
			r := &records[i]
			h := heads[r.Slug]
			if r.Sequence != next || r.PrevHash != h.Hash || !r.Intact() {
				return g, fmt.Errorf("event %s of %s, sequence %d, does not continue the history: run verify", r.ID, r.Slug, r.Sequence)
			}
			if h.Events == 0 {
				h.Chain, h.Slug = r.Hash, r.Slug
				g.newChains++
			}
			h.Events, h.Hash = h.Events+1, r.Hash
			heads[r.Slug] = h
			g.leaves = append(g.leaves, checkpoint.LeafHash(r.Leaf()))
			next++
		}
	}
	for _, h := range heads {
		g.heads = append(g.heads, h)
	}
	g.consistency, err = g.tree.GrowWithProof(g.leaves)
	return g, err
}

// last is the newest checkpoint with what it says, believed only if it is signed.
func (n Notary) last(ctx context.Context) (last checkpoint.Kept, lastDay string, err error) {
	last, lastDay, err = n.Store.LastCheckpoint(ctx)
	if err != nil || last.Number == 0 {
		return last, lastDay, err
	}
	if last.Checkpoint, err = n.Keys.Open(last.Note); err != nil {
		return last, lastDay, fmt.Errorf("the last checkpoint: %w", err)
	}
	return last, lastDay, nil
}

// continued is the tree of a checkpoint, ready to grow.
func continued(last checkpoint.Kept) (*checkpoint.Tree, error) {
	tree, err := checkpoint.NewTree(last.Size, last.Frontier)
	if err != nil || last.Size == 0 {
		return tree, err
	}
	root, err := tree.Root()
	if err == nil && !bytes.Equal(root, last.Root) {
		err = errors.New("the frontier kept with the last checkpoint is not that of its tree")
	}
	return tree, err
}

// learn adds the signed heads of chains that are met for the first time.
func (n Notary) learn(ctx context.Context, heads map[string]checkpoint.Head, records []event.Record) error {
	var strangers []string
	for i := range records {
		slug := records[i].Slug
		if _, met := heads[slug]; !met {
			heads[slug] = checkpoint.Head{}
			strangers = append(strangers, slug)
		}
	}
	known, err := n.Store.LastHeads(ctx, strangers)
	for slug, h := range known {
		heads[slug] = h
	}
	return err
}

func (n Notary) sign(last checkpoint.Kept, g growth) (c checkpoint.Kept, err error) {
	now := n.Now().UTC().Truncate(time.Microsecond)
	if now.Before(last.Time) { // a clock that was set back
		now = last.Time
	}
	c = checkpoint.Kept{Consistency: g.consistency, Frontier: g.tree.Frontier()}
	c.Checkpoint = checkpoint.Checkpoint{
		Number: last.Number + 1, Time: now, Size: g.tree.Size(), Chains: last.Chains + g.newChains, Heads: checkpoint.HeadsHash(g.heads),
	}
	if last.Note != "" {
		c.Previous = checkpoint.ID(last.Note)
	}
	if c.Root, err = g.tree.Root(); err != nil {
		return c, err
	}
	c.Note, err = n.Keys.Sign(c.Checkpoint)
	return c, err
}
