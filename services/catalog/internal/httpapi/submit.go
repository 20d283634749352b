package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/store"
)

// sheet returns the review sheet of a listing. Its events come from the history service, because
// the copied summaries may be stale. It fails with 503 while that service is unavailable: a review
// could not be recorded either.
func (a API) sheet(r request) (web.Reply, error) {
	sheet, err := a.reviewSheet(r.context(), r.id(), r.values["secondOpinionOf"])
	if err == nil {
		err = a.Curation.AddWork(r.context(), sheet.Record.ID, r.actor, &sheet)
	}
	return web.Reply{JSON: sheet}, err
}

// reviewSheet returns the sheet without the event with the id without, which may be empty.
func (a API) reviewSheet(ctx context.Context, id, without string) (api.ReviewSheet, error) {
	var history api.ReviewHistory
	if api.ValidSlug(id) {
		path := "/internal/v1/records/" + id
		if without != "" {
			path += "?without=" + url.QueryEscape(without)
		}
		if err := fromHistory(a.History.Get(ctx, path, &history)); err != nil {
			return api.ReviewSheet{}, err
		}
	}
	return a.Listings.Sheet(ctx, id, history)
}

// fromHistory converts an error of the history service. A release without the requested endpoint
// counts as an outage: it is being upgraded.
func fromHistory(err error) error {
	if failed := new(peer.StatusError); errors.As(err, &failed) && failed.Status == http.StatusNotFound {
		return problem.Unavailable(err)
	}
	return err
}

type submission struct {
	api.ReviewSubmission

	Review json.RawMessage `json:"review"` // decoded strictly by review
}

// review records a review of a listing and ends the curator's work on it. It responds with 409 if
// events were recorded since the sheet. A repeated submission has no further effect, so a client
// can retry after any failure.
func (a API) review(r request, in submission) (web.Reply, error) {
	ctx, id := r.context(), r.id()
	if err := a.Curation.Exists(ctx, id); err != nil {
		return web.Reply{}, err
	}
	review := api.ReviewAppend{ReviewSubmission: in.ReviewSubmission, Actor: r.actor}
	problems := jsonlines.Decode(in.Review, &review.Review)
	if len(problems) == 0 {
		problems = review.Review.For(id)
		if review.Review.LastEventID == nil {
			problems.Add("lastEventId", `is missing: send the newest event of the sheet, "" if there is none`)
		}
	}
	if len(problems) > 0 {
		return rejected(id, problems), nil
	}
	problems, err := a.check(ctx, id, &review)
	if err != nil {
		return web.Reply{}, err
	}
	if len(problems) > 0 {
		return rejected(id, problems), nil
	}
	return a.append(ctx, id, review)
}

// check returns the problems of a review that the catalog can see: changes of the listing that
// cannot be applied, and an unchanged review that was chosen to be accepted only after an opening.
func (a API) check(ctx context.Context, id string, r *api.ReviewAppend) (p api.Problems, err error) {
	if len(r.Changes) > 0 {
		if r.SecondOpinionOf != "" {
			p.Add("changes", "must be left out of a second opinion")
			return p, nil
		}
		return a.Listings.EditInReview(ctx, r.Actor, id, r.Changes, true)
	}
	if r.SecondOpinionOf != "" || r.Review.Outcome != api.OutcomeVerified || r.Review.Facts == nil {
		return nil, nil
	}
	needs, opened, err := a.Curation.NeedsOpening(ctx, id, r.Actor, *r.Review.LastEventID)
	if err != nil || !needs {
		return nil, err
	}
	if r.Opened = opened; opened != "" {
		return nil, nil
	}
	sheet, err := a.reviewSheet(ctx, id, "")
	if err != nil {
		return nil, err
	}
	// On an older sheet, history decides: a repeated submission has no further effect.
	if *r.Review.LastEventID == sheet.LastEventID && r.Review.Facts.Same(sheet.CurrentFacts()) {
		p.Add("sourceUrls", "one unchanged review in ten, chosen at random, needs a look at a source, and this is one: "+
			"open a source from the record's sheet on the desk, signed in under the same name, then submit again")
	}
	return p, nil
}

func rejected(id string, p api.Problems) web.Reply {
	var report api.ReviewReport
	report.Rejected = []api.RejectedLine{{Line: 1, ID: id, Problems: p}}
	return web.Reply{JSON: report}
}

func (a API) append(ctx context.Context, id string, review api.ReviewAppend) (web.Reply, error) {
	var done api.ReviewReport
	if err := fromHistory(a.History.Post(ctx, "/internal/v1/reviews", review, &done)); err != nil {
		return web.Reply{}, err
	}
	if !done.Applied {
		status := http.StatusOK
		if len(done.Newer) > 0 {
			status = http.StatusConflict
		}
		return web.Reply{Status: status, JSON: done}, nil
	}
	if len(review.Changes) > 0 {
		// Only a change in the meantime can be a problem, and the sheet then shows both values.
		if _, err := a.Listings.EditInReview(ctx, review.Actor, id, review.Changes, false); err != nil {
			return web.Reply{}, err
		}
	}
	if e := review.Review.Evidence; e != nil && e.Closed == api.ClosedEnded && done.Appended > 0 {
		if err := a.Listings.Decide(ctx, id, review.Actor, store.Proposed, api.ReasonEnded); err != nil {
			return web.Reply{}, err
		}
	}
	_ = a.CatchUp(ctx) // so that the next page shows it; otherwise the copy gets it soon
	return web.Reply{JSON: done}, a.Curation.Finish(ctx, id, review.Actor)
}

// undo records an event that undoes the operator's own latest review. It responds with 409 if
// anything was recorded after that review.
func (a API) undo(r request, in api.UndoRequest) (web.Reply, error) {
	sheet, err := a.reviewSheet(r.context(), r.id(), "")
	if err != nil {
		return web.Reply{}, err
	}
	i := slices.IndexFunc(sheet.Events, func(e api.RecordedEvent) bool { return e.ID == in.EventID })
	if i < 0 || sheet.Events[i].CheckType != api.FactualReview || sheet.Events[i].Actor != r.actor {
		return web.Reply{}, problem.Invalid("eventId", "must be the id of your own latest review of this listing")
	}
	review := api.ReviewAppend{Actor: r.actor, Undoes: in.EventID}
	review.Review = api.Review{
		CheckedAt: sheet.GeneratedAt, Outcome: api.OutcomeNeedsReview, Note: "Undoes the review " + in.EventID + ".",
		LastEventID: &in.EventID,
	}
	review.Review.For(sheet.Record.ID)
	return a.append(r.context(), sheet.Record.ID, review)
}
