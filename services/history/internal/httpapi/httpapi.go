// Package httpapi is the HTTP API of the history service. API.Routes has the table of all routes,
// and package peer the rules about their callers.
//
// Consumers read histories and the log through the gateway. The catalog pulls summaries, sends the
// reviews of the desk and reads the part of a review sheet that the history has. Operators append
// files of events and ask what was known at a time. Reads for people go through API.Query, which
// bounds them during an outage of the database.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
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

	// Query runs a query for a consumer or a person, with the limits of database.Breaker.
	Query func(ctx context.Context, query func(context.Context) error) error
}

// FeedPath is the path of the feed of summaries.
const FeedPath = "/internal/v1/summaries"

// call is a request with its parameters.
type call struct {
	*gin.Context

	ctx    context.Context
	id     string // in the path
	params params.Values
}

// Routes registers all routes on engine. peer.Rules has the services that may call them.
func (a API) Routes(engine *gin.Engine, errors problem.Writer, ready http.Handler) {
	none := []string{} // parameters
	// route serves the response of handle as JSON, or a web.Reply. Without names it ignores the query.
	route := func(methods, path string, handle func(call) (any, error), names ...string) {
		for method := range strings.FieldsSeq(methods) {
			engine.Handle(method, path, web.Handler(errors, func(g *gin.Context) (web.Reply, error) {
				c, err := call{Context: g, ctx: g.Request.Context(), id: g.Param("id")}, error(nil)
				if names != nil {
					c.params, err = params.Read(g.Request.URL.RawQuery, names...)
				}
				if err != nil {
					return web.Reply{}, err
				}
				response, err := handle(c)
				if reply, ok := response.(web.Reply); ok {
					return reply, err
				}
				return web.Reply{JSON: response}, err
			}))
		}
	}
	engine.GET("/readyz", gin.WrapH(ready))
	route("GET HEAD", checkpoint.Path, a.logInfo)
	route("GET HEAD", checkpoint.LogPath+"/checkpoint", a.logCheckpoint)
	route("GET HEAD", checkpoint.LogPath+"/tile/*path", a.logTile)
	route("GET HEAD", checkpoint.LogPath+"/generations/:generation/checkpoint", a.logCheckpoint)
	route("GET HEAD", checkpoint.LogPath+"/generations/:generation/tile/*path", a.logTile)
	route("GET HEAD", checkpoint.LogPath+"/proof/:id", a.logProof, "size")
	route("GET HEAD", "/api/v1/opportunities/:id/history", a.history, "page", "limit")
	route("GET", FeedPath, func(c call) (any, error) { // waits for changes
		return a.Summaries.Serve(c.Request, server.Draining(c.Request))
	})
	route("GET", "/internal/v1/records/:id", a.record, "without")
	route("GET", "/internal/v1/records/:id/latest", a.latest)
	route("GET", "/internal/v1/unpublished-listings", func(c call) (any, error) { // for a catalog that was set back
		ids, err := a.Store.Unpublished(c.ctx)
		return api.UnpublishedListings{Listings: ids}, err
	})
	route("GET", "/internal/v1/reviews/done", a.reviewsDone, "since")
	route("GET", "/internal/v1/readings", func(c call) (any, error) { return a.Store.ListingFindings(c.ctx) })
	route("GET", "/operator/v1/records/:id/pages", a.pages, none...)
	route("POST", "/operator/v1/records/:id/read", a.readPages)
	route("GET", "/operator/v1/reviews/second-opinions", a.opinionRequests, none...)
	route("POST", "/operator/v1/reviews/quotes", a.findQuotes)
	route("GET", "/operator/v1/events", a.acts, "actor", "listing", "checkType", "since", "until", "before", "limit")
	route("POST", "/internal/v1/reviews", a.review)
	route("GET", "/operator/v1/history/:id", a.asOf, "at")
	route("POST", "/operator/v1/events/append", a.append)
}

// maxReview is the maximum size of the body of a review, in bytes.
const maxReview = 2 << 20

// review records one review for the catalog. Like append, it reports an invalid review and the
// events that its author has not seen; the status is 200 in each case.
func (a API) review(c call) (any, error) {
	var in api.ReviewAppend
	if err := json.NewDecoder(http.MaxBytesReader(c.Writer, c.Request.Body, maxReview)).Decode(&in); err != nil ||
		in.Actor == "" || in.Review.CheckType != api.FactualReview {
		return nil, problem.New(problem.InvalidParameter,
			"The body must be a review with its actor.").Because(err)
	}
	now := a.Now()
	line, problems := eventfile.Check(in.Review, now)
	if len(problems) == 0 {
		problems = a.unquoted(line)
	}
	report := api.ReviewReport{AppendReport: api.AppendReport{Rejected: []api.RejectedLine{}}}
	reject := func(p api.Problems) (any, error) {
		report.Rejected = []api.RejectedLine{{Line: 1, ID: in.Review.Slug, Problems: p}}
		return report, nil
	}
	if len(problems) > 0 {
		return reject(problems)
	}
	sent, err := json.Marshal(in.Review)
	if err != nil {
		return nil, err
	}
	if now, err = awaitLatest(c.ctx, line.Event.CheckedAt, now); err != nil {
		return nil, err
	}
	done, err := a.Store.Review(c.ctx, now, store.Proposal{ReviewAppend: in, Line: line, Sent: string(sent)})
	if errors.Is(err, store.ErrNoOpinion) {
		return reject(api.Problems{{
			Path: "secondOpinionOf", Message: "must be a review in your list of requested second opinions",
		}})
	}
	if other := new(store.TextsError); errors.As(err, &other) {
		report.Texts = other.Texts
		return report, nil
	}
	if unseen := new(store.UnseenError); errors.As(err, &unseen) {
		report.Newer, err = forOperators(unseen.Events)
		return report, err
	}
	if err != nil {
		return nil, err
	}
	report.Applied, report.EventID, report.Outcome, report.Disagree = true, done.Record.ID, done.Record.Outcome,
		done.Differs
	if report.Appended = 1; done.Duplicate {
		report.Appended, report.Duplicates = 0, 1
	}
	return report, nil
}

// unquoted returns the known facts of a verified review that lack a required quote.
func (a API) unquoted(l eventfile.Line) (p api.Problems) {
	if !a.RequireQuotes || l.Event.Outcome != api.OutcomeVerified {
		return nil
	}
	for _, name := range api.Unquoted(*l.Event.Facts, l.Evidence.Quotes) {
		p.Add("facts."+name, "needs a quote from one of its sources")
	}
	return p
}

// awaitLatest waits for the time of the latest check, which may be up to api.ClockTolerance in the
// future, and returns that time. The event is then recorded as sent, and no response shows a check
// from the future.
func awaitLatest(ctx context.Context, latest, now time.Time) (time.Time, error) {
	if !latest.After(now) {
		return now, nil
	}
	select {
	case <-time.After(latest.Sub(now)):
		return latest, nil
	case <-ctx.Done():
		return now, ctx.Err()
	}
}

func forOperators(records []event.Record) ([]api.RecordedEvent, error) {
	events := make([]api.RecordedEvent, len(records))
	for i := range records {
		var err error
		if events[i], err = records[i].Recorded(); err != nil {
			return nil, err
		}
	}
	return events, nil
}
