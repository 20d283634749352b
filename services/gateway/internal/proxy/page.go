package proxy

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// forPages are the headers of a browser that reach the service. The address of the page that led here is not among them: it may
// hold the token of a mail's link.
var forPages = []string{
	"Accept", "Accept-Language", "Content-Type", "Cookie", "If-Modified-Since", "If-None-Match", "Origin",
	"Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", "User-Agent",
}

// forEvents are the headers of a payment processor that reach the service.
var forEvents = []string{"Content-Type", "Stripe-Signature", "User-Agent"}

// Page sends the request r of a browser, with its body, to the service. client is where it comes from.
//
// What the service says passes as it is, be it a redirect, a cookie or an error page: pages are its own affair. The one thing
// that is taken for a failure is an answer that was not made for a person: that of something in between, or a refusal of the
// internal token.
func (s *Service) Page(r *http.Request, path string, body []byte, client netip.Addr) (Answer, error) {
	return s.present(r, path, pass(r, forPages), body, client)
}

// Event sends what a payment processor announces; otherwise as Page.
func (s *Service) Event(r *http.Request, path string, body []byte, client netip.Addr) (Answer, error) {
	return s.present(r, path, pass(r, forEvents), body, client)
}

func (s *Service) present(r *http.Request, path string, header http.Header, body []byte, client netip.Addr) (Answer, error) {
	if client.IsValid() {
		header[api.ClientHeader] = []string{client.Unmap().WithZone("").String()}
	}
	resp, err := s.send(r, path, header, body)
	if err != nil {
		return Answer{}, err
	}
	switch status := resp.StatusCode; {
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout, status == http.StatusServiceUnavailable && !isPage(resp):
		err = problem.Unavailable(fmt.Errorf("status %d", status))
	case status == http.StatusUnauthorized && resp.Header.Get("Www-Authenticate") == "Bearer":
		err = problem.Of(fmt.Errorf("status %d: the internal token was refused", status))
	case status == http.StatusSwitchingProtocols:
		err = problem.Of(fmt.Errorf("status %d", status))
	default:
		return Answer{Response: resp, page: true}, nil
	}
	resp.Body.Close()
	return Answer{}, err
}

func isPage(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
}

// hops are headers of one connection, and not of the answer (RFC 9110, section 7.6.1).
var hops = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true,
}

// ours are headers that the gateway has set already.
var ours = map[string]bool{api.RequestIDHeader: true, "Strict-Transport-Security": true}

// headers hands on what a browser is told.
func (a Answer) headers(h http.Header) {
	for name, v := range a.Header {
		if !hops[name] && !ours[name] && !strings.HasPrefix(name, "X-Opportunity-") {
			hand(h, name, v)
		}
	}
}
