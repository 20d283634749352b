// Package httpapi serves the catalog's HTTP API for consumers (through the gateway), the history
// service and operators.
package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/query"
	"opportunity.internal/services/catalog/internal/snapshot"
	"opportunity.internal/services/catalog/internal/store"
	"opportunity.internal/services/catalog/internal/store/desk"
)

// API holds what the handlers use.
type API struct {
	Catalog    *snapshot.Live
	Compressed *Cache // of Catalog's records
	Listings   *store.Store
	Desk       *desk.Store
	Feed       feed.Source[api.ListingState]
	CatchUp    func(context.Context) error // brings the copy of history's summaries up to date
	History    *peer.Client
	Now        func() time.Time
	PublicURL  string // base URL for consumers, without a trailing slash
}

// FeedPath is the path of the feed of listing states.
const FeedPath = "/internal/v1/listings"

// Routes registers every route. peer.Rules has the services that may call it.
func (a API) Routes(engine *gin.Engine, problems problem.Writer, ready http.Handler) {
	engine.GET("/readyz", gin.WrapH(ready))
	reply := func(handle func(*gin.Context) (web.Reply, error)) gin.HandlerFunc {
		return web.Handler(problems, handle)
	}
	consumer := func(handle func(*gin.Context, api.Caller) (web.Reply, error)) gin.HandlerFunc {
		return reply(with(web.Caller, handle))
	}
	operator := func(handle func(*gin.Context, string) (web.Reply, error)) gin.HandlerFunc {
		return reply(with(web.Actor, handle))
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		engine.Handle(method, listPath, consumer(a.list))
		engine.Handle(method, aliasPath, consumer(a.list))
		engine.Handle(method, query.SearchPath, consumer(a.list))
		engine.Handle(method, listPath+"/:id", consumer(a.detail))
		engine.Handle(method, changesPath, consumer(a.recordChanges))
	}
	engine.GET(FeedPath, reply(func(g *gin.Context) (web.Reply, error) {
		page, err := a.Feed.Serve(g.Request, server.Draining(g.Request))
		return web.Reply{JSON: page}, err
	}))
	engine.GET("/internal/v1/overview", reply(a.overview))
	engine.GET("/internal/v1/public-records/:id", reply(a.publicRecord))
	engine.GET("/operator/v1/catalog", reply(a.status))
	engine.GET("/operator/v1/listings", reply(a.listings))
	engine.GET("/operator/v1/records/:id", reply(a.listing))
	engine.PUT("/operator/v1/records/:id", operator(a.edit))
	engine.GET("/operator/v1/changes", reply(a.changes))
	engine.GET("/operator/v1/reviews/freshness", reply(a.freshness))
	engine.GET("/operator/v1/reviews/candidates", reply(a.candidates))
	engine.POST("/operator/v1/listings/import", operator(a.importFile))
	engine.GET("/operator/v1/listings/export", reply(a.export))
	engine.POST("/operator/v1/listings/publish", operator(a.publish))
	engine.POST("/operator/v1/listings/withdraw", operator(a.withdraw))
	engine.GET("/operator/v1/reviews/due", reply(a.due))
	engine.GET("/operator/v1/reviews/queue", operator(a.queue))
	engine.GET("/operator/v1/reviews/records/:id", operator(a.sheet))
	engine.POST("/operator/v1/reviews/records/:id", reply(a.review))
	engine.POST("/operator/v1/reviews/records/:id/undo", reply(a.undo))
	engine.PUT("/operator/v1/reviews/records/:id/opened", reply(a.open))
	engine.GET("/operator/v1/reviews/withdrawals", reply(a.withdrawals))
	engine.POST("/operator/v1/reviews/records/:id/propose-withdrawal", reply(a.decide(proposed)))
	engine.POST("/operator/v1/reviews/records/:id/decline-withdrawal", reply(a.decide(declined)))
	engine.PUT("/operator/v1/reviews/records/:id/lease", reply(a.takeLease))
	engine.DELETE("/operator/v1/reviews/records/:id/lease", operator(a.endLease))
	engine.PUT("/operator/v1/reviews/records/:id/draft", operator(a.saveDraft))
	engine.DELETE("/operator/v1/reviews/records/:id/draft", operator(a.deleteDraft))
	engine.PUT("/operator/v1/reviews/records/:id/skip", reply(a.skip))
	engine.DELETE("/operator/v1/reviews/records/:id/skip", operator(a.endSkip))
}

func with[T any](read func(*gin.Context) (T, error),
	handle func(*gin.Context, T) (web.Reply, error)) func(*gin.Context) (web.Reply, error) {
	return func(g *gin.Context) (web.Reply, error) {
		sender, err := read(g)
		if err != nil {
			return web.Reply{}, err
		}
		return handle(g, sender)
	}
}
