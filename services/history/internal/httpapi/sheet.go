package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
)

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

// evidenceOf returns the evidence of the record with the id, the zero value if there is none.
func evidenceOf(records []event.Record, id string) (found api.Evidence, err error) {
	if i := slices.IndexFunc(records, func(r event.Record) bool { return r.ID == id }); i >= 0 {
		private, err := records[i].Private()
		return *cmp.Or(private, &found), err
	}
	found.Complete()
	return found, nil
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
