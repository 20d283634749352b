// Package httpapi serves the catalog's HTTP API for consumers (through the gateway), the history service and operators.
package httpapi

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/compress"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/query"
	"opportunity.internal/services/catalog/internal/review"
	"opportunity.internal/services/catalog/internal/snapshot"
)

// Curation manages listings for operators. It returns a *problem.Error if the caller can correct the request.
type Curation interface {
	// Import applies the lines that lines passes to add. An error of lines is returned unchanged.
	Import(ctx context.Context, actor string, lines func(add func(listingfile.Line) error) error, ask bool) (api.ImportReport, error)
	Preview(ctx context.Context, lines func(add func(listingfile.Line) error) error) (api.ImportPreview, error)
	Export(ctx context.Context) iter.Seq2[listing.Entry, error]
	Publish(ctx context.Context, actor string, ids []string, dry bool) (api.ImportReport, error)
	PublishAll(ctx context.Context, actor string, dry bool) (api.ImportReport, error)
	Withdraw(ctx context.Context, actor string, ids []string, reason string) (api.ImportReport, error)
	Edit(ctx context.Context, actor string, line listingfile.Line, version string, dry bool) (api.EditReport, error)
	Detail(ctx context.Context, id string) (api.ListingDetail, error)
}

// Listings has the changes that consumers read.
type Listings interface {
	// RecordChanges returns a page of changes, none above the sequence loaded.
	RecordChanges(ctx context.Context, q query.Changes, loaded int64) (listing.ChangePage, error)
}

// Reviews has what a reviewer needs for a factual review.
type Reviews interface {
	// Sheet returns the listing's part and history's part of the review sheet.
	Sheet(ctx context.Context, id string, history api.ReviewHistory) (api.ReviewSheet, error)
	// SaveSummary saves the summary of a record after a review, before the feed of summaries has it.
	SaveSummary(ctx context.Context, summary api.EncodedSummary) error
}

// Desk stores the work of curators: leases, drafts and skips.
type Desk interface {
	// Exists returns problem.NotFound if there is no listing with the id.
	Exists(ctx context.Context, id string) error
	List(ctx context.Context, f listing.Filter, after string, limit int) (api.ListingList, error)
	Candidates(ctx context.Context, f listing.Filter, after string, limit int) (api.CandidateList, error)
	Freshness(ctx context.Context) (api.Freshness, error)
	Changes(ctx context.Context, f listing.ActFilter) (api.ListingActList, error)
	// Due lists the records that are due for a factual review by until.
	Due(ctx context.Context, until time.Time) (api.DueList, error)
	// Queue returns a page of the review queue, without api.Workday.DoneBy.
	Queue(ctx context.Context, f review.QueueFilter) (api.ReviewQueue, error)
	// AddWork adds the curators' part of the review sheet.
	AddWork(ctx context.Context, id, operator string, sheet *api.ReviewSheet) error
	// TakeLease returns the lease of another holder and false if that holder keeps it.
	TakeLease(ctx context.Context, id, holder string, takeOver bool) (api.Lease, bool, error)
	EndLease(ctx context.Context, id, holder string) error
	SaveDraft(ctx context.Context, id, operator string, content json.RawMessage) (api.Draft, error)
	DeleteDraft(ctx context.Context, id, operator string) error
	Skip(ctx context.Context, id, actor string, want api.SkipRequest) (api.Skip, error)
	EndSkip(ctx context.Context, id string) error
	// Finish ends an operator's work on a listing after a review.
	Finish(ctx context.Context, id, operator string) error
}

// API holds what the handlers use.
type API struct {
	Catalog    *snapshot.Live
	Compressed *compress.Cache // of Catalog's records
	Curation   Curation
	Listings   Listings
	Feed       func(ctx context.Context, after int64, limit int) ([]api.ListingState, error) // of listing states
	Reviews    Reviews
	Desk       Desk
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
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		engine.Handle(method, listPath, reply(a.list))
		engine.Handle(method, aliasPath, reply(a.list))
		engine.Handle(method, listPath+"/:id", reply(a.detail))
		engine.Handle(method, changesPath, reply(a.recordChanges))
	}
	engine.GET(FeedPath, reply(func(g *gin.Context) (web.Reply, error) {
		if highwater.Lost(g.Writer) {
			return web.Reply{JSON: api.ListingFeed{StartOver: true}}, nil
		}
		page, err := feed.Serve(g.Request, server.Draining(g.Request), a.Feed)
		return web.Reply{JSON: api.ListingFeed{Listings: page.Changes}}, err
	}))
	engine.GET("/internal/v1/overview", reply(a.overview))
	engine.GET("/operator/v1/catalog", reply(a.status))
	engine.GET("/operator/v1/listings", reply(a.listings))
	engine.GET("/operator/v1/listings/:id", reply(a.listing))
	engine.PUT("/operator/v1/listings/:id", reply(a.edit))
	engine.GET("/operator/v1/changes", reply(a.changes))
	engine.GET("/operator/v1/reviews/freshness", reply(a.freshness))
	engine.GET("/operator/v1/reviews/candidates", reply(a.candidates))
	engine.POST("/operator/v1/listings/import", reply(a.importFile))
	engine.GET("/operator/v1/listings/export", reply(a.export))
	engine.POST("/operator/v1/listings/publish", reply(a.publish))
	engine.POST("/operator/v1/listings/withdraw", reply(a.withdraw))
	engine.GET("/operator/v1/reviews/due", reply(a.due))
	engine.GET("/operator/v1/reviews/queue", reply(a.queue))
	engine.GET("/operator/v1/reviews/records/:id", reply(a.sheet))
	engine.POST("/operator/v1/reviews/records/:id", reply(a.review))
	engine.POST("/operator/v1/reviews/records/:id/undo", reply(a.undo))
	engine.PUT("/operator/v1/reviews/records/:id/lease", reply(a.takeLease))
	engine.DELETE("/operator/v1/reviews/records/:id/lease", reply(a.endLease))
	engine.PUT("/operator/v1/reviews/records/:id/draft", reply(a.saveDraft))
	engine.DELETE("/operator/v1/reviews/records/:id/draft", reply(a.deleteDraft))
	engine.PUT("/operator/v1/reviews/records/:id/skip", reply(a.skip))
	engine.DELETE("/operator/v1/reviews/records/:id/skip", reply(a.endSkip))
}
