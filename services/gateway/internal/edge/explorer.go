package edge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/proxy"
)

// explore serves a submitted form of the explorer. authquota checks the session and the form, and names the call to make. The call is
// admitted, charged and recorded like one with the key itself. authquota then renders its response.
//
// The gateway takes the principal from a response of authquota only. So there is no endpoint through which a stolen token of a service
// could make calls for an account.
func (e *Edge) explore(w http.ResponseWriter, r *http.Request, to target) (int, error) {
	form, release, err := e.forms.read(w, r, api.MaxForm, e.client(r))
	if err != nil {
		return 0, err
	}
	defer release()
	response, err := e.Account.Page(r, to.path, form, e.client(r))
	if err != nil || response.Header.Get(api.ExplorerHeader) == "" { // such as a redirect to the sign-in, or a problem of the form
		return e.write(w, response, err)
	}
	response.Body.Close()
	var call api.ExplorerCall
	if err := json.Unmarshal([]byte(response.Header.Get(api.ExplorerHeader)), &call); err != nil {
		return 0, upstream{err}
	}
	result, err := e.explorerCall(w, r, call)
	if err != nil {
		return 0, upstream{err}
	}
	result.Form = form
	body, err := json.Marshal(result)
	if err != nil {
		return 0, err
	}
	response, err = e.Account.Explored(r, to.path, body, e.client(r))
	return e.write(w, response, err)
}

// explorerCall makes a call and returns its response, which can be an error of the API. An error means that authquota's message is
// invalid.
func (e *Edge) explorerCall(w http.ResponseWriter, r *http.Request, c api.ExplorerCall) (api.ExplorerResult, error) {
	key, err := authn.Resolved(c.Principal)
	if err != nil {
		return api.ExplorerResult{}, err
	}
	address, err := url.ParseRequestURI(c.Target)
	if err != nil {
		return api.ExplorerResult{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), api.GatewayTimeout)
	defer cancel()
	call := (&http.Request{Method: http.MethodGet, URL: address, Header: c.Header, Body: http.NoBody, RemoteAddr: r.RemoteAddr}).WithContext(ctx)
	buffer := &responseBuffer{header: http.Header{api.RequestIDHeader: w.Header()[api.RequestIDHeader]}, max: api.MaxExplorerBody}
	e.inner(buffer, call, address, func(to target) handler { return e.callWith(key, e.serviceOf(to)) })
	result := api.ExplorerResult{Status: buffer.status, Header: buffer.header, Body: buffer.body, Size: buffer.size}
	result.Charged = isCharged(buffer.status) && result.Value("X-RateLimit-Limit") != "" // otherwise it was rejected before the charge
	return result, nil
}

// inner serves a call that another request makes. A response that ends early is an error, because the buffer drops its start.
func (e *Edge) inner(buffer *responseBuffer, call *http.Request, address *url.URL, handlerOf func(target) handler) {
	to, ok := matchCall(address)
	handle := notFound
	if ok {
		handle = handlerOf(to)
	} else {
		to.operation = unmatched
	}
	e.observed(buffer, call, to, func(w http.ResponseWriter, r *http.Request, to target, end *observation) (int, error) {
		status, err := handle(w, r, to, end)
		if errors.Is(err, proxy.ErrTruncated) {
			if errors.Is(err, context.Canceled) {
				return 0, problem.Unavailable(context.Canceled)
			}
			return 0, upstream{problem.Unavailable(errors.New(err.Error()))}
		}
		return status, err
	})
}

// serviceOf returns the service that serves an API call.
func (e *Edge) serviceOf(to target) *proxy.Service {
	if to.operation == opHistory {
		return e.History
	}
	return e.Catalog
}

// responseBuffer holds the response of a call that another request makes. A second response replaces the first.
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
