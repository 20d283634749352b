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
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota"
)

// fakeBilling is a fake billing service.
type fakeBilling struct {
	*httptest.Server

	mu           sync.Mutex
	unavailable  bool
	rejects      bool
	page         string // URL of the page of the processor
	subscription api.Subscription
	requests     []string // path and body
}

func startBilling(t *testing.T) *fakeBilling {
	t.Helper()
	b := &fakeBilling{page: "https://checkout.stripe.com/c/pay/cs_1"}
	b.Server = servicetest.NewPeer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.unavailable {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.Authquota) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var body json.RawMessage
		if r.Method == http.MethodPost {
			_ = json.NewDecoder(r.Body).Decode(&body)
			b.requests = append(b.requests, r.URL.Path+" "+string(body))
			if b.rejects {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			b.subscription.Renewing, b.subscription.Cancelled = false, true
		case strings.HasSuffix(r.URL.Path, "/resume"):
			b.subscription.Renewing, b.subscription.Cancelled = true, false
		case !strings.HasPrefix(r.URL.Path, "/internal/v1/subscriptions/"):
			_ = json.NewEncoder(w).Encode(api.ProcessorPage{URL: b.page})
			return
		}
		_ = json.NewEncoder(w).Encode(b.subscription)
	}))
	t.Cleanup(b.Close)
	return b
}

// set changes the replies.
func (b *fakeBilling) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// seller returns a signed-in person of a service that sells plans.
func (s *stores) seller(t *testing.T) (*browser, *fakeBilling, *servicetest.Clock) {
	t.Helper()
	billing := startBilling(t)
	svc, c := s.startAt(t, begin, func(cfg *authquota.Config) { cfg.BillingURL = billing.URL })
	b := svc.browser()
	b.signUp("ada@example.org")
	return b, billing, c
}

// entitle pushes an entitlement, as billing does.
func (b *browser) entitle(e api.Entitlement) {
	b.svc.t.Helper()
	reply := b.svc.do(http.MethodPut, "/internal/v1/entitlements/"+b.Account, e)
	require.Equal(b.svc.t, http.StatusNoContent, reply.Status, "%s", reply.Body)
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
		}, billing.requests)

		b.Get("/account/plan?checkout=done").Shows(http.StatusOK, "Your payment is not confirmed yet", "Your plan: Free")

		b.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, 30*24*time.Hour), Renews: true, Version: 1})
		billing.set(func() { billing.subscription = api.Subscription{Customer: true, Renewing: true, Sandbox: true} })
		b.Get("/account/plan?checkout=done").Shows(http.StatusOK, "Your payment is confirmed", "Your plan: Business",
			"Paid until 20 December 2026, 10:00 UTC Renews automatically.", "Cancel Business", "Card and invoices")

		b.Get("/account/plan/cancel").Shows(http.StatusOK, "Cancel Business?")
		b.Post("/account/plan/cancel").Leads("/account/plan")
		b.Get("/account/plan").Shows(http.StatusOK, "Resume Business")
		b.Post("/account/plan/resume").Leads("/account/plan")
		require.Equal(t, []string{
			"/internal/v1/subscriptions/" + b.Account + "/cancel {}", "/internal/v1/subscriptions/" + b.Account + "/resume {}",
		}, billing.requests[1:])

		billing.set(func() { billing.rejects = true })
		b.Post("/account/plan/portal").Shows(http.StatusBadRequest, "The payment processor rejected the request.")
		billing.set(func() { billing.rejects = false; billing.page = "https://billing.stripe.com/p/session/1" })
		b.Post("/account/plan/portal").Leads("https://billing.stripe.com/p/session/1")
		require.Subset(t, b.actions(), []string{"plan.upgrade", "plan.cancel", "plan.resume", "plan.portal"})
		b.Get("/account/security").Shows(http.StatusOK, "Checkout opened", "Payment portal opened")
	})
}
