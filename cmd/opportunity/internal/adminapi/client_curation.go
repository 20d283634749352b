package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"opportunity.internal/pkg/api"
)

// Me returns the name and the role of the caller.
func (c Client) Me(ctx context.Context) (api.Operator, []byte, error) {
	return call[api.Operator](ctx, c, http.MethodGet, "/me", nil)
}

// Queue returns a page of the review queue. filters are name and value, one after the other; empty values are left out.
func (c Client) Queue(ctx context.Context, filters ...string) (api.ReviewQueue, []byte, error) {
	return call[api.ReviewQueue](ctx, c, http.MethodGet, "/reviews/queue"+query(filters...), nil)
}

// SecondOpinions lists the reviews of others that were drawn for the caller's opinion.
func (c Client) SecondOpinions(ctx context.Context) (api.OpinionList, []byte, error) {
	return call[api.OpinionList](ctx, c, http.MethodGet, "/reviews/second-opinions", nil)
}

// OpinionSheet returns the sheet for a second opinion on a review, without what that review says.
func (c Client) OpinionSheet(ctx context.Context, id, review string) (api.ReviewSheet, []byte, error) {
	return call[api.ReviewSheet](ctx, c, http.MethodGet, sheetPath(id)+query("secondOpinionOf", review), nil)
}

// PageTexts returns the texts of a record's pages as the machine read them.
func (c Client) PageTexts(ctx context.Context, id string) (api.PageTexts, []byte, error) {
	return call[api.PageTexts](ctx, c, http.MethodGet, "/records/"+url.PathEscape(id)+"/pages", nil)
}

// FindQuotes looks for quotes on the stored texts of their pages.
func (c Client) FindQuotes(ctx context.Context, quotes []api.Quote) (api.QuoteFindings, []byte, error) {
	return call[api.QuoteFindings](ctx, c, http.MethodPost, "/reviews/quotes", encoded(api.QuoteSearch{Quotes: quotes}))
}

// Review submits a review of a listing. The report says whether it was recorded, rejected, or preceded by newer events.
func (c Client) Review(ctx context.Context, id string, s api.ReviewSubmission) (api.ReviewReport, []byte, error) {
	return call[api.ReviewReport](ctx, c, http.MethodPost, sheetPath(id), encoded(s))
}

// UndoReview records an event that undoes the caller's latest review of a listing.
func (c Client) UndoReview(ctx context.Context, id, review string) (api.ReviewReport, []byte, error) {
	return call[api.ReviewReport](ctx, c, http.MethodPost, sheetPath(id)+"/undo", encoded(api.UndoRequest{EventID: review}))
}

// Lease takes or renews the lease of a listing. It returns the lease of another holder, unless takeOver is set.
func (c Client) Lease(ctx context.Context, id string, takeOver bool) (api.Lease, []byte, error) {
	return call[api.Lease](ctx, c, http.MethodPut, sheetPath(id)+"/lease", encoded(api.LeaseRequest{TakeOver: takeOver}))
}

// SaveDraft stores the caller's draft for a listing.
func (c Client) SaveDraft(ctx context.Context, id string, content json.RawMessage) (api.Draft, []byte, error) {
	return call[api.Draft](ctx, c, http.MethodPut, sheetPath(id)+"/draft", encoded(content))
}

// DeleteDraft deletes the caller's draft for a listing.
func (c Client) DeleteDraft(ctx context.Context, id string) error {
	_, _, err := call[any](ctx, c, http.MethodDelete, sheetPath(id)+"/draft", nil)
	return err
}

// Skip hides a listing from the queue for a time.
func (c Client) Skip(ctx context.Context, id string, s api.SkipRequest) (api.Skip, []byte, error) {
	return call[api.Skip](ctx, c, http.MethodPut, sheetPath(id)+"/skip", encoded(s))
}

// Edit replaces the version of a listing by a line of a listings file. dry only reports what would change. If the listing has another
// version, the report has that one.
func (c Client) Edit(ctx context.Context, id, version string, line json.RawMessage, dry bool) (api.EditReport, []byte, error) {
	path := "/records/" + url.PathEscape(id)
	if dry {
		path += "?dryRun=true"
	}
	return call[api.EditReport](ctx, c, http.MethodPut, path, bytes.NewReader(line), "If-Match", `"`+version+`"`)
}

// Changes lists what operators did to listings, newest first. filters are name and value, one after the other; empty values are left out.
func (c Client) Changes(ctx context.Context, filters ...string) (api.ListingActList, []byte, error) {
	return call[api.ListingActList](ctx, c, http.MethodGet, "/changes"+query(filters...), nil)
}

// Events lists recorded events, the last recorded first. filters are as in Changes.
func (c Client) Events(ctx context.Context, filters ...string) (api.EventActList, []byte, error) {
	return call[api.EventActList](ctx, c, http.MethodGet, "/events"+query(filters...), nil)
}

// Usage returns the calls of the last days by day and tier.
func (c Client) Usage(ctx context.Context, days int) (api.UsageReport, []byte, error) {
	return call[api.UsageReport](ctx, c, http.MethodGet, "/usage"+query("days", strconv.Itoa(days)), nil)
}

// Candidates returns a page of the private listings. filters are name and value, one after the other; empty values are left out.
func (c Client) Candidates(ctx context.Context, filters ...string) (api.CandidateList, []byte, error) {
	return call[api.CandidateList](ctx, c, http.MethodGet, "/reviews/candidates"+query(filters...), nil)
}

// Freshness returns the backlog now, over time and ahead.
func (c Client) Freshness(ctx context.Context) (api.Freshness, []byte, error) {
	return call[api.Freshness](ctx, c, http.MethodGet, "/reviews/freshness", nil)
}

func sheetPath(id string) string { return "/reviews/records/" + url.PathEscape(id) }
