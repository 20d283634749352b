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
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/services/history/internal/event"
)

// Path is the URL path of the public document about the log.
const Path = "/.well-known/opportunity-history"

// LogPath is the URL path of the log, a prefix of its checkpoint and of its proofs. Tiles, which
// never change, have the generation after it.
const LogPath = Path + "/log"

// Checkpoint is a checkpoint of the log. Only checkpoints of the same origin extend each other.
type Checkpoint struct {
	torchwood.Checkpoint

	MadeAt time.Time
	Note   string // signed by the log

	Cosignatures []note.Signature // of witnesses
}

// Store holds events, the tree over them, and the checkpoints of the log.
type Store interface {
	// Records returns up to limit events with a sequence above after, ordered by sequence.
	Records(ctx context.Context, after int64, limit int) ([]event.Record, error)
	// Generation names the generation of the history, which begins when an operator decides about a
	// loss, and returns the greatest sequence of its events that the catalog has seen. The name is
	// empty for the first.
	Generation(ctx context.Context) (name string, covered int64, err error)
	// NewestCheckpoint returns the newest checkpoint of an origin, or of all if it is empty. It has
	// size 0 if there is none.
	NewestCheckpoint(ctx context.Context, origin string) (Checkpoint, error)
	// PublishedCheckpoint returns the newest checkpoint of an origin that was made before unseen or
	// has a number of cosignatures of the witnesses. It has size 0 if there is none. A size other
	// than 0 selects the checkpoint of that size.
	PublishedCheckpoint(
		ctx context.Context, origin string, size int64, witnesses []string, threshold int, unseen time.Time,
	) (Checkpoint, error)
	// SaveCheckpoint saves a checkpoint with the tiles that grew. It saves nothing and returns
	// false if the origin has one of the size.
	SaveCheckpoint(ctx context.Context, c Checkpoint, tiles []tlog.Tile, data [][]byte) (saved bool, err error)
	// Cosigned returns the names of the witnesses that have cosigned a checkpoint.
	Cosigned(ctx context.Context, c Checkpoint) ([]string, error)
	// LastCosigned returns the size of the newest checkpoint of an origin that a witness has
	// cosigned, 0 if there is none.
	LastCosigned(ctx context.Context, origin, witness string) (size int64, err error)
	// Tiles returns the hashes of tiles. It returns ErrNoTile if one is missing or shorter.
	Tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error)
	// SaveCosignature saves the first cosignature of a witness of a checkpoint, in base64.
	SaveCosignature(ctx context.Context, c Checkpoint, witness, signature string, now time.Time) error
}

// Log signs, publishes and proves.
type Log struct {
	Store     Store
	Keys      Keys
	Name      string // origin of the first generation
	Witnesses []Witness
	Threshold int // cosignatures of a checkpoint before it is published
	Now       func() time.Time
	Log       *slog.Logger

	// Lost reports that a witness has seen a checkpoint that the store lacks, signed by the log.
	Lost func(ctx context.Context) error
}

// Origin returns the origin of the current generation, and the part of the path that its tiles
// have. A generation has an origin of its own, because its log does not extend that of the one
// before: witnesses would reject it for ever.
func (l Log) Origin(ctx context.Context) (origin, part string, err error) {
	origin, part, _, err = l.generation(ctx)
	return origin, part, err
}

func (l Log) generation(ctx context.Context) (origin, part string, covered int64, err error) {
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
	origin, _, covered, err := l.generation(ctx)
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
	g := grown{old: l.hashes(ctx, last), fresh: map[int64]tlog.Hash{}, size: last.N}
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
	c := Checkpoint{Checkpoint: torchwood.Checkpoint{Origin: origin}, MadeAt: l.Now().UTC().Truncate(time.Microsecond)}
	c.N = g.size
	if c.Hash, err = tlog.TreeHash(c.N, g); err != nil {
		return 0, err
	}
	if c.Note, err = l.Keys.Sign(c.Checkpoint); err != nil {
		return 0, err
	}
	tiles := tlog.NewTiles(torchwood.TileHeight, last.N, c.N)
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		if data[i], err = tlog.ReadTileData(t, g); err != nil {
			return 0, err
		}
	}
	saved, err := l.Store.SaveCheckpoint(ctx, c, tiles, data)
	if err != nil || !saved {
		return 0, err
	}
	return c.N, nil
}

