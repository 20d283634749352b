// Package checkpoint proves the history with a transparency log: a Merkle tree over all events, in
// the order of recording (RFC 6962). Soon after each event, Log signs a checkpoint, which states
// the number of events and the root hash over them, and has witnesses cosign it. All formats are
// those of C2SP: signed-note, tlog-checkpoint, tlog-cosignature, tlog-tiles, tlog-proof and
// tlog-witness.
package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/store"
)

// Path is the URL path of the public document about the log.
const Path = "/.well-known/opportunity-history"

// LogPath is the URL path of the log, a prefix of its checkpoint and of its proofs. Tiles, which
// never change, have the generation after it.
const LogPath = Path + "/log"

// Checkpoint is a verified checkpoint of the log. Only checkpoints of the same origin extend each
// other.
type Checkpoint struct {
	torchwood.Checkpoint

	Note string // the signed text, with the cosignatures of witnesses if it is published
}

// Log signs, publishes and proves.
type Log struct {
	Store     *store.Store
	Keys      Keys
	Name      string // origin of the first generation
	Witnesses []Witness
	Threshold int // cosignatures of a checkpoint before it is published
	Now       func() time.Time
	Log       *slog.Logger

	// Lost reports that a witness has seen a checkpoint that the store lacks, signed by the log.
	Lost func(ctx context.Context) error
}

// Origin returns the origin of the current generation, the part of the path that its tiles have,
// and the greatest sequence of its events that the catalog has seen. A generation has an origin of
// its own, because its log does not extend that of the one before: witnesses would reject it for
// ever.
func (l Log) Origin(ctx context.Context) (origin, part string, covered int64, err error) {
	name, covered, err := l.Store.Generation(ctx)
	if err != nil || name == "" {
		return l.Name, "", covered, err
	}
	return l.Name + "/" + name, "/generations/" + name, covered, nil
}

// maxGrowth is the number of events by which one checkpoint grows, which bounds the memory of the
// first one.
const maxGrowth = 5000

// Sign signs checkpoints until all events that the catalog has seen are covered: after a restore,
// the catalog shows that a signed event is missing. It signs nothing if the newest one covers them.
// If several replicas call it, one of them signs.
func (l Log) Sign(ctx context.Context) error {
	for {
		size, err := l.signNext(ctx)
		if err != nil || size == 0 {
			return err
		}
		l.Log.InfoContext(ctx, "log checkpoint signed", "events", size)
	}
}

// signNext signs the next checkpoint, and returns its size, or 0 if there is none to sign.
func (l Log) signNext(ctx context.Context) (size int64, err error) {
	origin, _, covered, err := l.Origin(ctx)
	if err != nil {
		return 0, err
	}
	last, err := l.newest(ctx, "")
	if err != nil || covered < last.N || covered == last.N && (last.N == 0 || last.Origin == origin) {
		return 0, err
	}
	records, err := l.Store.Records(ctx, last.N, int(min(maxGrowth, covered-last.N)))
	if err != nil || len(records) == 0 && (last.N == 0 || last.Origin == origin) {
		return 0, err
	}
	g := grown{old: l.hashes(ctx, last), known: map[int64]tlog.Hash{}, size: last.N}
	for i := range records {
		r := &records[i]
		leaf := r.Leaf()
		if r.Sequence != g.size+1 || leaf == nil {
			return 0, fmt.Errorf("event %s of %s, sequence %d, does not continue the log: run verify", r.ID, r.Slug,
				r.Sequence)
		}
		if err := g.add(leaf); err != nil {
			return 0, err
		}
	}
	root, err := tlog.TreeHash(g.size, g)
	if err != nil {
		return 0, err
	}
	signed, err := l.Keys.Sign(torchwood.Checkpoint{Origin: origin, Tree: tlog.Tree{N: g.size, Hash: root}})
	if err != nil {
		return 0, err
	}
	tiles := tlog.NewTiles(torchwood.TileHeight, last.N, g.size)
	hashes := make([][]byte, len(tiles))
	for i, t := range tiles {
		if hashes[i], err = tlog.ReadTileData(t, g); err != nil {
			return 0, err
		}
	}
	c := store.Checkpoint{Origin: origin, Size: g.size, MadeAt: l.Now().UnixMicro(), Note: signed}
	saved, err := l.Store.SaveCheckpoint(ctx, c, tiles, hashes)
	if err != nil || !saved {
		return 0, err
	}
	return g.size, nil
}

