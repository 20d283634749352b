package authquota_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota"
)

// till is a fake billing service.
type till struct {
	*httptest.Server

	mu      sync.Mutex
	away    bool
	refuses bool
	page    string // of the processor
	stands  api.Subscription
	asked   []string // path and body
}

func startTill(t *testing.T) *till {
	t.Helper()
	b := &till{page: "https://checkout.stripe.com/c/pay/cs_1"}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.away {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+servicetest.Token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var body json.RawMessage
		if r.Method == http.MethodPost {
			_ = json.NewDecoder(r.Body).Decode(&body)
			b.asked = append(b.asked, r.URL.Path+" "+string(body))
			if b.refuses {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			b.stands.Renewing, b.stands.Cancelled = false, true
		case strings.HasSuffix(r.URL.Path, "/resume"):
			b.stands.Renewing, b.stands.Cancelled = true, false
		case !strings.HasPrefix(r.URL.Path, "/internal/v1/subscriptions/"):
			_ = json.NewEncoder(w).Encode(api.ProcessorPage{URL: b.page})
			return
		}
		_ = json.NewEncoder(w).Encode(b.stands)
	}))
	t.Cleanup(b.Close)
	return b
}

// is changes the replies of the till.
func (b *till) is(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// seller returns a signed-in person of a service that sells plans.
func (s *stores) seller(t *testing.T) (*browser, *till, *servicetest.Clock) {
	t.Helper()
	billing := startTill(t)
	svc, c := s.startAt(t, begin, func(cfg *authquota.Config) { cfg.BillingURL = billing.URL })
	b := svc.browser()
	b.signUp("ada@example.org")
	return b, billing, c
}

// entitle pushes an entitlement, as billing does.
func (b *browser) entitle(e api.Entitlement) {
	b.svc.t.Helper()
	said := b.svc.do(http.MethodPut, "/internal/v1/entitlements/"+b.Account, e)
	require.Equal(b.svc.t, http.StatusNoContent, said.Status, "%s", said.Body)
}

func until(c *servicetest.Clock, d time.Duration) *time.Time {
	at := c.Now().Add(d)
	return &at
}

func TestBuyingAPlan(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		b, billing, c := s.seller(t)
		b.Get("/account/plan").Shows(http.StatusOK, "Upgrade to Business")

		b.Post("/account/plan/upgrade").Leads("https://checkout.stripe.com/c/pay/cs_1")
		require.Equal(t, []string{
			`/internal/v1/checkouts {"account":"` + b.Account + `","email":"ada@example.org","returnUrl":"https://api.example/account/plan"}`,
		}, billing.asked)

		b.Get("/account/plan?checkout=done").Shows(http.StatusOK, "Your payment is not confirmed yet", "Your plan: Free")

		b.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, 30*24*time.Hour), Renews: true, Version: 1})
		billing.is(func() { billing.stands = api.Subscription{Customer: true, Renewing: true, Sandbox: true} })
		b.Get("/account/plan?checkout=done").Shows(http.StatusOK, "Your payment is confirmed", "Your plan: Business",
			"Paid until 20 December 2026, 10:00 UTC Renews automatically.", "Cancel Business", "Card and invoices")

		b.Get("/account/plan/cancel").Shows(http.StatusOK, "Cancel Business?")
		b.Post("/account/plan/cancel").Leads("/account/plan")
		b.Get("/account/plan").Shows(http.StatusOK, "Resume Business")
		b.Post("/account/plan/resume").Leads("/account/plan")
		require.Equal(t, []string{
			"/internal/v1/subscriptions/" + b.Account + "/cancel {}", "/internal/v1/subscriptions/" + b.Account + "/resume {}",
		}, billing.asked[1:])

		billing.is(func() { billing.refuses = true })
		b.Post("/account/plan/portal").Shows(http.StatusBadRequest, "The payment processor rejected the request.")
		billing.is(func() { billing.refuses = false; billing.page = "https://billing.stripe.com/p/session/1" })
		b.Post("/account/plan/portal").Leads("https://billing.stripe.com/p/session/1")
		require.Subset(t, b.actions(), []string{"plan.upgrade", "plan.cancel", "plan.resume", "plan.portal"})
		b.Get("/account/security").Shows(http.StatusOK, "Checkout opened", "Payment portal opened")
	})
}

func TestPlanPageDuringBillingOutage(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		b, billing, c := s.seller(t)
		b.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, time.Hour), Renews: true, Version: 1})
		billing.is(func() { billing.away = true })
		p := b.Get("/account/plan").Shows(http.StatusOK, "Your plan: Business", "Paid until 20 November 2026, 11:00 UTC",
			"The payment service is temporarily unavailable", "Reload")
		require.NotContains(t, p.Text(), "Upgrade to")
		for _, act := range []string{"upgrade", "portal", "cancel", "resume"} {
			b.Post("/account/plan/"+act).Shows(http.StatusServiceUnavailable, "The payment service is temporarily unavailable", "Check your plan before you try again.")
		}
		b.Get("/account/plan/cancel").Shows(http.StatusOK, "Cancel Business?")
	})
}
