package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// pageHeaders are the headers of browsers and of webhook events that pass to the service. Referer is
// not among them: it may contain the token of a mailed link.
var pageHeaders = []string{
	"Accept", "Accept-Language", "Content-Type", "Cookie", "If-Modified-Since", "If-None-Match", "Origin",
	"Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", SignatureHeader, "User-Agent",
}

// SignatureHeader holds the payment processor's signature of a webhook event.
const SignatureHeader = "Stripe-Signature"

// Page sends the request r of a browser, or a webhook event, with its body to the service. client is
// the address of the sender.
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
