package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/proxy"
)

func isPage(path string) bool {
	return strings.HasPrefix(path, string(opAccount)) || strings.HasPrefix(path, string(opSandbox))
}

func (e *Edge) accountPage(x *exchange) error {
	if x.Request.Method == http.MethodPost && strings.HasPrefix(x.path, api.ExplorerPath+"/") {
		return e.explore(x)
	}
	return e.page(e.Account)(x)
}

// page returns the step that forwards a browser's request to the pages of a service. It reads no
// key, charges nothing and needs no Redis: the service itself authenticates and rate-limits.
func (e *Edge) page(service *proxy.Service) step {
	return func(x *exchange) error { return e.pass(x, service, e.forms, api.MaxForm) }
}

func (e *Edge) pass(x *exchange, service *proxy.Service, bodies *bodies, limit int64) error {
	client := e.client(x.Request)
	body, release, err := bodies.read(x.Writer, x.Request, limit, client)
	if err != nil {
		return err
	}
	defer release()
	return x.take(service.Page(x.Request, x.path, body, client))
}

// webhook forwards a webhook event of the payment processor to billing. The body stays unchanged,
// because billing verifies its signature; an event without one is rejected before its body is read.
func (e *Edge) webhook(x *exchange) error {
	if x.Request.Header.Get(proxy.SignatureHeader) == "" {
		return problem.New(problem.InvalidParameter, "The %s header is missing.", proxy.SignatureHeader)
	}
	return e.pass(x, e.Billing, e.events, api.MaxWebhookEvent)
}

func (e *Edge) document(x *exchange) error { return x.take(e.History.Forward(x.Request, x.path, "")) }

func (e *Edge) doc(x *exchange) error {
	x.Abort()
	return e.Pages.Serve(x.Writer, x.Request)
}

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

// explore serves a submitted form of the explorer. authquota checks the session and the form, and
// names the call to make. The call is admitted, charged and recorded like one with the key itself.
// authquota then renders its response.
//
// The gateway takes the principal from a response of authquota only. So there is no endpoint
// through which a stolen token of a service could make calls for an account.
func (e *Edge) explore(x *exchange) error {
	r, client := x.Request, e.client(x.Request)
	form, release, err := e.forms.read(x.Writer, r, api.MaxForm, client)
	if err != nil {
		return err
	}
	defer release()
	response, err := e.Account.Page(r, x.path, form, client)
	// such as a redirect to the sign-in, or a problem of the form
	if err != nil || response.Header.Get(api.ExplorerHeader) == "" {
		return x.take(response, err)
	}
	response.Body.Close()
	var call api.ExplorerCall
	if err := json.Unmarshal([]byte(response.Header.Get(api.ExplorerHeader)), &call); err != nil {
		return upstream{err}
	}
	result, err := e.explorerCall(x, call)
	if err != nil {
		return upstream{err}
	}
	result.Form = form
	body, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return x.take(e.Account.Explored(r, x.path, body, client))
}

// explorerCall makes a call and returns its response, which can be an error of the API. An error
// means that authquota's message is invalid.
func (e *Edge) explorerCall(x *exchange, c api.ExplorerCall) (api.ExplorerResult, error) {
	key, err := authn.Resolved(c.Principal)
	if err != nil {
		return api.ExplorerResult{}, err
	}
	address, err := url.ParseRequestURI(c.Target)
	if err != nil {
		return api.ExplorerResult{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithValue(x.Request.Context(), keyOfCall{}, key), api.GatewayTimeout)
	defer cancel()
	buffer := e.inner(ctx, x, address, c.Header, api.MaxExplorerBody)
	result := api.ExplorerResult{Status: buffer.status, Header: buffer.header, Body: buffer.body, Size: buffer.size}
	// otherwise it was rejected before the charge
	result.Charged = isCharged(buffer.status) && result.Value("X-RateLimit-Limit") != ""
	return result, nil
}

func (e *Edge) inner(ctx context.Context, x *exchange, address *url.URL, header http.Header,
	limit int) (buffer *responseBuffer) {
	call := (&http.Request{
		Method: http.MethodGet, URL: address, Header: header, Body: http.NoBody, RemoteAddr: x.Request.RemoteAddr,
	}).WithContext(ctx)
	buffer = &responseBuffer{header: http.Header{api.RequestIDHeader: x.Writer.Header()[api.RequestIDHeader]}, max: limit}
	if !strings.HasPrefix(address.Path, "/api/") {
		e.Errors.Write(buffer, call, notFound(nil))
		return buffer
	}
	defer func() {
		if cause := recover(); cause != nil { // from observe: the response ended early
			e.Errors.Write(buffer, call, problem.Unavailable(cmp.Or(ctx.Err(), proxy.ErrTruncated)))
		}
	}()
	e.engine.ServeHTTP(buffer, call)
	return buffer
}

// responseBuffer holds the response of a call that another request makes. A second response
// replaces the first.
type responseBuffer struct {
	header http.Header
	max    int // bytes of body
	status int
	body   []byte
	size   int // of the whole body
}

func (b *responseBuffer) Header() http.Header { return b.header }

func (b *responseBuffer) WriteHeader(status int) { b.status, b.body, b.size = status, nil, 0 }

func (b *responseBuffer) Write(p []byte) (int, error) {
	b.size += len(p)
	b.body = append(b.body, p[:min(len(p), b.max-len(b.body))]...)
	return len(p), nil
}
