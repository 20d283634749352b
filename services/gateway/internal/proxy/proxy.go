// Package proxy asks the service behind a route and hands its answer on.
//
// Nothing passes by default in either direction. The request to a service is made anew: the method, a path that the gateway
// understood, the query as it came, the conditions of a conditional request, who asks, and the internal token; so a key or
// an identity that a caller made up cannot reach it. Of the answer only statuses and headers of the contract leave: anything
// else is a failure, whatever it says. Pages for a browser are another matter: see Service.Page.
package proxy

import (
	"bytes"
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
type Answer struct {
	*http.Response

	page bool
}

// Ask sends the request r of the API to the service, on the given escaped path. caller is the value of api.CallerHeader. An error
// means that there is no answer worth handing on; it is fit for the caller.
func (s *Service) Ask(r *http.Request, path, caller string) (Answer, error) {
	header := pass(r, inward)
	header[api.CallerHeader] = []string{caller}
	resp, err := s.send(r, path, header, nil)
	if err != nil {
		return Answer{}, err
	}
	if err := expected(resp, "application/json"); err != nil {
		resp.Body.Close()
		return Answer{}, err
	}
	return Answer{Response: resp}, nil
}

// Document asks for something that is the same for everybody, in whatever media type; otherwise as Ask.
func (s *Service) Document(r *http.Request, path string) (Answer, error) {
	resp, err := s.send(r, path, pass(r, inward), nil)
	if err != nil {
		return Answer{}, err
	}
	if err := expected(resp, ""); err != nil {
		resp.Body.Close()
		return Answer{}, err
	}
	return Answer{Response: resp}, nil
}

// pass makes the header of a request to a service from those of a request that came in.
func pass(r *http.Request, names []string) http.Header {
	header := make(http.Header, 8)
	for _, name := range names {
		if v := r.Header[name]; v != nil {
			header[name] = v
		}
	}
	return header
}

// send makes the request. The service sees its own name as the host: what a caller put there is not to be believed.
func (s *Service) send(r *http.Request, path string, header http.Header, body []byte) (*http.Response, error) {
	header["Authorization"] = s.token
	if header["User-Agent"] == nil {
		header["User-Agent"] = nil // or the transport adds its own
	}
	to := &url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: r.URL.Path, RawPath: path, RawQuery: r.URL.RawQuery}
	out := (&http.Request{Method: r.Method, URL: to, Host: to.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).
		WithContext(r.Context())
	if len(body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	resp, err := s.transport.RoundTrip(out)
	if err != nil {
		return nil, problem.Unavailable(err)
	}
	return resp, nil
}

// expected refuses what the contract does not know. A service says 401 or 405 only where the gateway is at fault. An empty kind
// stands for any media type.
func expected(resp *http.Response, kind string) error {
	switch status := resp.StatusCode; status {
	case http.StatusNotModified:
		return nil
	case http.StatusOK, http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound:
		if is := resp.Header.Get("Content-Type"); !strings.HasPrefix(is, kind) {
			return problem.Of(fmt.Errorf("status %d with media type %q", status, is))
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
	if a.page {
		a.headers(w.Header())
	} else {
		for _, name := range outward {
			hand(w.Header(), name, a.Header[name])
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

// hand adds a header of the service's answer to what is there already.
func hand(h http.Header, name string, v []string) {
	if v != nil && h[name] == nil {
		h[name] = v
	} else if v != nil {
		h[name] = append(h[name], v...)
	}
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
