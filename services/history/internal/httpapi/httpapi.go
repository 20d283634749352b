// Package httpapi is how the history is asked for: by consumers through the gateway, by the catalog for summaries, by curators
// who append events.
package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// Store is the history as it is kept. An outage of the database is problem.Unavailable.
type Store interface {
	// History is a page of the events of slug, newest check first; published is false where consumers may not see the listing.
	History(ctx context.Context, slug string, offset, limit int) (page event.Page, published bool, err error)
	// Summaries are at most limit summaries with a sequence above after, in its order.
	Summaries(ctx context.Context, after int64, limit int) ([]api.Summary, error)
	// UnknownListings are those of slugs that name no listing.
	UnknownListings(ctx context.Context, slugs []string) (map[string]bool, error)
	// Known are the events of slug that had been recorded at an instant, in the order of their checks, and what they come to.
	Known(ctx context.Context, slug string, at time.Time) ([]event.Record, api.Summary, error)
	// Append records the events of all lines, or none if it fails; those that are already recorded are counted as duplicates. Its
	// error is an event.UnseenError if a line does not account for the newest events of its listing.
	Append(ctx context.Context, actor string, now time.Time, lines []eventfile.Line) (appended, duplicates int, err error)
}

// Catalog is asked when an event names a listing that the store's copy does not have yet.
type Catalog interface {
	CatchUp(ctx context.Context) error
}

// API answers for the history.
type API struct {
	Store     Store
	Proofs    Proofs
	Keys      checkpoint.Keys
	Catalog   Catalog
	PublicURL string // the address of the gateway as consumers see it, without a trailing slash
	Now       func() time.Time
}

// Routes registers everything on engine. Only ready and the checkpoints are open to callers without an internal token.
func (a API) Routes(engine *gin.Engine, errors problem.Writer, tokens peer.Tokens, ready http.Handler) {
	engine.GET("/readyz", gin.WrapH(ready))
	for path, answer := range map[string]func(*gin.Context) (web.Reply, error){
		checkpoint.Path: a.latestCheckpoint, checkpoint.Path + "/:name": a.checkpoint,
	} {
		engine.GET(path, web.Answer(errors, answer))
		engine.HEAD(path, web.Answer(errors, answer))
	}
	inside := engine.Group("", web.Internal(errors, tokens))
	const history = "/api/v1/opportunities/:id/history"
	inside.GET(history, web.Answer(errors, a.history))
	inside.HEAD(history, web.Answer(errors, a.history))
	inside.GET("/internal/v1/summaries", web.Answer(errors, a.summaries))
	inside.GET("/operator/v1/history/:id", web.Answer(errors, a.known))
	inside.POST("/operator/v1/events/append", web.Answer(errors, a.append))
}
