package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
)

// maxReview is the maximum size of the body of a review, in bytes.
const maxReview = 2 << 20

// record returns the events and the summary of one listing for the review sheet, which the catalog
// serves.
func (a API) record(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "without")
	if err != nil {
		return web.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), asOfTimeout)
	defer cancel()
	records, state, err := a.Store.RecordHistory(ctx, g.Param("id"), values["without"])
	if err != nil {
		return web.Reply{}, err
	}
	reply := api.ReviewHistory{Summary: state.Summary, PreviousFacts: state.PreviousFacts}
	if reply.Events, err = forOperators(records[:min(len(records), api.MaxSheetEvents)]); err != nil {
		return web.Reply{}, err
	}
	if reply.Evidence, err = evidenceOf(records, state.LatestEvidence); err != nil {
		return web.Reply{}, err
	}
	if reply.Readings, err = a.Store.Readings(ctx, reply.Evidence.Quotes); err != nil {
		return web.Reply{}, err
	}
	quotes, missing := divide(reply.Evidence.Quotes, reply.Readings)
	if reply.Suggestions, err = a.Store.Suggestions(ctx, g.Param("id"), quotes, missing); err != nil {
		return web.Reply{}, err
	}
	switch without := values["without"]; {
	case without != "":
		reply.OpinionFacts, err = a.Store.OpinionFacts(ctx, without)
	case state.LatestReview != "":
		reply.Opinion, err = a.Store.Opinion(ctx, state.LatestReview)
	}
	return web.Reply{JSON: reply}, err
}

func divide(all []api.Quote, readings []api.QuoteReading) (others, missing []api.Quote) {
	for _, q := range all {
		if slices.ContainsFunc(readings, func(r api.QuoteReading) bool {
			return r.Quote == q &&
				r.Finding == api.QuoteMissing
		}) {
			missing = append(missing, q)
		} else {
			others = append(others, q)
		}
	}
	return others, missing
}

func (a API) findQuotes(g *gin.Context) (web.Reply, error) {
	var in api.QuoteSearch
	if err := json.NewDecoder(http.MaxBytesReader(g.Writer, g.Request.Body, maxReview)).Decode(&in); err != nil ||
		len(in.Quotes) > api.MaxQuoteSearch {
		return web.Reply{}, problem.New(problem.InvalidParameter,
			`The body must be {"quotes": [...]} with at most 200 quotes.`).Because(err)
	}
	readings, err := a.Store.FindOnTexts(g.Request.Context(), in.Quotes)
	return web.Reply{JSON: api.QuoteFindings{Readings: readings}}, err
}

func (a API) opinionRequests(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	requests, err := a.Store.OpinionRequests(g.Request.Context(), actor)
	return web.Reply{JSON: api.OpinionList{Requests: requests}}, err
}

func (a API) pages(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), asOfTimeout)
	defer cancel()
	texts, err := a.Store.PageTexts(ctx, g.Param("id"))
	if err == nil && len(texts.Pages) == 0 {
		err = problem.NoSuch("listing")
	}
	return web.Reply{JSON: texts}, err
}

// readPages makes the pages of a record due now. The link checker reads them under its own rules.
func (a API) readPages(g *gin.Context) (web.Reply, error) {
	if _, err := web.Actor(g); err != nil {
		return web.Reply{}, err
	}
	ctx, now := g.Request.Context(), a.Now()
	texts, err := a.Store.PageTexts(ctx, g.Param("id"))
	if err != nil {
		return web.Reply{}, err
	}
	if len(texts.Pages) == 0 {
		return web.Reply{}, problem.NoSuch("listing")
	}
	totals, err := a.Store.LinkTotals(ctx)
	if err != nil {
		return web.Reply{}, err
	}
	if a.ReadNow == nil && now.Sub(time.UnixMicro(totals.EndedAt)) > 25*time.Hour { // a run ends each day
		return web.Reply{JSON: api.PagesDue{Note: "Link checks are off: no run has ended in the last day. " +
			"To switch them on, set linkChecks.enabled in the chart, or OPPORTUNITY_LINK_CHECKS=true and a public " +
			"OPPORTUNITY_LINK_CHECK_CONTACT with \"opportunity up\"."}}, nil
	}
	due := api.PagesDue{Note: "The next run of the link checker reads them."}
	if due.Pages, err = a.Store.MakeDue(ctx, g.Param("id"), now); err != nil {
		return web.Reply{}, err
	}
	switch {
	case due.Pages == 0:
		due.Note = "Each page was requested in the last 10 minutes, or waits for its first request."
	case a.ReadNow != nil:
		due.Note = "The link checker reads them now, with its pause between requests to a host."
	}
	if a.ReadNow != nil {
		a.ReadNow()
	}
	return web.Reply{JSON: due}, nil
}

