// Package httpapi is the HTTP API of the history service. Consumers read histories through the gateway, the catalog pulls
// summaries, and curators append events.
package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
)

// Store holds the events and their summaries. Its methods return problem.Unavailable during an outage of the database.
type Store interface {
	// History returns a page of the events of slug, newest check first. published is false if the listing is not public.
	History(ctx context.Context, slug string, offset, limit int) (page event.Page, published bool, err error)
	// Summaries returns up to limit summaries with a sequence above after, ordered by sequence.
	Summaries(ctx context.Context, after int64, limit int) ([]api.EncodedSummary, error)
	// UnknownListings returns the subset of slugs without a listing.
	UnknownListings(ctx context.Context, slugs []string) (map[string]bool, error)
	// Unpublished returns the ids of the listings that are not public.
	Unpublished(ctx context.Context) ([]string, error)
	// Known returns the events of slug recorded up to at, ordered by check, and their summary.
	Known(ctx context.Context, slug string, at time.Time) ([]event.Record, api.Summary, error)
	// RecordHistory returns all events of slug, ordered by check, and their summary with its sequence and the newest event.
	// The event with the id without is left out.
	RecordHistory(ctx context.Context, slug, without string) ([]event.Record, api.Summary, error)
	// OpinionRequests returns the oldest open requests for second opinions on reviews of others than actor.
	OpinionRequests(ctx context.Context, actor string) ([]api.OpinionRequest, error)
	// Readings returns the findings for the quotes on the latest texts of their pages.
	Readings(ctx context.Context, quotes []api.Quote) ([]api.QuoteReading, error)
	// Suggestions returns sentences of the pages of slug that may support the facts without a quote.
	Suggestions(ctx context.Context, slug string, quotes []api.Quote) ([]api.Quote, error)
	// PageTexts returns the pages of slug with their latest texts and those of its latest verified review.
	PageTexts(ctx context.Context, slug string) (api.PageTexts, error)
	// ReadingMarks returns the listings whose latest quotes are all present, or some missing.
	ReadingMarks(ctx context.Context) (api.ReadingMarks, error)
	// Opinion returns the second opinion that was recorded as the event and differs from the first review, or nil.
	Opinion(ctx context.Context, recordedID string) (*api.SecondOpinion, error)
	// Review records one review like Append. It also returns the recorded event with that content, and the summary that includes it.
	// It returns event.ErrNoOpinion for a second opinion that was not requested.
	Review(ctx context.Context, now time.Time, p event.Proposal) (event.Reviewed, error)
	// ReviewsSince returns the number of reviews that each operator recorded since then.
	ReviewsSince(ctx context.Context, since time.Time) (map[string]int, error)
	// Acts returns the recorded events that match f, the last recorded first.
	Acts(ctx context.Context, f event.ActFilter) ([]event.Record, error)
	// Append records the events that lines passes to add, or none on an error. It counts events already recorded as duplicates. It returns an
	// event.UnseenError if the author of a line has not seen the newest events of the listing, and an error of lines unchanged.
	Append(ctx context.Context, actor string, now time.Time, lines func(add func(eventfile.Line) error) error) (appended, duplicates int, err error)
}

// Catalog updates the store's copy of the catalog when an event names a listing that the copy lacks.
type Catalog interface {
	// CatchUp brings the copy up to date.
	CatchUp(ctx context.Context) error
}

// API serves the history.
type API struct {
	Store     Store
	Proofs    Proofs
	Keys      checkpoint.Keys
	Catalog   Catalog
	PublicURL string // URL of the gateway for consumers, without a trailing slash
	Now       func() time.Time

	RequireQuotes bool // for each known fact of a verified review that arrives alone

	queries *breaker
}

// FeedPath is the path of the feed of summaries.
const FeedPath = "/internal/v1/summaries"

// Routes registers all routes on engine. peer.Rules has the services that may call them.
func (a API) Routes(engine *gin.Engine, errors problem.Writer, ready http.Handler) {
	a.queries = newBreaker()
	engine.GET("/readyz", gin.WrapH(ready))
	for path, handle := range map[string]func(*gin.Context) (web.Reply, error){
		checkpoint.Path: a.latestCheckpoint, checkpoint.Path + "/:name": a.checkpoint,
	} {
		engine.GET(path, web.Handler(errors, handle))
		engine.HEAD(path, web.Handler(errors, handle))
	}
	const history = "/api/v1/opportunities/:id/history"
	engine.GET(history, web.Handler(errors, a.history))
	engine.HEAD(history, web.Handler(errors, a.history))
	engine.GET(FeedPath, web.Handler(errors, a.summaries))
	engine.GET("/internal/v1/records/:id", web.Handler(errors, a.record))
	engine.GET("/internal/v1/unpublished-listings", web.Handler(errors, a.unpublished))
	engine.GET("/internal/v1/reviews/done", web.Handler(errors, a.reviewsDone))
	engine.GET("/internal/v1/readings", web.Handler(errors, a.readings))
	engine.GET("/operator/v1/records/:id/pages", web.Handler(errors, a.pages))
	engine.GET("/operator/v1/reviews/second-opinions", web.Handler(errors, a.opinionRequests))
	engine.GET("/operator/v1/events", web.Handler(errors, a.acts))
	engine.POST("/internal/v1/reviews", web.Handler(errors, a.review))
	engine.GET("/operator/v1/history/:id", web.Handler(errors, a.known))
	engine.POST("/operator/v1/events/append", web.Handler(errors, a.append))
}
