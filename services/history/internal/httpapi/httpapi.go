// Package httpapi is the HTTP API of the history service. Consumers read histories through the
// gateway, the catalog pulls summaries, and curators append events.
package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/store"
)

// API serves the history.
type API struct {
	Store     *store.Store
	Log       checkpoint.Log
	Summaries feed.Source[api.EncodedSummary]
	CatchUp   func(context.Context) error // brings the copy of the catalog's listings up to date
	PublicURL string                      // URL of the gateway for consumers, without a trailing slash
	Now       func() time.Time

	ReadNow func() // starts a run of the link checker in this process; nil if it runs elsewhere or not at all

	RequireQuotes bool // for each known fact of a verified review that arrives alone

	queries *database.Breaker
}

// FeedPath is the path of the feed of summaries.
const FeedPath = "/internal/v1/summaries"

// Routes registers all routes on engine. peer.Rules has the services that may call them.
func (a API) Routes(engine *gin.Engine, errors problem.Writer, ready http.Handler) {
	a.queries = database.NewBreaker(0)
	engine.GET("/readyz", gin.WrapH(ready))
	for path, handle := range map[string]func(*gin.Context) (web.Reply, error){
		checkpoint.Path: a.logInfo, checkpoint.LogPath + "/checkpoint": a.logCheckpoint,
		checkpoint.LogPath + "/tile/*path":                         a.logTile,
		checkpoint.LogPath + "/generations/:generation/checkpoint": a.logCheckpoint,
		checkpoint.LogPath + "/generations/:generation/tile/*path": a.logTile,
		checkpoint.LogPath + "/proof/:id":                          a.logProof,
	} {
		engine.GET(path, web.Handler(errors, handle))
		engine.HEAD(path, web.Handler(errors, handle))
	}
	const history = "/api/v1/opportunities/:id/history"
	engine.GET(history, web.Handler(errors, a.history))
	engine.HEAD(history, web.Handler(errors, a.history))
	engine.GET(FeedPath, web.Handler(errors, a.summaries))
	engine.GET("/internal/v1/records/:id", web.Handler(errors, a.record))
	engine.GET("/internal/v1/records/:id/latest", web.Handler(errors, a.latest))
	engine.GET("/internal/v1/unpublished-listings", web.Handler(errors, a.unpublished))
	engine.GET("/internal/v1/reviews/done", web.Handler(errors, a.reviewsDone))
	engine.GET("/internal/v1/readings", web.Handler(errors, a.readings))
	engine.GET("/operator/v1/records/:id/pages", web.Handler(errors, a.pages))
	engine.POST("/operator/v1/records/:id/read", web.Handler(errors, a.readPages))
	engine.GET("/operator/v1/reviews/second-opinions", web.Handler(errors, a.opinionRequests))
	engine.POST("/operator/v1/reviews/quotes", web.Handler(errors, a.findQuotes))
	engine.GET("/operator/v1/events", web.Handler(errors, a.acts))
	engine.POST("/internal/v1/reviews", web.Handler(errors, a.review))
	engine.GET("/operator/v1/history/:id", web.Handler(errors, a.asOf))
	engine.POST("/operator/v1/events/append", web.Handler(errors, a.append))
}
