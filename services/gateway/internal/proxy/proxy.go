// Package proxy asks the service behind a route and hands its answer on.
//
// Nothing passes by default in either direction. The request to a service is made anew: the method, a path that the gateway
// understood, the query as it came, the conditions of a conditional request, who asks, and the internal token; so a key or
// an identity that a caller made up cannot reach it. Of the answer only statuses and headers of the contract leave: anything
// else is a failure, whatever it says.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Service is one service behind the gateway.
type Service struct {
	base      *url.URL
	token     []string
	transport http.RoundTripper
}

// New makes a proxy of the service at base; token is the internal token. The transport says how long to wait for an answer.
func New(base, token string, transport http.RoundTripper) (*Service, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of a service", base)
	}
	return &Service{u, []string{"Bearer " + token}, transport}, nil
}

// The headers that pass, in Go's canonical form.
var (
	inward  = []string{"Accept", "If-None-Match"}
	outward = []string{"Content-Type", "Content-Length", "Etag", "Cache-Control", "Vary", "Link", "Deprecation", "Sunset"}
)

// Answer is a service's answer, its body unread. It must be written or closed.
type Answer struct{ *http.Response }

// Ask sends the request r to the service, on the given escaped path. caller is the value of api.CallerHeader. An error means
// that there is no answer worth handing on; it is fit for the caller.
func (s *Service) Ask(r *http.Request, path, caller string) (Answer, error) {
	header := make(http.Header, 8)
	for _, name := range inward {
		if v := r.Header[name]; v != nil {
			header[name] = v
		}
	}
	header["Authorization"], header[api.CallerHeader], header["User-Agent"] = s.token, []string{caller}, nil
	to := &url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: r.URL.Path, RawPath: path, RawQuery: r.URL.RawQuery}
	out := (&http.Request{Method: r.Method, URL: to, Host: to.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).
		WithContext(r.Context())
	resp, err := s.transport.RoundTrip(out)
	if err != nil {
		return Answer{}, problem.Unavailable(err)
	}
	if err := expected(resp); err != nil {
		resp.Body.Close()
		return Answer{}, err
	}
	return Answer{resp}, nil
}

// expected refuses what the contract does not know. A service says 401 or 405 only where the gateway is at fault.
func expected(resp *http.Response) error {
	switch status := resp.StatusCode; status {
	case http.StatusNotModified:
		return nil
	case http.StatusOK, http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound:
		if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
			return problem.Of(fmt.Errorf("status %d with media type %q", status, kind))
		}
		return nil
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return problem.Unavailable(fmt.Errorf("status %d", status))
	default:
		return problem.Of(fmt.Errorf("status %d", status))
	}
}

// ErrBroken means that the service's answer ended early.
var ErrBroken = errors.New("the answer of the service ended early")

// Write hands the answer on and closes it. ErrBroken is the only error: a caller that does not read to the end is its own
// affair.
func (a Answer) Write(w http.ResponseWriter) error {
	defer a.Body.Close()
	h := w.Header()
	for _, name := range outward {
		if v := a.Header[name]; v != nil && h[name] == nil {
			h[name] = v
		} else if v != nil {
			h[name] = append(h[name], v...)
		}
	}
	w.WriteHeader(a.StatusCode)
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	body := &watched{r: a.Body}
	_, _ = io.CopyBuffer(onlyWriter{w}, body, *buffer)
	if body.err != nil && !errors.Is(body.err, context.Canceled) {
		return fmt.Errorf("%w: %w", ErrBroken, body.err)
	}
	return nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// watched remembers how reading ended, so that a failure of the reader is told from one of the writer.
type watched struct {
	r   io.Reader
	err error
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// onlyWriter hides ReadFrom, with which the server would copy by a buffer of its own instead of ours.
type onlyWriter struct{ io.Writer }
