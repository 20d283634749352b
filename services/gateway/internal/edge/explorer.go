package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/proxy"
)

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
