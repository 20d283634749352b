package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"opportunity.internal/pkg/api"
)

// Queue returns a page of the review queue. filters are name and value, one after the other; empty
// values are left out.
func (c Client) Queue(ctx context.Context, filters ...string) (api.ReviewQueue, []byte, error) {
	return call[api.ReviewQueue](ctx, c, http.MethodGet, "/reviews/queue"+query(filters...), nil)
}

// Review submits a review of a listing. The report says whether it was recorded, rejected, or
// preceded by newer events.
func (c Client) Review(ctx context.Context, id string, s api.ReviewSubmission) (api.ReviewReport, []byte, error) {
	return call[api.ReviewReport](ctx, c, http.MethodPost, sheetPath(id), encoded(s))
}

// Lease takes or renews the lease of a listing. It returns the lease of another holder, unless
// takeOver is set.
func (c Client) Lease(ctx context.Context, id string, takeOver bool) (api.Lease, []byte, error) {
	return call[api.Lease](ctx, c, http.MethodPut, sheetPath(id)+"/lease", encoded(api.LeaseRequest{TakeOver: takeOver}))
}

// SaveDraft stores the caller's draft for a listing.
func (c Client) SaveDraft(ctx context.Context, id string, content json.RawMessage) (api.Draft, []byte, error) {
	return call[api.Draft](ctx, c, http.MethodPut, sheetPath(id)+"/draft", encoded(content))
}

// Edit replaces the version of a listing by a line of a listings file. dry only reports what would
// change. If the listing has another version, the report has that one.
func (c Client) Edit(ctx context.Context, id, version string, line json.RawMessage, dry bool) (api.EditReport, []byte,
	error) {
	path := "/records/" + url.PathEscape(id)
	if dry {
		path += "?dryRun=true"
	}
	return call[api.EditReport](ctx, c, http.MethodPut, path, bytes.NewReader(line), "If-Match", `"`+version+`"`)
}

// Events lists recorded events, the last recorded first. filters are as in Changes.
func (c Client) Events(ctx context.Context, filters ...string) (api.EventActList, []byte, error) {
	return call[api.EventActList](ctx, c, http.MethodGet, "/events"+query(filters...), nil)
}

// Candidates returns a page of the private listings. filters are name and value, one after the
// other; empty values are left out.
func (c Client) Candidates(ctx context.Context, filters ...string) (api.CandidateList, []byte, error) {
	return call[api.CandidateList](ctx, c, http.MethodGet, "/reviews/candidates"+query(filters...), nil)
}

func sheetPath(id string) string { return "/reviews/records/" + url.PathEscape(id) }
