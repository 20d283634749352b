package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
)

// maxReview is the maximum size of the body of a review, in bytes.
const maxReview = 2 << 20

// record returns the events and the summary of one listing for the review sheet, which the catalog
// serves.
func (a API) record(c call) (any, error) {
	ctx, cancel := context.WithTimeout(c.ctx, asOfTimeout)
	defer cancel()
	records, state, err := a.Store.RecordHistory(ctx, c.id, c.params["without"])
	if err != nil {
		return nil, err
	}
	reply := api.ReviewHistory{Summary: state.Summary, PreviousFacts: state.PreviousFacts}
	if reply.Events, err = forOperators(records[:min(len(records), api.MaxSheetEvents)]); err != nil {
		return nil, err
	}
	if reply.Evidence, err = evidenceOf(records, state.LatestEvidence); err != nil {
		return nil, err
	}
	if reply.Readings, err = a.Store.Readings(ctx, reply.Evidence.Quotes); err != nil {
		return nil, err
	}
	var missing []api.Quote
	for _, r := range reply.Readings {
		if r.Finding == api.QuoteMissing {
			missing = append(missing, r.Quote)
		}
	}
	quotes := slices.DeleteFunc(slices.Clone(reply.Evidence.Quotes),
		func(q api.Quote) bool { return slices.Contains(missing, q) })
	if reply.Suggestions, err = a.Store.Suggestions(ctx, c.id, quotes, missing); err != nil {
		return nil, err
	}
	switch without := c.params["without"]; {
	case without != "":
		reply.OpinionFacts, err = a.Store.OpinionFacts(ctx, without)
	case state.LatestReview != "":
		reply.Opinion, err = a.Store.Opinion(ctx, state.LatestReview)
	}
	return reply, err
}

func (a API) findQuotes(c call) (any, error) {
	var in api.QuoteSearch
	if err := json.NewDecoder(http.MaxBytesReader(c.Writer, c.Request.Body, maxReview)).Decode(&in); err != nil ||
		len(in.Quotes) > api.MaxQuoteSearch {
		return nil, problem.New(problem.InvalidParameter,
			`The body must be {"quotes": [...]} with at most 200 quotes.`).Because(err)
	}
	readings, err := a.Store.FindOnTexts(c.ctx, in.Quotes)
	return api.QuoteFindings{Readings: readings}, err
}

func (a API) opinionRequests(c call) (any, error) {
	actor, err := web.Actor(c.Context)
	if err != nil {
		return nil, err
	}
	requests, err := a.Store.OpinionRequests(c.ctx, actor)
	return api.OpinionList{Requests: requests}, err
}

func (a API) pages(c call) (any, error) {
	ctx, cancel := context.WithTimeout(c.ctx, asOfTimeout)
	defer cancel()
	texts, err := a.Store.PageTexts(ctx, c.id)
	if err == nil && len(texts.Pages) == 0 {
		err = problem.NoSuch("listing")
	}
	return texts, err
}

// readPages makes the pages of a record due now. The link checker reads them under its own rules.
func (a API) readPages(c call) (any, error) {
	if _, err := web.Actor(c.Context); err != nil {
		return nil, err
	}
	ctx, now := c.ctx, a.Now()
	if err := a.known(ctx, c.id); err != nil {
		return nil, err
	}
	totals, err := a.Store.LinkTotals(ctx)
	if err != nil {
		return nil, err
	}
	if a.ReadNow == nil && now.Sub(time.UnixMicro(totals.EndedAt)) > 25*time.Hour { // a run ends each day
		return api.PagesDue{Note: "Link checks are off: no run has ended in the last day. " +
			"To switch them on, set linkChecks.enabled in the chart, or OPPORTUNITY_LINK_CHECKS=true and a public " +
			"OPPORTUNITY_LINK_CHECK_CONTACT with \"opportunity up\"."}, nil
	}
	due := api.PagesDue{Note: "The next run of the link checker reads them."}
	if due.Pages, err = a.Store.MakeDue(ctx, c.id, now); err != nil {
		return nil, err
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
	return due, nil
}

// readings returns the listings by the findings for their quotes.
func (a API) readings(c call) (any, error) {
	return a.Store.ReadingMarks(c.ctx)
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
	done, err := a.Store.Review(c.ctx, now, event.Proposal{ReviewAppend: in, Line: line, Sent: string(sent)})
	if errors.Is(err, event.ErrNoOpinion) {
		return reject(api.Problems{{
			Path: "secondOpinionOf", Message: "must be a review in your list of requested second opinions",
		}})
	}
	if other := new(event.TextsError); errors.As(err, &other) {
		report.Texts = other.Texts
		return report, nil
	}
	if unseen := new(event.UnseenError); errors.As(err, &unseen) {
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
