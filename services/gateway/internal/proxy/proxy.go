// Package proxy forwards requests to the services behind the gateway and writes their responses.
//
// Nothing passes by default in either direction. The request to a service is built from the method,
// the matched path, the query, the conditional headers, the caller and the token of the gateway, so
// a client cannot inject a key or an identity. Responses pass only with the statuses and headers of
// the API contract; anything else is an error. Pages for browsers follow other rules: see
// Service.Page.
package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

// Service is one service behind the gateway.
type Service struct {
	name      string
	base      *url.URL
	token     []string
	transport http.RoundTripper
}

// New returns a proxy to the service name at a URL. token is that of the gateway for it; transport
// sets the timeouts.
func New(name string, base *url.URL, token string, transport http.RoundTripper) *Service {
	return &Service{name, base, []string{"Bearer " + token}, transport}
}

// Allowed headers of API requests and responses, in canonical form.
var (
	requestHeaders  = []string{"Accept", "Accept-Encoding", "If-None-Match"}
	responseHeaders = []string{"Content-Type", "Content-Encoding", "Content-Length", "Etag", "Cache-Control", "Vary",
		"Link", "Deprecation", "Sunset"}
)

// Forward sends the API request r to the service, on the given escaped path. caller is the value of
// api.CallerHeader; without one, r is for a public document of any media type. The error is a
// problem.Error for the client: the service is unavailable or its response violates the API
// contract.
func (s *Service) Forward(r *http.Request, path, caller string) (Response, error) {
	header, kind := pick(r, requestHeaders), ""
	if caller != "" {
		header[api.CallerHeader], kind = []string{caller}, "application/json"
	}
	resp, err := s.send(r, path, header, nil, 0)
	if err != nil {
		return Response{}, err
	}
	if err := s.checkContract(resp, kind); err != nil {
		resp.Body.Close()
		return Response{}, err
	}
	return Response{Response: resp}, nil
}

func pick(r *http.Request, names []string) http.Header {
	header := make(http.Header, 8)
	for _, name := range names {
		if v := r.Header[name]; v != nil {
			header[name] = v
		}
	}
	return header
}

// send sends the request to the service. The Host header is that of the service, because the
// client's is not trusted. length is that of the body, or -1 if it is unknown.
func (s *Service) send(r *http.Request, path string, header http.Header, body io.Reader, length int64) (*http.Response,
	error) {
	header["Authorization"] = s.token
	if id := telemetry.RequestID(r.Context()); id != "" { // otherwise its Transport would copy the request to add it
		header[api.RequestIDHeader] = []string{id}
	}
	if header["User-Agent"] == nil {
		header["User-Agent"] = nil // keeps the transport from adding its own
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, err
	}
	to := &url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: plain, RawPath: path, RawQuery: r.URL.RawQuery}
	out := (&http.Request{
		Method: r.Method, URL: to, Host: to.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(r.Context())
	if length != 0 {
		out.Body, out.ContentLength = io.NopCloser(body), length
	}
	resp, err := s.transport.RoundTrip(out)
	if err == nil {
		return resp, nil
	}
	if ours, ok := errors.AsType[*problem.Error](err); ok { // of the body
		return nil, ours
	}
	return nil, problem.Unavailable(err)
}

// checkContract returns an error if the status or the media type is not in the API contract. An
// empty kind accepts any media type.
func (s *Service) checkContract(resp *http.Response, kind string) error {
	switch status := resp.StatusCode; status {
	case http.StatusNotModified:
		return nil
	case http.StatusOK, http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound, http.StatusGone:
		if is := resp.Header.Get("Content-Type"); !strings.HasPrefix(is, kind) {
			return problem.Of(fmt.Errorf("status %d with media type %q", status, is))
		}
		return nil
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return problem.Unavailable(fmt.Errorf("status %d", status))
	case http.StatusUnauthorized, http.StatusForbidden:
		return s.rejected()
	default:
		return problem.Of(fmt.Errorf("status %d", status))
	}
}

// rejected returns the error (503) for a service that rejects the token of the gateway. Until an
// operator corrects the setting, it is an outage of the service: other replicas may have the right
// token, so a retry can succeed. The log names the setting.
func (s *Service) rejected() error {
	return problem.Unavailable(peer.RejectedToken(peer.Gateway, s.name))
}

// pageHeaders are the headers of browsers and of webhook events that pass to the service. Referer
// is not among them: it may contain the token of a mailed link.
var pageHeaders = []string{
	"Accept", "Accept-Language", "Content-Type", "Cookie", "If-Modified-Since", "If-None-Match", "Origin",
	"Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", SignatureHeader, "User-Agent",
}

// SignatureHeader holds the payment processor's signature of a webhook event.
const SignatureHeader = "Stripe-Signature"

// Page sends the request r of a browser, or a webhook event, with its body to the service. client
// is the address of the sender.
//
// The response passes unchanged, including redirects, cookies and error pages. It is an error only
// if it is not meant for a person: a 502 or 504 of an intermediary, a 503 that is no page, a 101,
// or a 401 or 403 about the token of the gateway.
func (s *Service) Page(r *http.Request, path string, body []byte, client netip.Addr) (Response, error) {
	return s.sendPage(r, path, pick(r, pageHeaders), body, client)
}

// Explored sends the result of a call of the explorer, an api.ExplorerResult as JSON, with the
// headers of the submitted form r. Otherwise it works like Page.
func (s *Service) Explored(r *http.Request, path string, result []byte, client netip.Addr) (Response, error) {
	header := pick(r, pageHeaders)
	header["Content-Type"] = []string{"application/json"}
	header[api.ExplorerHeader] = []string{"result"}
	return s.sendPage(r, path, header, result, client)
}

func (s *Service) sendPage(r *http.Request, path string, header http.Header, body []byte, client netip.Addr) (Response,
	error) {
	if client.IsValid() {
		header[api.ClientHeader] = []string{client.Unmap().WithZone("").String()}
	}
	resp, err := s.send(r, path, header, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return Response{}, err
	}
	switch status := resp.StatusCode; {
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout, status == http.StatusServiceUnavailable &&
		!isPage(resp):
		err = problem.Unavailable(fmt.Errorf("status %d", status))
	case status == http.StatusUnauthorized && resp.Header.Get("Www-Authenticate") == "Bearer",
		status == http.StatusForbidden && !isPage(resp):
		err = s.rejected()
	case status == http.StatusSwitchingProtocols:
		err = problem.Of(fmt.Errorf("status %d", status))
	default:
		return Response{Response: resp, page: true}, nil
	}
	resp.Body.Close()
	return Response{}, err
}

func isPage(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
}

var operatorHeaders = []string{"Accept", "Content-Type", "If-Match"}

// Operate sends the request r of an operator to the service, with its body as a stream. actor is
// the value of api.ActorHeader. The response passes unchanged, as a stream.
//
// It is an error that names the cause if the service rejected the gateway and not the request: its
// 401 and 403 are never about the operator, who would replace a valid token. Without the endpoint,
// the service has another version, or the address belongs to another server.
func (s *Service) Operate(r *http.Request, actor string) (Response, error) {
	header := pick(r, operatorHeaders)
	header[api.ActorHeader] = []string{actor}
	resp, err := s.send(r, r.URL.EscapedPath(), header, r.Body, r.ContentLength)
	if err != nil {
		return Response{}, err
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		err = peer.RejectedToken(peer.Gateway, s.name)
	case http.StatusSwitchingProtocols:
		err = errors.New("it switched protocols")
	case http.StatusNotFound:
		if found := peek(resp).Error; found.Code == "" || found.Path == problem.Endpoint {
			err = fmt.Errorf("it does not serve %s: compare its release and its address in the settings of the gateway",
				r.URL.Path)
		}
	}
	if err != nil {
		resp.Body.Close()
		return Response{}, problem.New(problem.ServiceUnavailable, "The gateway cannot call %s: %v.", s.name, err)
	}
	return Response{Response: resp, page: true, stream: true}, nil
}

// Response is the response of a service with an unread body. Write or close it.
type Response struct {
	*http.Response

	page   bool // for a browser or an operator
	stream bool // each part is sent at once
}

// ErrorCode reads the code of an error response, or "" if it has none, as the response to a HEAD
// request. The body can still be written.
func (r Response) ErrorCode() problem.Code { return problem.Code(peek(r.Response).Error.Code) }

// peek reads the error in a body, which can still be read. It is empty if the body has none.
func peek(r *http.Response) (body api.OperatorError) {
	start, _ := io.ReadAll(io.LimitReader(r.Body, 4<<10)) // the next reader meets the same error
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), r.Body), r.Body}
	_ = json.Unmarshal(start, &body)
	return body
}

