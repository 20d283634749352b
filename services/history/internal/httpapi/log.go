package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/checkpoint"
)

const (
	cacheForever = "public, max-age=31536000, immutable" // of tiles
	cacheALittle = "public, max-age=5"                   // of the checkpoint of the log, and of proofs, which a withdrawal ends
	plainText    = "text/plain; charset=utf-8"
)

var (
	noLogCheckpoint = problem.New(problem.NotFound, "The log has no published checkpoint of this size. The newest is at "+checkpoint.LogPath+"/checkpoint.")
	noTile          = problem.New(problem.NotFound, "The log has no such tile. Read the checkpoint of the log first; its size says which tiles there are.")
	noEvent         = problem.New(problem.NotFound, "There is no event with this id in the history of a public record.")
	notCovered      = problem.New(problem.NotFound, "No checkpoint of the log covers this event yet. Try again in a minute.")
)

// logCheckpoint serves the published checkpoint of the log (C2SP tlog-tiles).
func (a API) logCheckpoint(g *gin.Context) (web.Reply, error) {
	c, err := a.published(g.Request.Context(), 0)
	return plain(c.Text(), plainText, cacheALittle), err
}

// published returns the newest published checkpoint, or that of a size other than 0.
func (a API) published(ctx context.Context, size int64) (c checkpoint.LogCheckpoint, err error) {
	err = a.queries.run(ctx, func(ctx context.Context) error {
		origin, err := a.Log.Origin(ctx)
		if err == nil {
			c, err = a.Log.Published(ctx, origin, size)
		}
		return err
	})
	if err == nil && c.Size == 0 {
		err = noLogCheckpoint
	}
	return c, err
}

func plain(body, contentType, caching string) web.Reply {
	return web.Reply{Body: []byte(body), Type: contentType, Header: http.Header{"Cache-Control": {caching}}}
}

// logTile serves the hashes of a tile (C2SP tlog-tiles). It has no entries, because some records are not public.
func (a API) logTile(g *gin.Context) (web.Reply, error) {
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d%s", checkpoint.TileHeight, g.Param("path")))
	if err != nil || t.L < 0 || t.L > 7 { // a log with tiles at level 8 has more than 2^64 events
		return web.Reply{}, noTile
	}
	c, err := a.published(g.Request.Context(), 0)
	if err != nil {
		return web.Reply{}, err
	}
	if t.N >= 1<<32 || t.N<<checkpoint.TileHeight+int64(t.W) > c.Size>>(checkpoint.TileHeight*t.L) {
		return web.Reply{}, noTile
	}
	var data [][]byte
	err = a.queries.run(g.Request.Context(), func(ctx context.Context) (err error) {
		data, err = a.Store.Tiles(ctx, []tlog.Tile{t})
		return err
	})
	if err != nil {
		return web.Reply{}, err
	}
	return plain(string(data[0]), "application/octet-stream", cacheForever), nil
}

// logProof serves the proof that a checkpoint of the log covers an event of a public record: the published one, or the one of the parameter
// size.
func (a API) logProof(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "size")
	if err != nil {
		return web.Reply{}, err
	}
	size := int64(0)
	if text, given := values["size"]; given {
		if size, err = strconv.ParseInt(text, 10, 64); err != nil || size < 1 || strconv.FormatInt(size, 10) != text {
			return web.Reply{}, params.Invalid("size", "must be the size of a checkpoint of the log, such as 1284")
		}
	}
	c, err := a.published(g.Request.Context(), size)
	if err != nil {
		return web.Reply{}, err
	}
	var proof string
	err = a.queries.run(g.Request.Context(), func(ctx context.Context) error {
		r, found, err := a.Store.PublicRecord(ctx, g.Param("id"))
		if err == nil && !found {
			err = noEvent
		}
		if err == nil {
			proof, err = a.Log.Prove(ctx, c, r)
		}
		if errors.Is(err, checkpoint.ErrNotCovered) {
			return notCovered
		}
		return err
	})
	return plain(proof, plainText, cacheALittle), err
}
