package edge

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/docsite"
)

// brief lets caches keep a response for a few seconds only: a withdrawn record disappears at once.
const brief = "public, max-age=5"

func (e *Edge) recordPage(x *exchange) error {
	rec, err := e.publicRecord(x.Request.Context(), path.Base(x.path))
	if err != nil {
		return err
	}
	page, err := e.Pages.RecordPage(rec)
	if err != nil {
		return err
	}
	docsite.Protect(x.Writer.Header())
	x.write(http.StatusOK, "text/html; charset=utf-8", brief, page)
	return nil
}

// recordEvent serves the proof of the newest event of a record in the free set, which has the
// event.
func (e *Edge) recordEvent(x *exchange) error {
	rec, err := e.publicRecord(x.Request.Context(), path.Base(path.Dir(x.path)))
	if err != nil {
		return err
	}
	if !rec.Free || len(rec.Events) == 0 {
		return problem.New(problem.NotFound,
			"Only records in the free set have a public event. The history of others needs a key. "+
				"It has the ids of the events, and each has its proof at /.well-known/opportunity-history/log/proof/ and its id.")
	}
	x.path, x.Request.URL.RawQuery = string(opLog)+"/proof/"+url.PathEscape(rec.Events[0].ID), ""
	if err := e.document(x); err != nil {
		return err
	}
	if x.response.StatusCode < http.StatusBadRequest {
		x.response.Header.Set("Cache-Control", brief)
	}
	return nil
}

func (e *Edge) publicRecord(ctx context.Context, id string) (rec api.PublicRecord, err error) {
	err = e.Records.Get(ctx, "/internal/v1/public-records/"+id, &rec)
	if missing := new(peer.StatusError); errors.As(err, &missing) && missing.Status == http.StatusNotFound {
		return rec, problem.New(problem.NotFound, "%s", missing.Message)
	}
	return rec, fromService(err)
}
