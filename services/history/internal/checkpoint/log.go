package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	formats "github.com/transparency-dev/formats/log"

	"opportunity.internal/services/history/internal/event"
)

// LogPath is the URL path of the log, a prefix of its checkpoint, its tiles and its proofs.
const LogPath = Path + "/log"

// TileHeight is the height of the tiles of the log: a full tile has 256 hashes.
const TileHeight = 8

// LogCheckpoint is a checkpoint of the log: how many events there are and the root hash over them (C2SP tlog-checkpoint without extension
// lines). Only checkpoints of the same origin extend each other.
type LogCheckpoint struct {
	Origin string
	Size   int64
	Root   tlog.Hash
	MadeAt time.Time
	Note   string // signed by the log

	Cosignatures []note.Signature // of witnesses
}

// Reply is the reply of a witness to a checkpoint: a cosignature, or why it rejected to cosign.
type Reply struct {
	Witness   string // its name
	Signature string // base64, empty if it rejected
	Rejection string
}

// LogStore holds events, the tree over them, and the checkpoints of the log.
type LogStore interface {
	// Records returns up to limit events with a sequence above after, ordered by sequence.
	Records(ctx context.Context, after int64, limit int) ([]event.Record, error)
	// Generation returns the generation of the history, counted from 1, and its id, which is empty for the first one.
	Generation(ctx context.Context) (generation int64, id string, err error)
	// Covered returns the greatest sequence of an event of this generation that the catalog has seen.
	Covered(ctx context.Context) (int64, error)
	// NewestLogCheckpoint returns the newest checkpoint of an origin, or of all if it is empty. It has size 0 if there is none.
	NewestLogCheckpoint(ctx context.Context, origin string) (LogCheckpoint, error)
	// PublishedLogCheckpoint returns the newest checkpoint of an origin that none of the witnesses has rejected, and that was made before
	// unseen or has a number of cosignatures. It has size 0 if there is none. A size other than 0 selects the checkpoint of that size.
	PublishedLogCheckpoint(ctx context.Context, origin string, size int64, witnesses []string, threshold int, unseen time.Time) (LogCheckpoint, error)
	// SaveLogCheckpoint saves a checkpoint with the tiles that grew. It saves nothing and returns false if the origin has one of the size.
	SaveLogCheckpoint(ctx context.Context, c LogCheckpoint, tiles []tlog.Tile, data [][]byte) (saved bool, err error)
	// Tiles returns the hashes of tiles.
	Tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error)
	// Replies returns the replies of witnesses to a checkpoint.
	Replies(ctx context.Context, origin string, size int64) ([]Reply, error)
	// LastCosigned returns the size of the newest checkpoint of an origin that a witness has cosigned, 0 if there is none.
	LastCosigned(ctx context.Context, origin, witness string) (size int64, err error)
	// SaveReply saves the first reply of a witness to a checkpoint.
	SaveReply(ctx context.Context, c LogCheckpoint, r Reply, now time.Time) error
}

// Log is the transparency log of the history: a Merkle tree over all events. It signs a checkpoint soon after each event, and has witnesses
// cosign it.
type Log struct {
	Store     LogStore
	Keys      Keys
	Name      string // origin of the first generation
	Witnesses []Witness
	Threshold int // cosignatures of a checkpoint before it is published
	Now       func() time.Time
	Log       *slog.Logger
}

// Origin returns the origin of the current generation. A generation has an origin of its own, because its log does not extend that of the one
// before: witnesses would reject it for ever.
func (l Log) Origin(ctx context.Context) (string, error) {
	generation, id, err := l.Store.Generation(ctx)
	if err != nil || generation == 1 {
		return l.Name, err
	}
	return fmt.Sprintf("%s/%d-%s", l.Name, generation, id), nil
}

// maxGrowth is the number of events by which one checkpoint grows, which bounds the memory of the first one.
const maxGrowth = 5000

// Sign signs checkpoints until all events that the catalog has seen are covered: after a restore, the catalog shows that a signed event is missing.
// It signs nothing if the newest one covers them. If several replicas call it, one of them signs.
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
	origin, err := l.Origin(ctx)
	if err != nil {
		return 0, err
	}
	last, err := l.newest(ctx, "")
	if err != nil {
		return 0, err
	}
	covered, err := l.Store.Covered(ctx)
	if err != nil || covered < last.Size {
		return 0, err
	}
	records, err := l.Store.Records(ctx, last.Size, int(min(maxGrowth, covered-last.Size)))
	if err != nil || len(records) == 0 && (last.Size == 0 || last.Origin == origin) {
		return 0, err
	}
	g := grown{old: l.hashes(ctx, last), fresh: map[int64]tlog.Hash{}, size: last.Size}
	for i := range records {
		r := &records[i]
		leaf, intact := r.IntactLeaf()
		if r.Sequence != g.size+1 || !intact {
			return 0, fmt.Errorf("event %s of %s, sequence %d, does not continue the log: run verify", r.ID, r.Slug, r.Sequence)
		}
		if err := g.add(leaf); err != nil {
			return 0, err
		}
	}
	c := LogCheckpoint{Origin: origin, Size: g.size, MadeAt: l.Now().UTC().Truncate(time.Microsecond)}
	if c.Root, err = tlog.TreeHash(c.Size, g); err != nil {
		return 0, err
	}
	if c.Note, err = l.Keys.SignLog(c); err != nil {
		return 0, err
	}
	tiles := tlog.NewTiles(TileHeight, last.Size, c.Size)
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		if data[i], err = tlog.ReadTileData(t, g); err != nil {
			return 0, err
		}
	}
	saved, err := l.Store.SaveLogCheckpoint(ctx, c, tiles, data)
	if err != nil || !saved {
		return 0, err
	}
	return c.Size, nil
}

