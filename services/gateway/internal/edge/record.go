package edge

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/proxy"
)

const (
	opRecordPage  operation = "/records/{id}"       // the permalink of a record
	opRecordEvent operation = "/records/{id}/event" // the newest event of a record in the free set, in its proof
)

// Callers as whom the gateway reads a record for its permalink: one sees all public records, the
// other those of the free set.
var (
	wholeCaller = callerText(api.Caller{Tier: wholeTier(), PageSize: docs.RecordEvents, History: true})
	freeCaller  = callerText(api.Caller{Tier: api.BaseTier, PageSize: 1})
)

// wholeTier returns a tier with all records and their history.
func wholeTier() api.Tier {
	return api.Tiers[slices.IndexFunc(api.Tiers, func(t api.TierInfo) bool { return t.AllRecords && t.Limits.History })].Tier
}

func callerText(c api.Caller) string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// recordOf returns the target of a permalink.
func recordOf(o operation, u *url.URL) (target, bool) {
	id, _, _ := strings.Cut(strings.TrimPrefix(u.Path, docs.RecordPath), "/")
	_, plain := plainOf(o, u)
	return target{o, id}, plain && id != ""
}

// recordPage serves the permalink of a public record. It reads no key and charges nothing.
func (e *Edge) recordPage(w http.ResponseWriter, r *http.Request, to target, _ *observation) (int, error) {
	rec, err := e.publicRecord(r, to.path)
	if err != nil {
		return 0, err
	}
	page, err := e.Pages.RecordPage(rec)
	if err != nil {
		return 0, err
	}
	docs.Protect(w.Header())
	return writeBriefly(w, "text/html; charset=utf-8", page)
}

// recordEvent serves the proof of the newest event of a record in the free set, which has the
// event.
func (e *Edge) recordEvent(w http.ResponseWriter, r *http.Request, to target, _ *observation) (int, error) {
	rec, err := e.publicRecord(r, to.path)
	if err != nil {
		return 0, err
	}
	if !rec.Free || len(rec.Events) == 0 {
		return 0, problem.New(problem.NotFound, "Only records in the free set have a public event. The history of others needs a key. "+
			"It has the ids of the events, and each has its proof at /.well-known/opportunity-history/log/proof/ and its id.")
	}
	proof, err := e.read(r, e.History, "/.well-known/opportunity-history/log/proof/"+rec.Events[0].ID, "", "")
	if err != nil {
		return 0, err
	}
	return writeBriefly(w, "text/plain; charset=utf-8", proof)
}

// writeBriefly writes a body that caches may keep for a few seconds: a withdrawn record disappears
// at once.
func writeBriefly(w http.ResponseWriter, kind string, body []byte) (int, error) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "public, max-age=5")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client disconnected
	return http.StatusOK, nil
}

// publicRecord returns a public record and its latest events.
func (e *Edge) publicRecord(r *http.Request, id string) (rec docs.Record, err error) {
	path := string(opList) + "/" + url.PathEscape(id)
	var detail api.OpportunityDetail
	if err := e.decode(r, e.Catalog, path, "", wholeCaller, &detail); err != nil {
		return rec, err
	}
	rec.Record, rec.At = detail.Data, detail.Meta.GeneratedAt
	err = e.decode(r, e.Catalog, path, "", freeCaller, &detail)
	if rec.Free = err == nil; err != nil && problem.Of(err).Code != problem.NotFound {
		return rec, err
	}
	var events api.EventList
	err = e.decode(r, e.History, path+"/history", "limit="+strconv.Itoa(docs.RecordEvents), wholeCaller, &events)
	rec.Events = events.Data
	return rec, err
}

// maxRecord bounds the responses about one record, in bytes.
const maxRecord = 4 << 20

func (e *Edge) decode(r *http.Request, service *proxy.Service, path, query, caller string, out any) error {
	body, err := e.read(r, service, path, query, caller)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return upstream{err}
	}
	return nil
}

// read reads a path of a service with the trace of r and none of its headers. A 404 of the service
// is an error with that code.
func (e *Edge) read(r *http.Request, service *proxy.Service, path, query, caller string) ([]byte, error) {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, err
	}
	request := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: plain, RawQuery: query}, Header: http.Header{}}).WithContext(r.Context())
	send := func() (proxy.Response, error) { return service.Forward(request, path, caller) }
	if caller == "" {
		send = func() (proxy.Response, error) { return service.Document(request, path) }
	}
	response, err := send()
	if err != nil {
		return nil, upstream{err}
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, problem.New(problem.NotFound, "There is no public record with this id.")
	default:
		return nil, problem.Unavailable(nil)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRecord))
	if err != nil {
		return nil, upstream{problem.Unavailable(err)}
	}
	return body, nil
}
