package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"opportunity.internal/services/history/internal/event"
)

// Store holds events and checkpoints.
type Store interface {
	// LastCheckpoint returns the newest checkpoint, with number 0 if there is none, and the newest UTC day with a daily
	// checkpoint.
	LastCheckpoint(ctx context.Context) (c Stored, lastDay string, err error)
	// LastHeads returns the newest signed heads of the chains of slugs, without those that have none.
	LastHeads(ctx context.Context, slugs []string) (map[string]Head, error)
	// Records returns up to limit events with a sequence above after, ordered by sequence.
	Records(ctx context.Context, after int64, limit int) ([]event.Record, error)
	// SaveCheckpoint saves c. If another checkpoint with its number or day exists, it saves nothing and returns false.
	SaveCheckpoint(ctx context.Context, c Stored, heads []Head, leaves [][]byte) (saved bool, err error)
	// Generation returns the generation of the history, counted from 1, and its id, which is empty for the first one.
	Generation(ctx context.Context) (generation int64, id string, err error)
	// Covered returns the greatest sequence of an event of this generation that the catalog has seen.
	Covered(ctx context.Context) (int64, error)
}

// Notary signs the events in a store.
type Notary struct {
	Store Store
	Keys  Keys
	Now   func() time.Time
	Log   *slog.Logger

	Failed func() // called after every failed attempt of SignDaily

	done string // the latest day that has a checkpoint
}

// SignDaily signs the checkpoint of the current UTC day unless it exists or there are no events. Call it every second: a checkpoint is then
// signed at the beginning of each day, or as soon as possible afterwards; a day without a running process gets none. If several replicas
// call it, one of them signs.
func (n *Notary) SignDaily(ctx context.Context) error {
	day := n.Now().UTC().Format(time.DateOnly)
	if day == n.done {
		return nil
	}
	c, made, err := n.Make(ctx, day)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, ErrNotSeen) {
			n.Failed()
		}
		return fmt.Errorf("checkpoint of %s: %w", day, err)
	}
	if made || c.Size > 0 {
		n.done = day
	}
	return nil
}

// ErrNotSeen is the error of Make while there are events that the catalog has not seen, which would show after a restore that they are missing.
var ErrNotSeen = errors.New("the catalog has not seen the newest event yet")

// maxAttempts bounds the retries of Make after conflicts with other checkpoints.
const maxAttempts = 5

// Make signs a checkpoint of all events. If day is not empty, it becomes the daily checkpoint of that UTC day. made is false if
// the day already has a checkpoint or if there are no events. Make returns an error if the events do not continue those of the
// last checkpoint.
func (n Notary) Make(ctx context.Context, day string) (c Stored, made bool, err error) {
	for range maxAttempts {
		last, lastDay, err := n.last(ctx)
		if err != nil || day != "" && lastDay >= day {
			return last, false, err
		}
		g, err := n.grow(ctx, last)
		if err != nil || g.tree.Size() == 0 {
			return last, false, err
		}
		if covered, err := n.Store.Covered(ctx); err != nil || int64(g.tree.Size()) > covered {
			return last, false, errors.Join(err, ErrNotSeen)
		}
		if c, err = n.sign(ctx, last, g); err != nil {
			return c, false, err
		}
		c.Day = day
		saved, err := n.Store.SaveCheckpoint(ctx, c, g.heads, g.leaves)
		if err != nil {
			return c, false, err
		}
		if saved {
			n.Log.InfoContext(ctx, "checkpoint signed", "number", c.Number, "events", c.Size, "chains", c.Chains)
			return c, true, nil
		}
	}
	return c, false, fmt.Errorf("saving checkpoint: conflict with another checkpoint on each of %d attempts", maxAttempts)
}

// growth is the change since the last checkpoint.
type growth struct {
	tree        *Tree
	consistency [][]byte
	heads       []Head
	leaves      [][]byte
	newChains   int64
}

const batchSize = 1000

// grow reads the events since last and checks that they continue its chains.
func (n Notary) grow(ctx context.Context, last Stored) (g growth, err error) {
	if g.tree, err = restoreTree(last); err != nil {
		return g, err
	}
	heads := map[string]Head{}
	for next := last.Size + 1; ; {
		records, err := n.Store.Records(ctx, next-1, batchSize)
		if err != nil {
			return g, err
		}
		if len(records) == 0 {
			break
		}
		if err := n.addHeads(ctx, heads, records); err != nil {
			return g, err
		}
		for i := range records {
			r := &records[i]
			h := heads[r.Slug]
			leaf, intact := r.IntactLeaf()
			if r.Sequence != next || r.PrevHash != h.Hash || !intact {
				return g, fmt.Errorf("event %s of %s, sequence %d, does not continue the history: run verify", r.ID, r.Slug, r.Sequence)
			}
			if h.Events == 0 {
				h.Chain, h.Slug = r.Hash, r.Slug
				g.newChains++
			}
			h.Events, h.Hash = h.Events+1, r.Hash
			heads[r.Slug] = h
			g.leaves = append(g.leaves, LeafHash(leaf))
			next++
		}
	}
	for _, h := range heads {
		g.heads = append(g.heads, h)
	}
	g.consistency, err = g.tree.GrowWithProof(g.leaves)
	return g, err
}

// last returns the newest checkpoint. It returns an error if its signature is not valid.
func (n Notary) last(ctx context.Context) (last Stored, lastDay string, err error) {
	last, lastDay, err = n.Store.LastCheckpoint(ctx)
	if err != nil || last.Number == 0 {
		return last, lastDay, err
	}
	if last.Checkpoint, err = n.Keys.Open(last.Note); err != nil {
		return last, lastDay, fmt.Errorf("opening last checkpoint: %w", err)
	}
	return last, lastDay, nil
}

// restoreTree returns the tree of a checkpoint.
func restoreTree(last Stored) (*Tree, error) {
	tree, err := NewTree(last.Size, last.Frontier)
	if err != nil || last.Size == 0 {
		return tree, err
	}
	root, err := tree.Root()
	if err == nil && !bytes.Equal(root, last.Root) {
		err = errors.New("frontier stored with the last checkpoint does not match its root")
	}
	return tree, err
}

// addHeads adds to heads the last signed heads of the chains in records that it lacks.
func (n Notary) addHeads(ctx context.Context, heads map[string]Head, records []event.Record) error {
	var missing []string
	for i := range records {
		slug := records[i].Slug
		if _, ok := heads[slug]; !ok {
			heads[slug] = Head{}
			missing = append(missing, slug)
		}
	}
	signed, err := n.Store.LastHeads(ctx, missing)
	for slug, h := range signed {
		heads[slug] = h
	}
	return err
}

// sign returns the signed checkpoint after last.
func (n Notary) sign(ctx context.Context, last Stored, g growth) (c Stored, err error) {
	generation, loss, err := n.Store.Generation(ctx)
	if err != nil {
		return c, err
	}
	now := n.Now().UTC().Truncate(time.Microsecond)
	if now.Before(last.Time) { // the clock was set back
		now = last.Time
	}
	c = Stored{Consistency: g.consistency, Frontier: g.tree.Frontier()}
	c.Checkpoint = Checkpoint{
		Number: last.Number + 1, Time: now, Size: g.tree.Size(), Chains: last.Chains + g.newChains,
		Heads: HeadsHash(g.heads), Generation: generation, Loss: loss,
	}
	c.Previous = last.ID()
	if c.Root, err = g.tree.Root(); err != nil {
		return c, err
	}
	c.Note, err = n.Keys.Sign(c.Checkpoint)
	return c, err
}