// newest returns the newest checkpoint of an origin, or of all if it is empty. It returns an error if its signature is not valid.
func (l Log) newest(ctx context.Context, origin string) (LogCheckpoint, error) {
	c, err := l.Store.NewestLogCheckpoint(ctx, origin)
	if err != nil || c.Size == 0 {
		return c, err
	}
	return l.Keys.Verified(c)
}

// hashes returns the hashes of the tree of a checkpoint, which it authenticates.
func (l Log) hashes(ctx context.Context, c LogCheckpoint) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, TileReader{Store: l.Store, ctx: ctx})
}

// TileReader is a tlog.TileReader of stored tiles.
type TileReader struct {
	Store interface {
		Tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error)
	}

	ctx context.Context //nolint:containedctx // the interface passes none
}

// Height implements tlog.TileReader.
func (TileReader) Height() int { return TileHeight }

// ReadTiles implements tlog.TileReader.
func (r TileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	return r.Store.Tiles(cmp.Or(r.ctx, context.Background()), tiles)
}

// SaveTiles implements tlog.TileReader.
func (TileReader) SaveTiles([]tlog.Tile, [][]byte) {}

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

// witnessWait is the time after which a checkpoint is published with fewer cosignatures than the threshold, so that a witness that is down
// delays nothing for longer.
const witnessWait = 30 * time.Second

// ErrNoTile is the error of a store for a tile that the tree does not have.
var ErrNoTile = errors.New("no such tile")

// ErrNotCovered is the error of a proof for an event that the published checkpoint does not cover.
var ErrNotCovered = errors.New("no published checkpoint covers the event")

// ErrForm is the error of a proof for an event that an earlier release recorded: its leaf has no public part that a reader could verify.
var ErrForm = errors.New("the event was recorded by a release whose events cannot be proved one by one")

// Published returns the published checkpoint of an origin, or that of a size other than 0 if it has been published. Its size is 0 if there is
// none.
func (l Log) Published(ctx context.Context, origin string, size int64) (LogCheckpoint, error) {
	names := make([]string, len(l.Witnesses))
	for i, w := range l.Witnesses {
		names[i] = w.Name()
	}
	c, err := l.Store.PublishedLogCheckpoint(ctx, origin, size, names, l.Threshold, l.Now().Add(-witnessWait))
	if err != nil || c.Size == 0 {
		return c, err
	}
	return l.Keys.Verified(c)
}

// Text returns the checkpoint with its cosignatures.
func (c LogCheckpoint) Text() string {
	text := c.Note
	for _, s := range c.Cosignatures {
		text += "— " + s.Name + " " + s.Base64 + "\n"
	}
	return text
}

// Prove returns the proof that a checkpoint covers an event, as text (C2SP tlog-proof). Its extra line has the opening of the event. It returns
// ErrNotCovered if the checkpoint is older than the event, and ErrForm for events of form 0.
func (l Log) Prove(ctx context.Context, c LogCheckpoint, r event.Record) (string, error) {
	switch {
	case r.Form == 0:
		return "", ErrForm
	case r.Sequence > c.Size:
		return "", ErrNotCovered
	}
	opening, err := r.Opening()
	if err != nil {
		return "", err
	}
	extra, err := json.Marshal(opening)
	if err != nil {
		return "", err
	}
	reader := l.hashes(ctx, c)
	proof, err := tlog.ProveRecord(c.Size, r.Sequence-1, reader)
	if err != nil {
		return "", err
	}
	if err := tlog.CheckRecord(proof, c.Size, c.Root, r.Sequence-1, tlog.RecordHash(r.Leaf())); err != nil {
		return "", fmt.Errorf("event %s differs from its leaf: run verify: %w", r.ID, err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "c2sp.org/tlog-proof@v1\nextra %s\nindex %d\n", base64.StdEncoding.EncodeToString(extra), r.Sequence-1)
	for _, h := range proof {
		fmt.Fprintf(&out, "%s\n", h)
	}
	fmt.Fprintf(&out, "\n%s", c.Text())
	return out.String(), nil
}

// logText returns the signed text of a checkpoint of the log.
func (c LogCheckpoint) logText() string {
	return string(formats.Checkpoint{Origin: c.Origin, Size: uint64(c.Size), Hash: c.Root[:]}.Marshal()) //nolint:gosec // sizes are counts
}

// parseLog parses the text of a checkpoint of the log.
func parseLog(text string) (c LogCheckpoint, err error) {
	var parsed formats.Checkpoint
	rest, err := parsed.Unmarshal([]byte(text))
	if err != nil || len(rest) > 0 || len(parsed.Hash) != HashSize || parsed.Size == 0 || parsed.Size > 1<<60 {
		return c, errText
	}
	c = LogCheckpoint{Origin: parsed.Origin, Size: int64(parsed.Size), Root: tlog.Hash(parsed.Hash)}
	if c.logText() != text {
		return c, errText
	}
	return c, nil
}
