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

// Proofs are the checkpoints as they are kept. An outage of the database is problem.Unavailable.
type Proofs interface {
	// LastCheckpoint has the number 0 where there is none.
	LastCheckpoint(ctx context.Context) (c checkpoint.Kept, lastDay string, err error)
	// CheckpointOf is the last one of a UTC day, by its first instant; ok is false where there is none.
	CheckpointOf(ctx context.Context, day time.Time) (c checkpoint.Kept, ok bool, err error)
	// CheckpointNumber is the one of that number; ok is false where there is none.
	CheckpointNumber(ctx context.Context, number int64) (c checkpoint.Kept, ok bool, err error)
	// Heads are those kept with a checkpoint.
	Heads(ctx context.Context, number int64) ([]checkpoint.Head, error)
}

// How long anybody may keep an answer: the newest checkpoint and one of a day that is not over are replaced soon; what is settled
// changes no more, but for the public keys that stand beside it.
const (
	briefly = "public, max-age=300"
	settled = "public, max-age=86400"
)

var noCheckpoint = problem.New(problem.NotFound, "There is no such checkpoint. Ask for a day as YYYY-MM-DD, or for a number.")

func (a API) latestCheckpoint(g *gin.Context) (web.Reply, error) {
	ctx, cancel := context.WithTimeout(g.Request.Context(), queryTime)
	defer cancel()
	c, _, err := a.Proofs.LastCheckpoint(ctx)
	return a.publish(c, c.Number != 0, briefly, err)
}

// checkpoint answers a checkpoint by its day or number or, where the name says so, a line for each chain that grew, as their hash
// in the checkpoint covers them.
func (a API) checkpoint(g *gin.Context) (web.Reply, error) {
	ctx, cancel := context.WithTimeout(g.Request.Context(), queryTime)
	defer cancel()
	name, heads := strings.CutSuffix(g.Param("name"), checkpoint.HeadsSuffix)
	c, found, lasting, err := a.checkpointNamed(ctx, name)
	if err != nil || !found || !heads {
		return a.publish(c, found, lasting, err)
	}
	lines, err := a.Proofs.Heads(ctx, c.Number)
	return web.Reply{
		Header: http.Header{"Cache-Control": {lasting}}, Type: "text/plain; charset=utf-8",
		Stream: func(out io.Writer) error { return checkpoint.WriteHeads(out, lines) },
	}, err
}

var number = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

// checkpointNamed finds a checkpoint by its number or its day.
func (a API) checkpointNamed(ctx context.Context, name string) (c checkpoint.Kept, found bool, lasting string, err error) {
	if number.MatchString(name) {
		n, _ := strconv.ParseInt(name, 10, 64) // 18 digits fit
		c, found, err = a.Proofs.CheckpointNumber(ctx, n)
		return c, found, settled, err
	}
	day, err := time.Parse(time.DateOnly, name)
	if err != nil {
		return c, false, "", nil
	}
	lasting = settled
	if a.Now().Before(day.Add(24 * time.Hour)) {
		lasting = briefly
	}
	c, found, err = a.Proofs.CheckpointOf(ctx, day)
	return c, found, lasting, err
}

func (a API) publish(c checkpoint.Kept, found bool, lasting string, err error) (web.Reply, error) {
	if err != nil {
		return web.Reply{}, err
	}
	if !found {
		return web.Reply{}, noCheckpoint
	}
	if c.Checkpoint, err = a.Keys.Open(c.Note); err != nil {
		return web.Reply{}, err
	}
	return web.Reply{JSON: c.Publish(a.PublicURL, a.Keys), Header: http.Header{"Cache-Control": {lasting}}}, nil
}