// newest returns the newest checkpoint of an origin, or of all if it is empty. It returns an error
// if its signature is not valid.
func (l Log) newest(ctx context.Context, origin string) (Checkpoint, error) {
	c, err := l.Store.NewestCheckpoint(ctx, origin, math.MaxInt64)
	if err != nil || c.Size == 0 {
		return Checkpoint{}, err
	}
	return l.Keys.Verified(c)
}

func (l Log) hashes(ctx context.Context, c Checkpoint) tlog.HashReader {
	return torchwood.TileHashReaderWithContext(ctx, c.Tree, l.Store)
}

// grown is a tree with leaves that are not stored yet. It is a tlog.HashReader.
type grown struct {
	old   tlog.HashReader
	known map[int64]tlog.Hash // new ones and those that were read, by stored hash index
	size  int64
}

func (g *grown) add(leaf []byte) error {
	hashes, err := tlog.StoredHashes(g.size, leaf, g)
	if err != nil {
		return err
	}
	for i, h := range hashes {
		g.known[tlog.StoredHashIndex(0, g.size)+int64(i)] = h
	}
	g.size++
	return nil
}

// ReadHashes implements tlog.HashReader.
func (g grown) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	unread := slices.DeleteFunc(slices.Clone(indexes), func(index int64) bool { _, ok := g.known[index]; return ok })
	if len(unread) > 0 {
		old, err := g.old.ReadHashes(unread)
		if err != nil {
			return nil, err
		}
		for i, h := range old {
			g.known[unread[i]] = h
		}
	}
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		out[i] = g.known[index]
	}
	return out, nil
}

// witnessWait is the time after which a checkpoint is published with fewer cosignatures than the
// threshold, so that a witness that is down or rejects everything delays nothing for longer.
const witnessWait = 30 * time.Second

// ErrNotCovered is the error of a proof for an event that the published checkpoint does not cover.
var ErrNotCovered = errors.New("no published checkpoint covers the event")

// Published returns the published checkpoint of an origin, or that of a size other than 0 if it has
// been published. Its size is 0 if there is none.
func (l Log) Published(ctx context.Context, origin string, size int64) (Checkpoint, error) {
	names := make([]string, len(l.Witnesses))
	for i, w := range l.Witnesses {
		names[i] = w.Name()
	}
	stored, err := l.Store.PublishedCheckpoint(ctx, origin, size, names, l.Threshold, l.Now().Add(-witnessWait))
	if err != nil || stored.Size == 0 {
		return Checkpoint{}, err
	}
	c, err := l.Keys.Verified(stored)
	if err != nil {
		return c, err
	}
	cosignatures, err := l.Store.Cosignatures(ctx, origin, stored.Size)
	for _, s := range cosignatures {
		c.Note += "— " + s.Witness + " " + s.Signature + "\n"
	}
	return c, err
}

// Prove returns the proof that a checkpoint covers an event, with the leaf of the event (C2SP
// tlog-proof). It returns ErrNotCovered if the checkpoint is older than the event.
func (l Log) Prove(ctx context.Context, c Checkpoint, r event.Record) ([]byte, error) {
	if r.Sequence > c.N {
		return nil, ErrNotCovered
	}
	leaf := r.Leaf()
	path, err := tlog.ProveRecord(c.N, r.Sequence-1, l.hashes(ctx, c))
	if err == nil {
		err = tlog.CheckRecord(path, c.N, c.Hash, r.Sequence-1, tlog.RecordHash(leaf))
	}
	if err != nil {
		return nil, fmt.Errorf("event %s differs from its leaf: run verify: %w", cmp.Or(r.ID, "without id"), err)
	}
	return torchwood.FormatProofWithExtraData(r.Sequence-1, leaf, path, []byte(c.Note)), nil
}
