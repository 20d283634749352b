package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/gateway"
)

// fakeBilling records the bodies of its requests.
type fakeBilling struct {
	*service

	mu     sync.Mutex
	bodies []string
}

func (w *environment) billing() *fakeBilling {
	s := &fakeBilling{service: newService(w.t)}
	s.respondWith(html(http.StatusOK, "ok", nil))
	return s
}

func (s *fakeBilling) respondWith(handler http.HandlerFunc) {
	s.service.respondWith(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		handler(w, r)
	})
}

func (s *fakeBilling) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}

func withBilling(s *fakeBilling) func(*gateway.Config) {
	return func(cfg *gateway.Config) { cfg.BillingURL, cfg.TrustedProxies = s.URL, []string{"127.0.0.0/8"} }
}

var signed = http.Header{"Stripe-Signature": {"t=1,v1=ab"}}

// A webhook event arrives unchanged, with its signature and client address and without any other
// header of the client.
func TestWebhookEventsPassUnchanged(t *testing.T) {
	w := newEnvironment(t)
	s := w.billing()
	gw := w.start(withBilling(s))
	w.redis.Stop() // needs no key and no quota
	const body = "{\"id\": \"evt_1\",\r\n  \"é\": \"\\u00e9\"}\n\x00"
	s.respondWith(respond(http.StatusOK, `{}`))
	a := gw.do(t, request{method: http.MethodPost, path: "/billing/stripe/webhook?a=b", body: strings.NewReader(body),
		header: http.Header{
			"Content-Type": {"application/json; charset=utf-8"}, "Stripe-Signature": {"t=1,v1=ab,v1=cd"},
			"User-Agent":      {"Stripe/1.0"},
			"Accept-Encoding": {"gzip"}, "Authorization": {"Bearer x"}, "Cookie": {"a=b"}, "X-Opportunity-Actor": {"root"},
			"X-Opportunity-Client": {"192.0.2.1"}, "X-Forwarded-For": {"198.51.100.1"},
		}})
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, []string{body}, s.received())
	got := s.requests()[0]
	require.Equal(t, "/billing/stripe/webhook?a=b", got.RequestURI)
	require.Equal(t, http.Header{
		"Content-Type": {"application/json; charset=utf-8"}, "Stripe-Signature": {"t=1,v1=ab,v1=cd"},
		"User-Agent":    {"Stripe/1.0"},
		"Authorization": {"Bearer " + servicetest.Token(peer.Gateway)}, "X-Opportunity-Client": {"198.51.100.1"},
		"Content-Length": got.Header["Content-Length"],
		"X-Request-Id":   {a.header.Get("X-Request-Id")},
	}, got.Header)
	w.awaitLog(t, `"route":"/billing/stripe/webhook","status":200`)

	for status, want := range map[int]int{400: 400, 500: 500, 503: 503, 502: 503} {
		s.respondWith(respond(status, `{"error":{"code":"x"}}`))
		a := gw.do(t, request{method: http.MethodPost, path: "/billing/stripe/webhook", body: strings.NewReader("x"),
			header: signed})
		require.Equal(t, want, a.status, "status for the processor, which retries unless it is 2xx")
	}
}

func TestWebhookSizeLimit(t *testing.T) {
	w := newEnvironment(t)
	s := w.billing()
	gw := w.start(withBilling(s))
	post := func(body io.Reader) response {
		header := signed.Clone()
		header.Set("Expect", "100-continue") // otherwise the gateway may close the connection while the body is being sent
		return gw.do(t, request{method: http.MethodPost, path: "/billing/stripe/webhook", body: body, header: header})
	}
	largest := strings.Repeat("a", 256<<10)
	require.Equal(t, 200, post(strings.NewReader(largest)).status)
	for _, body := range []io.Reader{strings.NewReader(largest + "a"), io.MultiReader(strings.NewReader(largest + "a"))} {
		a := post(body)
		require.Equal(t, 400, a.status)
		require.Contains(t, a.body, "256 KiB")
	}
	require.Equal(t, []string{largest}, s.received())
}

// Sandbox pages work like account pages. No other path of billing is reachable.
func TestSandboxPages(t *testing.T) {
	w := newEnvironment(t)
	s := w.billing()
	gw := w.start(withBilling(s))
	s.respondWith(html(http.StatusSeeOther, strings.Repeat("a", 5000),
		http.Header{"Location": {"/account/plan"}, "Set-Cookie": {"a=b"}}))
	a := gw.do(t, request{method: http.MethodPost, path: "/billing/sandbox/checkout/1?x=y",
		body: strings.NewReader("card=ok"), header: http.Header{
			"Accept": {"text/html"}, "Accept-Encoding": {"gzip"}, "Origin": {publicURL}, "Cookie": {"a=b"},
			"Stripe-Signature": {"x"},
			"Content-Type":     {"application/x-www-form-urlencoded"},
		}})
	require.Equal(t, http.StatusSeeOther, a.status)
	require.Equal(t, "/account/plan", a.header.Get("Location"))
	require.Equal(t, []string{"card=ok"}, s.received())
	require.Empty(t, a.header.Get("Content-Encoding"), "Content-Encoding of a page")
	got := s.requests()[0]
	require.Equal(t, "/billing/sandbox/checkout/1?x=y", got.RequestURI)
	require.Equal(t, publicURL, got.Header.Get("Origin"))
	require.Equal(t, "a=b", got.Header.Get("Cookie"))
	require.Empty(t, got.Header.Get("Stripe-Signature"))
	w.awaitLog(t, `"route":"/billing/sandbox","status":303`)
	require.Equal(t, 400,
		gw.do(t, request{method: http.MethodPost, path: "/billing/sandbox",
			body: strings.NewReader(strings.Repeat("x", 65<<10))}).status)

	for _, path := range []string{
		"/billing", "/billing/", "/billing/internal/v1/checkouts", "/billing/sandbox/../internal/v1/checkouts",
		"/billing/sandbox/%2e%2e/x",
		"/billing/operator/v1/reconcile", "/internal/v1/checkouts", "/operator/v1/billing/reconcile",
		"/billing/stripe/webhook/", "/billing/readyz",
	} {
		require.Equal(t, "not_found", gw.do(t, request{method: http.MethodPost, path: path}).code(t), path)
	}
	require.Len(t, s.requests(), 1)
}

func TestBillingUnavailable(t *testing.T) {
	w := newEnvironment(t)
	s := w.billing()
	gw := w.start(withBilling(s))
	s.CloseClientConnections()
	s.Close()
	for _, path := range []string{"/billing/stripe/webhook", "/billing/sandbox"} {
		a := gw.do(t, request{method: http.MethodPost, path: path, body: strings.NewReader("x"),
			header: http.Header{"Stripe-Signature": {"t=1"}}})
		require.Equal(t, "service_unavailable", a.code(t))
		require.Equal(t, "1", a.header.Get("Retry-After"))
	}
	a := gw.do(t, request{path: "/billing/sandbox", header: browser})
	require.Equal(t, 503, a.status)
	require.Contains(t, a.body, "<h1>")
	require.Equal(t, 3, w.outcomes()["upstream_fault"])
	key := w.authquota.issue("acc_a", developer)
	require.Equal(t, 200, gw.get(t, key).status, "API call without billing")
}