// readings returns the listings by the findings for their quotes.
func (a API) readings(g *gin.Context) (web.Reply, error) {
	marks, err := a.Store.ReadingMarks(g.Request.Context())
	return web.Reply{JSON: marks}, err
}

// evidenceOf returns the evidence of the record with the id, the zero value if there is none.
func evidenceOf(records []event.Record, id string) (found api.Evidence, err error) {
	if i := slices.IndexFunc(records, func(r event.Record) bool { return r.ID == id }); i >= 0 {
		private, err := records[i].Private()
		return *cmp.Or(private, &found), err
	}
	found.Complete()
	return found, nil
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

// review records one review for the catalog. Like append, it reports an invalid review and the
// events that its author has not seen; the status is 200 in each case.
func (a API) review(g *gin.Context) (web.Reply, error) {
	var in api.ReviewAppend
	if err := json.NewDecoder(http.MaxBytesReader(g.Writer, g.Request.Body, maxReview)).Decode(&in); err != nil ||
		in.Actor == "" || in.Review.CheckType != api.FactualReview {
		return web.Reply{}, problem.New(problem.InvalidParameter,
			"The body must be a review with its actor.").Because(err)
	}
	now := a.Now()
	line, problems := eventfile.Check(in.Review, now)
	if len(problems) == 0 {
		problems = a.unquoted(line)
	}
	report := api.ReviewReport{AppendReport: api.AppendReport{Rejected: []api.RejectedLine{}}}
	reject := func(p api.Problems) (web.Reply, error) {
		report.Rejected = []api.RejectedLine{{Line: 1, ID: in.Review.Slug, Problems: p}}
		return web.Reply{JSON: report}, nil
	}
	if len(problems) > 0 {
		return reject(problems)
	}
	sent, err := json.Marshal(in.Review)
	if err != nil {
		return web.Reply{}, err
	}
	if now, err = awaitLatest(g.Request.Context(), line.Event.CheckedAt, now); err != nil {
		return web.Reply{}, err
	}
	done, err := a.Store.Review(g.Request.Context(), now, event.Proposal{
		Actor: in.Actor, Line: line, SecondOpinionOf: in.SecondOpinionOf, SameTexts: in.SameTexts, Sent: string(sent),
		Undoes: in.Undoes, Opened: in.Opened,
	})
	if errors.Is(err, event.ErrNoOpinion) {
		return reject(api.Problems{{
			Path: "secondOpinionOf", Message: "must be a review in your list of requested second opinions",
		}})
	}
	if other := new(event.TextsError); errors.As(err, &other) {
		report.Texts = other.Texts
		return web.Reply{JSON: report}, nil
	}
	if unseen := new(event.UnseenError); errors.As(err, &unseen) {
		report.Newer, err = forOperators(unseen.Events)
		return web.Reply{JSON: report}, err
	}
	if err != nil {
		return web.Reply{}, err
	}
	report.Applied, report.EventID, report.Outcome, report.Disagree = true, done.Record.ID, done.Record.Outcome,
		done.Differs
	if report.Appended = 1; done.Duplicate {
		report.Appended, report.Duplicates = 0, 1
	}
	return web.Reply{JSON: report}, nil
}