// newest returns the newest checkpoint of an origin, or of all if it is empty. It returns an error
// if its signature is not valid.
func (l Log) newest(ctx context.Context, origin string) (Checkpoint, error) {
	c, err := l.Store.NewestCheckpoint(ctx, origin)
	if err != nil || c.N == 0 {
		return c, err
	}
	return l.Keys.Verified(c)
}

func (l Log) hashes(ctx context.Context, c Checkpoint) tlog.HashReader {
	return torchwood.TileHashReaderWithContext(ctx, c.Tree, TileReader(l.Store.Tiles))
}

// TileReader is a torchwood.TileReader of stored tiles, from a function that returns their hashes.
type TileReader func(ctx context.Context, tiles []tlog.Tile) ([][]byte, error)

// ReadTiles implements torchwood.TileReader.
func (read TileReader) ReadTiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	return read(ctx, tiles)
}

// SaveTiles implements torchwood.TileReader.
func (TileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadEndpoint implements torchwood.TileReader.
func (TileReader) ReadEndpoint(context.Context, string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// grown is a tree with leaves that are not stored yet. It is a tlog.HashReader.
type grown struct {
	old   tlog.HashReader
	fresh map[int64]tlog.Hash // by stored hash index
	size  int64
}

func (g *grown) add(leaf []byte) error {
	hashes, err := tlog.StoredHashes(g.size, leaf, g)
	if err != nil {
		return err
	}
	for i, h := range hashes {
		g.fresh[tlog.StoredHashIndex(0, g.size)+int64(i)] = h
	}
	g.size++
	return nil
}

// ReadHashes implements tlog.HashReader.
func (g grown) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	var stored, places []int64
	for i, index := range indexes {
		var ok bool
		if out[i], ok = g.fresh[index]; !ok {
			stored, places = append(stored, index), append(places, int64(i))
		}
	}
	if len(stored) == 0 {
		return out, nil
	}
	old, err := g.old.ReadHashes(stored)
	for i, h := range old {
		out[places[i]] = h
	}
	return out, err
}

// witnessWait is the time after which a checkpoint is published with fewer cosignatures than the
// threshold, so that a witness that is down or rejects everything delays nothing for longer.
const witnessWait = 30 * time.Second

// ErrNoTile is the error of a store for a tile that the tree does not have.
var ErrNoTile = errors.New("no such tile")

// ErrNotCovered is the error of a proof for an event that the published checkpoint does not cover.
var ErrNotCovered = errors.New("no published checkpoint covers the event")

// Published returns the published checkpoint of an origin, or that of a size other than 0 if it has
// been published. Its size is 0 if there is none.
func (l Log) Published(ctx context.Context, origin string, size int64) (Checkpoint, error) {
	names := make([]string, len(l.Witnesses))
	for i, w := range l.Witnesses {
		names[i] = w.Name()
	}
	c, err := l.Store.PublishedCheckpoint(ctx, origin, size, names, l.Threshold, l.Now().Add(-witnessWait))
	if err != nil || c.N == 0 {
		return c, err
	}
	return l.Keys.Verified(c)
}

// Text returns the checkpoint with its cosignatures.
func (c Checkpoint) Text() string {
	text := c.Note
	for _, s := range c.Cosignatures {
		text += "— " + s.Name + " " + s.Base64 + "\n"
	}
	return text
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
	return torchwood.FormatProofWithExtraData(r.Sequence-1, leaf, path, []byte(c.Text())), nil
}

// Has reports whether the log has exactly the events that a checkpoint of it covers.
func (l Log) Has(ctx context.Context, signed string) (bool, error) {
	c, err := l.Keys.Open(signed)
	if err != nil {
		return false, err
	}
	newest, err := l.newest(ctx, c.Origin)
	if err != nil || c.N > newest.N {
		return false, err
	}
	root, err := tlog.TreeHash(c.N, l.hashes(ctx, newest))
	return root == c.Hash, err
}
