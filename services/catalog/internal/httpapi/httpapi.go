// Package httpapi serves the catalog's HTTP API: to consumers through the gateway, to the history
// service, and to operators. API.Routes lists every route.
//
// Consumers read lists, records and changes (this file). A list comes from a snapshot.View in
// memory, compressed by a Cache, and needs no database. Operators import, publish and edit listings
// (operator.go, listings.go, edit.go) and review them (queue.go, submit.go, desk.go): the history
// service records a review, and the catalog then copies its summary. Handlers return a web.Reply,
// and a *problem.Error for what a caller did wrong.
package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
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
	"opportunity.internal/services/catalog/internal/store/curation"
)

// API holds what the handlers use.
type API struct {
	Catalog    *snapshot.Live
	Compressed *Cache // of Catalog's records
	Listings   *store.Store
	Curation   *curation.Store
	Feed       feed.Source[api.ListingState]
	CatchUp    func(context.Context) error // brings the copy of history's summaries up to date
	History    *peer.Client
	Now        func() time.Time
	PublicURL  string // base URL for consumers, without a trailing slash
}

// FeedPath is the path of the feed of listing states.
const FeedPath = "/internal/v1/listings"

const (
	listPath    = "/api/v1/opportunities"
	aliasPath   = "/api/jobs"
	changesPath = "/api/v1/changes"
)

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
	engine.DELETE("/operator/v1/reviews/records/:id/lease", operator(end(a.Curation.EndLease)))
	engine.PUT("/operator/v1/reviews/records/:id/draft", operator(a.saveDraft))
	engine.DELETE("/operator/v1/reviews/records/:id/draft", operator(end(a.Curation.DeleteDraft)))
	engine.PUT("/operator/v1/reviews/records/:id/skip", operator(with(a.skip)))
	engine.DELETE("/operator/v1/reviews/records/:id/skip", operator(end(a.Curation.EndSkip)))
}

type request struct {
	*gin.Context

	actor  string // name of the operator
	values params.Values
}

func (r request) context() context.Context { return r.Request.Context() }

// id returns the id in the path, which may be malformed.
func (r request) id() string { return r.Param("id") }

const maxRequest = 4 << 20 // bytes of a JSON request body

func with[In any](handle func(request, In) (web.Reply, error)) func(request) (web.Reply, error) {
	return func(r request) (web.Reply, error) {
		var in In
		if err := web.Decode(r.Context, &in, maxRequest); err != nil {
			return web.Reply{}, err
		}
		return handle(r, in)
	}
}

func (a API) list(g *gin.Context, caller api.Caller) (web.Reply, error) {
	parse, path := query.Parse, g.FullPath()
	if path == query.SearchPath {
		parse = query.ParseSearch
	}
	q, err := parse(g.Request.URL.RawQuery, caller.PageSize)
	if err != nil {
		return web.Reply{}, err
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	filters := q.Filter.Params()
	canonical := params.Encode(q.Page.Append(filters))
	reply := a.reply(g, view, path+"?"+canonical+" "+string(caller.Tier), caller.Tier, func(buf []byte) []byte {
		selection := view.Select(q.Filter, caller.Tier)
		buf = selection.Append(append(buf, `{"data":[`...), q.Page)
		return appendJSON(append(buf, `],"pagination":`...),
			q.Page.Pagination(a.PublicURL, path, filters, selection.Total()))
	})
	reply.ETag = etag(a.PublicURL, path, canonical, string(caller.Tier), view.Version())
	if path == aliasPath {
		reply.Header.Set("Link", "<"+a.PublicURL+listPath+"?"+canonical+`>; rel="canonical"`)
	}
	return reply, nil
}

func (a API) detail(g *gin.Context, caller api.Caller) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	id := g.Param("id")
	record, ok := view.Find(id, caller.Tier)
	if !ok {
		near := ""
		if ids := view.Near(id, caller.Tier); len(ids) > 0 {
			near = " Did you mean " + strings.Join(ids, " or ") + "?"
		}
		return web.Reply{}, problem.New(problem.NotFound, "There is no such record, or it is not part of your plan.%s",
			near)
	}
	reply := a.reply(g, view, id, caller.Tier, func(buf []byte) []byte {
		return record.Append(append(buf, `{"data":`...))
	})
	reply.ETag = etag(a.PublicURL, id, string(caller.Tier), string(record.AppendVersion(nil)))
	return reply, nil
}

// recordChanges serves the changes of all public records. It reads the database, so it is
// unavailable during an outage, and it serves no change that the snapshot lacks.
func (a API) recordChanges(g *gin.Context, caller api.Caller) (web.Reply, error) {
	q, err := query.ParseChanges(g.Request.URL.RawQuery, caller.PageSize)
	if err != nil {
		return web.Reply{}, err
	}
	if !caller.Tier.AllRecords() {
		return web.Reply{}, problem.New(problem.SubscriptionRequired,
			"The %s tier does not include the changes. Get the %s plan at %s/account/plan, or ask the operator if "+
				"this service sells no plans.",
			caller.Tier, api.AllRecordsPlan().Name, a.PublicURL)
	}
	view, err := a.Catalog.View()
	if err != nil {
		return web.Reply{}, err
	}
	page, err := a.Listings.RecordChanges(g.Request.Context(), q, a.Catalog.Sequence())
	if err != nil {
		return web.Reply{}, err
	}
	list := api.ChangeList{
		Data:       page.Changes,
		Pagination: api.CursorPagination{Limit: q.Limit, HasMore: page.HasMore, Cursor: page.End.Cursor()},
		Meta:       api.NewMeta(caller.Tier, view.Now()),
	}
	if page.HasMore {
		next := a.PublicURL + changesPath + "?" + params.Encode(query.Changes{After: list.Pagination.Cursor,
			Limit: q.Limit}.Params())
		list.Pagination.Next = &next
	}
	return web.Reply{ETag: etag(a.PublicURL, changesPath, params.Encode(q.Params()), string(caller.Tier),
		page.Newest.Cursor()), JSON: list}, nil
}

// reply returns a reply whose body is the text and the meta member. key identifies the text among
// those of the view's version.
func (a API) reply(g *gin.Context, view snapshot.View, key string, tier api.Tier, text func([]byte) []byte) web.Reply {
	buf, done := newBody()
	tail := append(appendJSON([]byte(`,"meta":`), api.NewMeta(tier, view.Now())), '}')
	coding := ""
	if acceptsGzip(g.Request.Header["Accept-Encoding"]) {
		coding, *buf = "gzip", a.Compressed.Append(*buf, view.Version(), key, text, tail)
	} else {
		*buf = append(text(*buf), tail...)
	}
	return web.Reply{Header: http.Header{"Vary": {"Accept-Encoding"}}, Body: *buf, Coding: coding, Done: done}
}

// buffers reuses response bodies. A page has some hundred KiB, too much to allocate for every
// request.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest capacity of a buffer that is reused.
const maxPooled = 4 << 20

func newBody() (buf *[]byte, done func()) {
	buf, _ = buffers.Get().(*[]byte)
	*buf = (*buf)[:0]
	return buf, func() {
		if cap(*buf) <= maxPooled {
			buffers.Put(buf)
		}
	}
}

func appendJSON(b []byte, v any) []byte {
	text, err := api.Encode(v)
	if err != nil {
		panic(err) // only structs of strings, numbers and times of this century are encoded
	}
	return append(b, text...)
}

// etag returns a validator derived from everything that a response depends on, except its time.
// Replicas with the same data return the same validator.
func etag(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", api.ContractVersion, parts))
	return hex.EncodeToString(sum[:16])
}
