package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/checkpoint"
)

const (
	cacheBriefly = "public, max-age=300"                 // of the document about the log
	cacheForever = "public, max-age=31536000, immutable" // of tiles
	// of the checkpoint of the log, and of proofs, which a withdrawal ends
	cacheALittle = "public, max-age=5"
	plainText    = "text/plain; charset=utf-8"
)

var (
	noLog           = problem.New(problem.NotFound, "This installation keeps no log of its history.")
	noLogCheckpoint = problem.New(problem.NotFound,
		"The log has no published checkpoint of this size. The newest is at "+checkpoint.LogPath+"/checkpoint.")
	noTile = problem.New(problem.NotFound,
		"The log has no such tile. Read the checkpoint of the log first; its size says which tiles there are.")
	noEvent    = problem.New(problem.NotFound, "There is no event with this id in the history of a public record.")
	notCovered = problem.New(problem.NotFound,
		"No checkpoint of the log covers this event yet. Try again in a minute.")
)

// logDocument is the document about the log. It changes only with the settings and the generation.
type logDocument struct {
	Origin     string   `json:"origin"`     // of the current generation
	PublicKeys []string `json:"publicKeys"` // of that origin, newest first
	Witnesses  []string `json:"witnesses"`  // their keys
	Checkpoint string   `json:"checkpoint"` // URL
}

func (a API) logInfo(c call) (any, error) {
	var d logDocument
	var part string
	err := a.Query(c.ctx, func(ctx context.Context) (err error) {
		d.Origin, part, _, err = a.Log.Origin(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if d.PublicKeys = a.Log.Keys.Public(d.Origin); len(d.PublicKeys) == 0 {
		return nil, noLog
	}
	d.Witnesses = []string{}
	for _, w := range a.Log.Witnesses {
		d.Witnesses = append(d.Witnesses, w.String())
	}
	d.Checkpoint = a.PublicURL + checkpoint.LogPath + part + "/checkpoint"
	return web.Reply{JSON: d, Header: http.Header{"Cache-Control": {cacheBriefly}}}, nil
}

func (a API) logCheckpoint(c call) (any, error) {
	newest, part, err := a.published(c.ctx, 0)
	if err == nil && c.Param("generation") != "" && partOf(c) != part {
		err = noLogCheckpoint
	}
	return plain([]byte(newest.Note), plainText, cacheALittle), err
}

func partOf(c call) string {
	if generation := c.Param("generation"); generation != "" {
		return "/generations/" + generation
	}
	return ""
}

func (a API) published(ctx context.Context, size int64) (c checkpoint.Checkpoint, part string, err error) {
	err = a.Query(ctx, func(ctx context.Context) (err error) {
		var origin string
		if origin, part, _, err = a.Log.Origin(ctx); err == nil {
			c, err = a.Log.Published(ctx, origin, size)
		}
		return err
	})
	if err == nil && c.N == 0 {
		err = noLogCheckpoint
	}
	return c, part, err
}

func plain(body []byte, contentType, caching string) web.Reply {
	return web.Reply{Body: body, Type: contentType, Header: http.Header{"Cache-Control": {caching}}}
}

// logTile serves the hashes of a tile of the current generation (C2SP tlog-tiles). It has no
// entries, because some records are not public.
func (a API) logTile(c call) (any, error) {
	t, err := torchwood.ParseTilePath("tile" + c.Param("path"))
	if err != nil || t.L < 0 || t.L > 7 { // a log with tiles at level 8 has more than 2^64 events
		return nil, noTile
	}
	newest, part, err := a.published(c.ctx, 0)
	if err != nil {
		return nil, err
	}
	if partOf(c) != part || t.N >= 1<<32 || t.N<<torchwood.TileHeight+int64(t.W) > newest.N>>(torchwood.TileHeight*t.L) {
		return nil, noTile
	}
	var data [][]byte
	err = a.Query(c.ctx, func(ctx context.Context) (err error) {
		data, err = a.Store.ReadTiles(ctx, []tlog.Tile{t})
		return err
	})
	if err != nil {
		return nil, err
	}
	return plain(data[0], "application/octet-stream", cacheForever), nil
}

// logProof serves an event of a public record with the proof that a checkpoint of the log covers
// it: the published one, or the one of the parameter size. It needs no key: only readers of an
// event know its id, which cannot be guessed.
func (a API) logProof(c call) (any, error) {
	size, err := c.params.Integer("size", 1, math.MaxInt, 0)
	if err != nil {
		return nil, problem.Invalid("size", "must be the size of a checkpoint of the log, such as 1284")
	}
	published, _, err := a.published(c.ctx, int64(size))
	if err != nil {
		return nil, err
	}
	var proof []byte
	err = a.Query(c.ctx, func(ctx context.Context) error {
		r, found, err := a.Store.PublicRecord(ctx, c.id)
		if err == nil && !found {
			err = noEvent
		}
		if err == nil {
			proof, err = a.Log.Prove(ctx, published, r)
		}
		if errors.Is(err, checkpoint.ErrNotCovered) {
			return notCovered
		}
		return err
	})
	return plain(proof, plainText, cacheALittle), err
}