// ErrTruncated is returned by Write if it did not write the whole response. The cause is
// context.Canceled if the client disconnected; otherwise the response of the service ended early.
var ErrTruncated = errors.New("response ended early")

// Write writes the response to w and closes it. The only error is ErrTruncated.
func (r Response) Write(w http.ResponseWriter) error {
	defer r.Body.Close()
	if r.page {
		r.writePageHeaders(w.Header())
	} else {
		for _, name := range responseHeaders {
			addHeader(w.Header(), name, r.Header[name])
		}
	}
	w.WriteHeader(r.StatusCode)
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	body := &errorReader{r: r.Body}
	var out io.Writer = onlyWriter{w}
	if r.stream {
		out = flusher{w}
	}
	_, err := io.CopyBuffer(out, body, *buffer)
	switch {
	case body.err != nil:
		return fmt.Errorf("%w: %w", ErrTruncated, body.err)
	case err != nil && !errors.Is(err, http.ErrBodyNotAllowed): // a service should send no body with 304
		return fmt.Errorf("%w: %w: %w", ErrTruncated, context.Canceled, err)
	}
	return nil
}

// addHeader appends v to the header name, without a copy if the header is not set yet.
func addHeader(h http.Header, name string, v []string) {
	if v != nil && h[name] == nil {
		h[name] = v
	} else if v != nil {
		h[name] = append(h[name], v...)
	}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// errorReader stores the read error, because io.Copy does not tell read errors from write errors.
type errorReader struct {
	r   io.Reader
	err error
}

func (b *errorReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// onlyWriter hides ReadFrom, so that io.CopyBuffer uses the pooled buffer.
type onlyWriter struct{ io.Writer }

type flusher struct{ http.ResponseWriter }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}

// hopByHop headers belong to one connection and are not forwarded (RFC 9110, section 7.6.1).
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Connection": true, "Te": true,
	"Trailer":           true,
	"Transfer-Encoding": true, "Upgrade": true,
}

var ownHeaders = map[string]bool{api.RequestIDHeader: true, "Strict-Transport-Security": true}

func (r Response) writePageHeaders(h http.Header) {
	for name, v := range r.Header {
		if !hopByHop[name] && !ownHeaders[name] && !strings.HasPrefix(name, "X-Opportunity-") {
			addHeader(h, name, v)
		}
	}
}
