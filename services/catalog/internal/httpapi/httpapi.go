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
	"opportunity.internal/pkg/params"
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
		return reply(func(g *gin.Context) (web.Reply, error) {
			caller, err := web.Caller(g)
			if err != nil {
				return web.Reply{}, err
			}
			return handle(g, caller)
		})
	}
	// An operator route takes no other parameters than those that it names.
	operator := func(handle func(request) (web.Reply, error), parameters ...string) gin.HandlerFunc {
		return reply(func(g *gin.Context) (web.Reply, error) {
			actor, err := web.Actor(g)
			if err != nil {
				return web.Reply{}, err
			}
			values, err := params.Read(g.Request.URL.RawQuery, parameters...)
			if err != nil {
				return web.Reply{}, err
			}
			return handle(request{g, actor, values})
		})
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
	engine.GET("/operator/v1/catalog", operator(a.status))
	engine.GET("/operator/v1/listings", operator(a.listings, "visibility", "status", "category", "country", "text", "host",
		"dueBefore", "holder", "after", "limit"))
	engine.GET("/operator/v1/records/:id", operator(a.listing))
	engine.PUT("/operator/v1/records/:id", operator(a.edit, "dryRun"))
	engine.GET("/operator/v1/changes", operator(a.changes, "actor", "listing", "action", "since", "until", "before",
		"limit"))
	engine.POST("/operator/v1/listings/import", operator(a.importFile, "dryRun", "ask", "sha256"))
	engine.GET("/operator/v1/listings/export", operator(a.export))
	engine.POST("/operator/v1/listings/publish", operator(with(a.publish), "dryRun"))
	engine.POST("/operator/v1/listings/withdraw", operator(with(a.withdraw)))
	engine.GET("/operator/v1/reviews/freshness", operator(a.freshness))
	engine.GET("/operator/v1/reviews/candidates", operator(a.candidates, "category", "text", "host", "holder", "after",
		"limit"))
	engine.GET("/operator/v1/reviews/due", operator(a.due, "within"))
	engine.GET("/operator/v1/reviews/queue", operator(a.queue, "scope", "within", "why", "status", "category", "host",
		"text", "holder", "available", "skipped", "after", "limit"))
	engine.GET("/operator/v1/reviews/withdrawals", operator(a.withdrawals))
	engine.GET("/operator/v1/reviews/records/:id", operator(a.sheet, "secondOpinionOf"))
	engine.POST("/operator/v1/reviews/records/:id", operator(with(a.review)))
	engine.POST("/operator/v1/reviews/records/:id/undo", operator(with(a.undo)))
	engine.PUT("/operator/v1/reviews/records/:id/opened", operator(with(a.open)))
	engine.POST("/operator/v1/reviews/records/:id/propose-withdrawal", operator(with(a.propose)))
	engine.POST("/operator/v1/reviews/records/:id/decline-withdrawal", operator(with(a.decline)))
	engine.PUT("/operator/v1/reviews/records/:id/lease", operator(with(a.takeLease)))
	engine.DELETE("/operator/v1/reviews/records/:id/lease", operator(end(a.Desk.EndLease)))
	engine.PUT("/operator/v1/reviews/records/:id/draft", operator(a.saveDraft))
	engine.DELETE("/operator/v1/reviews/records/:id/draft", operator(end(a.Desk.DeleteDraft)))
	engine.PUT("/operator/v1/reviews/records/:id/skip", operator(with(a.skip)))
	engine.DELETE("/operator/v1/reviews/records/:id/skip", operator(end(a.Desk.EndSkip)))
}

// request is a request of an operator.
type request struct {
	*gin.Context

	actor  string // name of the operator
	values params.Values
}

func (r request) context() context.Context { return r.Request.Context() }

// id returns the id in the path, which may be malformed.
func (r request) id() string { return r.Param("id") }

const maxRequest = 4 << 20 // bytes of a JSON request body

// with returns the handler of a request with a JSON body.
func with[In any](handle func(request, In) (web.Reply, error)) func(request) (web.Reply, error) {
	return func(r request) (web.Reply, error) {
		var in In
		if err := web.Decode(r.Context, &in, maxRequest); err != nil {
			return web.Reply{}, err
		}
		return handle(r, in)
	}
}
