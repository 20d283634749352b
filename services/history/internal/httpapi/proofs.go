package httpapi

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/checkpoint"
)

// Cache-Control headers. The newest checkpoint and that of the current day change soon. Older checkpoints are final; only the
// public keys in their documents may change.
const (
	cacheBriefly = "public, max-age=300"
	cacheForADay = "public, max-age=86400"
)

var noCheckpoint = problem.New(problem.NotFound, "There is no such checkpoint. Ask for a day as YYYY-MM-DD, or for a number.")

func (a API) latestCheckpoint(g *gin.Context) (web.Reply, error) {
	var c checkpoint.Stored
	var origin string
	err := a.queries.run(g.Request.Context(), func(ctx context.Context) (err error) {
		if c, _, err = a.Store.LastCheckpoint(ctx); err == nil {
			origin, err = a.Log.Origin(ctx)
		}
		return err
	})
	return a.publish(c, origin, c.Number != 0, cacheBriefly, err)
}

// checkpoint serves the checkpoint of a day or number. With HeadsSuffix in the name it serves the heads of the chains that grew,
// one in each line, exactly as the hash in the checkpoint covers them.
func (a API) checkpoint(g *gin.Context) (web.Reply, error) {
	name, heads := strings.CutSuffix(g.Param("name"), checkpoint.HeadsSuffix)
	var (
		c       checkpoint.Stored
		found   bool
		caching string
		origin  string
		lines   []checkpoint.Head
	)
	err := a.queries.run(g.Request.Context(), func(ctx context.Context) (err error) {
		if c, found, caching, err = a.checkpointNamed(ctx, name); err == nil && found && heads {
			lines, err = a.Store.Heads(ctx, c.Number)
		}
		if err == nil {
			origin, err = a.Log.Origin(ctx)
		}
		return err
	})
	if err != nil || !found || !heads {
		return a.publish(c, origin, found, caching, err)
	}
	return web.Reply{
		Header: http.Header{"Cache-Control": {caching}}, Type: "text/plain; charset=utf-8",
		Stream: func(out io.Writer) error { return checkpoint.WriteHeads(out, lines) },
	}, nil
}

var number = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

// checkpointNamed returns a checkpoint by its number or day, and the Cache-Control header for it.
func (a API) checkpointNamed(ctx context.Context, name string) (c checkpoint.Stored, found bool, caching string, err error) {
	if number.MatchString(name) {
		n, _ := strconv.ParseInt(name, 10, 64) // 18 digits fit
		c, found, err = a.Store.CheckpointNumber(ctx, n)
		return c, found, cacheForADay, err
	}
	day, err := time.Parse(time.DateOnly, name)
	if err != nil {
		return c, false, "", nil
	}
	caching = cacheForADay
	if a.Now().Before(day.Add(24 * time.Hour)) {
		caching = cacheBriefly
	}
	c, found, err = a.Store.CheckpointOf(ctx, day)
	return c, found, caching, err
}

func (a API) publish(c checkpoint.Stored, origin string, found bool, caching string, err error) (web.Reply, error) {
	if err != nil {
		return web.Reply{}, err
	}
	if !found {
		return web.Reply{}, noCheckpoint
	}
	if c.Checkpoint, err = a.Keys.Open(c.Note); err != nil {
		return web.Reply{}, err
	}
	return web.Reply{JSON: c.Publish(a.PublicURL, a.Keys, origin), Header: http.Header{"Cache-Control": {caching}}}, nil
}
