package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/gateway"
)

func withBilling(s *service) func(*gateway.Config) {
	return func(cfg *gateway.Config) { cfg.BillingURL, cfg.TrustedProxies = s.URL, []string{"127.0.0.0/8"} }
}

var signed = http.Header{"Stripe-Signature": {"t=1,v1=ab"}}

// A webhook event arrives unchanged, with its signature and client address and without any other
// header of the client.
func TestWebhookEventsPassUnchanged(t *testing.T) {
	w := newEnvironment(t)
	s := newService(t)
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
	require.Equal(t, []string{body}, s.bodies())
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
