package billing_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing"
)

const (
	sandboxToken  = "0123456789abcdef0123456789abcdef"
	sandboxPublic = "https://api.example"
)

type sandboxService struct {
	t    *testing.T
	base string

	mu     sync.Mutex
	pushed map[string]api.Entitlement
}

func startSandbox(t *testing.T, databaseURL string, adjust ...func(*billing.Config)) *sandboxService {
	t.Helper()
	s := &sandboxService{t: t, pushed: map[string]api.Entitlement{}}
	authquota := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e api.Entitlement
		if json.NewDecoder(r.Body).Decode(&e) != nil || r.Method != http.MethodPut {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pushed[strings.TrimPrefix(r.URL.Path, "/internal/v1/entitlements/")] = e
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(authquota.Close)
	service, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	operations, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg := billing.Config{
		Server: server.Config{Listener: service, OperationsListener: operations}, Telemetry: telemetry.Config{LogOutput: io.Discard},
		Database: database.Config{URL: databaseURL, MaxConnections: 4}, Tokens: peer.Tokens{Values: []string{sandboxToken}},
		Processor: billing.Sandbox, PublicURL: sandboxPublic, AuthquotaURL: authquota.URL,
	}
	for _, a := range adjust {
		a(&cfg)
	}
	require.NoError(t, cfg.Validate())
	require.NoError(t, billing.Migrate(t.Context(), cfg))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- billing.Run(ctx, cfg) }()
	t.Cleanup(func() { end(); require.NoError(t, <-ended) })
	s.base = "http://" + service.Addr().String()
	storetest.Eventually(t, "ready", func() bool {
		status, _, _ := s.send(http.MethodGet, "/readyz", "")
		return status == http.StatusOK || cfg.Processor != billing.Sandbox
	})
	return s
}

// send makes a request as authquota or the gateway does: JSON below /internal, forms elsewhere.
func (s *sandboxService) send(method, path, body string) (status int, location, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+sandboxToken)
	req.Header.Set("Origin", sandboxPublic)
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
	require.Contains(s.t, page.URL, sandboxPublic+"/billing/sandbox/")
	return strings.TrimPrefix(page.URL, sandboxPublic)
}

func (s *sandboxService) waitForEntitlement(what string, is func(api.Entitlement) bool) {
	s.t.Helper()
	storetest.Eventually(s.t, what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return is(s.pushed["acc_1"])
	})
}

// A form of the sandbox leads to a push to authquota, on the same path as Stripe's webhook events.
func TestSandboxSellsPlan(t *testing.T) {
	for dialect, url := range storetest.Databases(t) {
		t.Run(dialect, func(t *testing.T) {
			s := startSandbox(t, url)
			order := `{"account":"acc_1","email":"ada@example.org","returnUrl":"` + sandboxPublic + `/account/plan"}`
			checkout := s.openPage("checkouts", order)
			require.Equal(t, checkout, s.openPage("checkouts", order), "several clicks open one session")
			status, _, page := s.send(http.MethodGet, checkout, "")
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, page, "29 USD a month")
			status, location, _ := s.send(http.MethodPost, checkout, "card=works")
			require.Equal(t, http.StatusSeeOther, status)
			require.Equal(t, sandboxPublic+"/account/plan?checkout=done", location)
			s.waitForEntitlement("the payment", func(e api.Entitlement) bool { return e.Tier == api.Commercial && e.Renews })

			status, _, answer := s.send(http.MethodPost, "/internal/v1/subscriptions/acc_1/cancel", "{}")
			require.Equal(t, http.StatusOK, status, answer)
			require.Contains(t, answer, `"sandbox":true`)
			s.waitForEntitlement("the cancellation", func(e api.Entitlement) bool { return e.Tier == api.Commercial && !e.Renews })

			portal := s.openPage("portals", `{"account":"acc_1","returnUrl":"`+sandboxPublic+`/account/plan"}`)
			_, _, page = s.send(http.MethodGet, portal, "")
			_, rest, _ := strings.Cut(page, `name="subscription" value="`)
			id, _, _ := strings.Cut(rest, `"`)
			status, _, page = s.send(http.MethodPost, portal, form("act", "refund", "subscription", id))
			require.Equal(t, http.StatusSeeOther, status, page)
			s.waitForEntitlement("the refund", func(e api.Entitlement) bool { return e.Tier == api.Free && e.Trouble == api.Refunded })
		})
	}
}

// After a declined payment and an abandoned purchase the account can buy with a new session.
func TestAbandonedPurchaseCanBeRestarted(t *testing.T) {
	for dialect, url := range storetest.Databases(t) {
		t.Run(dialect, func(t *testing.T) {
			s := startSandbox(t, url)
			order := `{"account":"acc_1","email":"ada@example.org","returnUrl":"` + sandboxPublic + `/account/plan"}`
			first := s.openPage("checkouts", order)
			_, location, _ := s.send(http.MethodPost, first, "card=declined")
			require.Equal(t, first+"?declined", location)
			s.waitForEntitlement("the failure", func(e api.Entitlement) bool { return e.Trouble == api.PaymentFailed })
			require.Equal(t, first, s.openPage("checkouts", order), "the session is still open")

			portal := s.openPage("portals", `{"account":"acc_1","returnUrl":"`+sandboxPublic+`/account/plan"}`)
			_, _, page := s.send(http.MethodGet, portal, "")
			_, rest, _ := strings.Cut(page, `name="subscription" value="`)
			id, _, _ := strings.Cut(rest, `"`)
			status, _, page := s.send(http.MethodPost, portal, form("act", "advance", "days", "1", "subscription", id))
			require.Equal(t, http.StatusSeeOther, status, page)
			s.waitForEntitlement("the end", func(e api.Entitlement) bool { return e.Version > 0 && e.Trouble == api.NoTrouble })
			status, _, _ = s.send(http.MethodGet, first, "")
			require.Equal(t, http.StatusNotFound, status)

			second := s.openPage("checkouts", order)
			require.NotEqual(t, first, second)
			status, _, page = s.send(http.MethodPost, second, "card=works")
			require.Equal(t, http.StatusSeeOther, status, page)
			s.waitForEntitlement("the payment", func(e api.Entitlement) bool { return e.Tier == api.Commercial && e.Renews })
		})
	}
}

func form(pairs ...string) string {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form.Encode()
}

func TestSandboxPagesNeedInternalToken(t *testing.T) {
	s := startSandbox(t, storetest.SQLite(t))
	resp, err := http.Get(s.base + "/billing/sandbox/style.css") //nolint:noctx // no deadline needed
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	status, _, _ := s.send(http.MethodGet, "/billing/sandbox/style.css", "")
	require.Equal(t, http.StatusOK, status)
}

func TestNoSandboxPagesWithStripe(t *testing.T) {
	s := startSandbox(t, storetest.SQLite(t), func(c *billing.Config) {
		c.Processor = billing.Stripe
		c.Stripe.APIKey, c.Stripe.WebhookSecrets, c.Stripe.Price = "sk_test_1", []string{"whsec_0123456789abcdef"}, "price_1"
		c.Stripe.APIBase = "http://127.0.0.1:1"
	})
	for _, path := range []string{"/billing/sandbox/style.css", "/billing/sandbox/portal/x", "/billing/sandbox"} {
		status, _, _ := s.send(http.MethodGet, path, "")
		require.Equal(t, http.StatusNotFound, status, path)
	}
}
