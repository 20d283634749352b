package billing_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing"
)

type sandboxService struct {
	*servicetest.Service

	t         *testing.T
	authquota *authquota
}

func startSandbox(t *testing.T, databaseURL string, adjust ...func(*billing.Config)) *sandboxService {
	t.Helper()
	authquota := newAuthquota(t)
	cfg := billing.Config{
		Database: database.Config{URL: databaseURL, MaxConnections: 4,
			AllowOwner: true}, Tokens: servicetest.Tokens(peer.Billing), Callers: servicetest.Callers(peer.Billing),
		Processor: billing.Sandbox, PublicURL: servicetest.PublicURL, AuthquotaURL: authquota.URL,
	}
	for _, a := range adjust {
		a(&cfg)
	}
	require.NoError(t, cfg.Validate())
	s := &sandboxService{Service: run(t, cfg), t: t, authquota: authquota}
	if cfg.Processor == billing.Sandbox {
		s.WaitReady()
	}
	return s
}

// send makes a request as authquota or the gateway does: JSON below /internal, forms elsewhere. It
// follows no redirect.
func (s *sandboxService) send(method, path, body string) (status int, location, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+servicetest.Token(servicetest.Caller(peer.Billing, path)))
	req.Header.Set("Origin", servicetest.PublicURL)
	if !strings.HasPrefix(path, "/internal/") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, resp.Header.Get("Location"), string(text)
}

// openPage opens a page of the processor and returns its path.
func (s *sandboxService) openPage(kind, body string) string {
	s.t.Helper()
	status, _, answer := s.send(http.MethodPost, "/internal/v1/"+kind, body)
	require.Equal(s.t, http.StatusOK, status, answer)
	var page api.ProcessorPage
	require.NoError(s.t, json.Unmarshal([]byte(answer), &page))
	require.Contains(s.t, page.URL, servicetest.PublicURL+"/billing/sandbox/")
	return strings.TrimPrefix(page.URL, servicetest.PublicURL)
}

func (s *sandboxService) waitForEntitlement(what string, is func(api.Entitlement) bool) {
	s.t.Helper()
	storetest.Eventually(s.t, what, func() bool {
		return is(s.authquota.entitlement("acc_1"))
	})
}

const order = `{"account":"acc_1","email":"ada@example.org","returnUrl":"` + returnURL + `"}`

// buy pays on the page of the checkout.
func (s *sandboxService) buy() {
	s.t.Helper()
	status, location, _ := s.send(http.MethodPost, s.openPage("checkouts", order), "card=works")
	require.Equal(s.t, http.StatusSeeOther, status)
	require.Equal(s.t, returnURL+"?checkout=done", location)
}

// A form of the sandbox leads to a push to authquota, on the same path as Stripe's webhook events.
func TestSandboxSellsPlan(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		s := startSandbox(t, url)
		checkout := s.openPage("checkouts", order)
		require.Equal(t, checkout, s.openPage("checkouts", order), "several clicks open one session")
		status, _, page := s.send(http.MethodGet, checkout, "")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, page, "29 USD a month")
		s.buy()
		s.waitForEntitlement("the payment", func(e api.Entitlement) bool { return e.Tier == api.Commercial && e.Renews })

		status, _, answer := s.send(http.MethodPost, "/internal/v1/subscriptions/acc_1/cancel", "{}")
		require.Equal(t, http.StatusOK, status, answer)
		require.Contains(t, answer, `"sandbox":true`)
		s.waitForEntitlement("the cancellation", func(e api.Entitlement) bool {
			return e.Tier == api.Commercial &&
				!e.Renews
		})

		portal := s.openPage("portals", `{"account":"acc_1","returnUrl":"`+servicetest.PublicURL+`/account/plan"}`)
		_, _, page = s.send(http.MethodGet, portal, "")
		_, rest, _ := strings.Cut(page, `name="subscription" value="`)
		id, _, _ := strings.Cut(rest, `"`)
		status, _, page = s.send(http.MethodPost, portal, form("act", "past-the-end", "subscription", id))
		require.Equal(t, http.StatusSeeOther, status, page)
		s.waitForEntitlement("the end", func(e api.Entitlement) bool {
			return e.PaidUntil != nil && !e.PaidUntil.After(time.Now())
		})
	})
}

func form(pairs ...string) string {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form.Encode()
}

func TestAccess(t *testing.T) {
	s := startSandbox(t, schema.SQLite(t))
	servicetest.RequireAccess(t, peer.Billing, s.URL, s.Log.String)
}

func TestNoSandboxPagesWithStripe(t *testing.T) {
	s := startSandbox(t, schema.SQLite(t), func(c *billing.Config) {
		c.Processor = billing.Stripe
		c.Stripe.APIKey, c.Stripe.WebhookSecrets, c.Stripe.Price = "sk_test_1", []string{"whsec_0123456789abcdef"}, "price_1"
		c.Stripe.APIBase = "http://127.0.0.1:1"
	})
	for _, path := range []string{"/billing/sandbox/static/style.css", "/billing/sandbox/portal/x", "/billing/sandbox"} {
		status, _, _ := s.send(http.MethodGet, path, "")
		require.Equal(t, http.StatusNotFound, status, path)
	}
}
