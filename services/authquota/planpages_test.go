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
		if r.Header.Get("Authorization") != "Bearer "+token {
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
func (s *stores) seller(t *testing.T) (*browser, *till, *clock) {
	t.Helper()
	billing, c := startTill(t), new(clock)
	c.set(t, "2026-11-20T10:00:00Z")
	svc := s.start(t, func(cfg *authquota.Config) { cfg.Now, cfg.BillingURL = c.Now, billing.URL })
	svc.now = c.Now
	b := svc.browser()
	b.signIn("ada@example.org")
	return b, billing, c
}

// entitle pushes an entitlement, as billing does.
func (b *browser) entitle(e api.Entitlement) {
	b.svc.t.Helper()
	said := b.svc.do(http.MethodPut, "/internal/v1/entitlements/"+b.account, e)
	require.Equal(b.svc.t, http.StatusNoContent, said.status, "%s", said.body)
}

func until(c *clock, d time.Duration) *time.Time {
	at := c.Now().Add(d)
	return &at
}

func TestPlanPageWithoutBilling(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		b := svc.browser()
		b.signIn("ada@example.org")
		b.get("/account/plan").shows(http.StatusOK, "Plans are not sold here. To change your plan, write to")
		for _, path := range []string{"upgrade", "portal", "cancel", "resume"} {
			b.post("/account/plan/"+path).shows(http.StatusNotFound, "Plans are not sold here.")
		}
		b.get("/account/plan/cancel").shows(http.StatusNotFound, "Plans are not sold here.")
	})
}

func TestBuyingAPlan(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, billing, c := s.seller(t)
		p := b.get("/account/plan").shows(http.StatusOK, "Upgrade to Business", "You pay on a page of the payment processor. Business starts when")
		require.NotContains(t, p.text(), "Card and invoices")
		require.Contains(t, p.header.Get("Content-Security-Policy"),
			"form-action 'self' https://checkout.stripe.com https://billing.stripe.com;")
		require.Contains(t, b.get("/account").header.Get("Content-Security-Policy"), "form-action 'self';")

		b.post("/account/plan/upgrade").leads("https://checkout.stripe.com/c/pay/cs_1")
		require.Equal(t, []string{
			`/internal/v1/checkouts {"account":"` + b.account + `","email":"ada@example.org","returnUrl":"https://api.example/account/plan"}`,
		}, billing.asked)
		require.Contains(t, b.actions(), "plan.upgrade")

		p = b.get("/account/plan?checkout=done").shows(http.StatusOK, "Your payment is not confirmed yet", "Reload", "Your plan: Free")
		require.NotContains(t, p.text(), "Your payment is confirmed")
		b.get("/account/plan?checkout=left").shows(http.StatusOK, "If you did not pay there, nothing was bought.")

		b.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, 30*24*time.Hour), Renews: true, Version: 1})
		billing.is(func() { billing.stands = api.Subscription{Customer: true, Renewing: true, Sandbox: true} })
		p = b.get("/account/plan?checkout=done").shows(http.StatusOK, "Your payment is confirmed", "Your plan: Business",
			"Paid until 20 December 2026, 10:00 UTC Renews automatically.", "Cancel Business", "Card and invoices")
		require.NotContains(t, p.text(), "Upgrade to")

		billing.is(func() { billing.refuses = true })
		b.post("/account/plan/portal").shows(http.StatusBadRequest, "The payment processor rejected the request.")
		billing.is(func() { billing.refuses = false; billing.page = "https://billing.stripe.com/p/session/1" })
		b.post("/account/plan/portal").leads("https://billing.stripe.com/p/session/1")
		require.Contains(t, b.actions(), "plan.portal")
		b.get("/account/security").shows(http.StatusOK, "Checkout opened", "Payment portal opened")
	})
}

func TestCancellingAndResuming(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, billing, c := s.seller(t)
		b.get("/account/plan/cancel").leads("/account/plan")
		b.get("/account/plan").shows(http.StatusOK, "There is nothing to cancel")
		b.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, 24*time.Hour), Renews: true, Version: 1})
		billing.is(func() { billing.stands = api.Subscription{Customer: true, Renewing: true} })

		b.get("/account/plan/cancel").shows(http.StatusOK, "Cancel Business?", "Business stays in effect until 21 November 2026, 10:00 UTC",
			"After that you have Free.", "not refunded", "Keep it")
		b.post("/account/plan/cancel").leads("/account/plan")
		cancelled := api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, 24*time.Hour), Version: 2}
		billing.is(func() { billing.stands.Entitlement = cancelled })
		p := b.get("/account/plan").shows(http.StatusOK, "You will not be charged again.", "Cancelled Ends then", "Resume Business") // billing pushes the change later
		require.NotContains(t, p.text(), "Renews automatically")
		b.entitle(cancelled)
		p = b.get("/account/plan").shows(http.StatusOK, "Your plan: Business",
			"Paid until 21 November 2026, 10:00 UTC Cancelled Ends then; after that you have Free.", "Resume Business")
		require.NotContains(t, p.text(), "Cancel Business")

		b.post("/account/plan/resume").leads("/account/plan")
		billing.is(func() { billing.stands.Entitlement.Renews, billing.stands.Entitlement.Version = true, 3 })
		b.get("/account/plan").shows(http.StatusOK, "The plan renews automatically again.", "Renews automatically.", "Cancel Business")
		require.Equal(t, []string{
			"/internal/v1/subscriptions/" + b.account + "/cancel {}", "/internal/v1/subscriptions/" + b.account + "/resume {}",
		}, billing.asked)
		c.move(24 * time.Hour) // the period has ended by our clock, and billing has not reported it
		billing.is(func() { billing.stands = api.Subscription{Customer: true, Cancelled: true} })
		again := b.svc.browser()
		again.signIn("grace@example.org")
		again.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, 0), Version: 1})
		p = again.get("/account/plan").shows(http.StatusOK, "Your plan: Free", "You can buy Business again as soon as")
		require.NotContains(t, p.text(), "Resume")

		actions := b.actions()
		require.Contains(t, actions, "plan.cancel")
		require.Contains(t, actions, "plan.resume")
	})
}

// Payment actions require a recent proof, which a stolen session lacks.
func TestPaymentsNeedARecentProof(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, billing, c := s.seller(t)
		c.move(11 * time.Minute)
		for _, act := range []string{"upgrade", "portal", "resume"} {
			b.post("/account/plan/" + act).leads("/account/security/confirm?next=%2Faccount%2Fplan")
		}
		b.post("/account/plan/cancel").leads("/account/security/confirm?next=%2Faccount%2Fplan%2Fcancel")
		b.get("/account/plan/cancel").leads("/account/security/confirm?next=%2Faccount%2Fplan%2Fcancel")
		require.Empty(t, billing.asked)
		stranger := b.svc.browser()
		stranger.post("/account/plan/upgrade").leads("/account/sign-in?next=%2Faccount%2Fplan")
	})
}

// The page shows the plan in effect, and why it may be less than expected.
func TestPlanPageShowsPaymentState(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, billing, c := s.seller(t)
		for i, story := range []struct {
			e      api.Entitlement
			renews bool
			words  []string
		}{
			{api.Entitlement{Tier: api.Free, Trouble: api.PaymentFailed}, false,
				[]string{"Your plan: Free", "The payment failed. You were not charged", "Upgrade to Business"}},
			{api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, time.Hour), Renews: true, Trouble: api.PaymentFailed}, true,
				[]string{"Your plan: Business", "The last payment failed. Business is paid until 20 November 2026, 11:00 UTC and ends then", "Card and invoices"}},
			{api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, -time.Hour), Renews: true, Trouble: api.PaymentFailed}, true,
				[]string{"Your plan: Free", "The paid period ended on 20 November 2026, 09:00 UTC", "You still have a subscription to Business", "Cancel Business",
					"Business resumes as soon as a payment succeeds"}},
			{api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, -time.Hour), Trouble: api.PaymentFailed}, false, // no more retries
				[]string{"Your plan: Free", "The paid period ended on 20 November 2026, 09:00 UTC", "The payment will not be retried.", "Upgrade to Business"}},
			{api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, -time.Minute), Renews: true}, true,
				[]string{"Your plan: Free", "The next payment is not confirmed yet"}},
			{api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, -time.Minute)}, false,
				[]string{"Your plan: Free", "Business has ended.", "Upgrade to Business"}},
			{api.Entitlement{Tier: api.Free, Trouble: api.Refunded}, true,
				[]string{"Your plan: Free", "Your last payment was refunded. Business has ended", "You still have a subscription to Business", "Cancel Business"}},
			{api.Entitlement{Tier: api.Free, Trouble: api.Disputed}, false,
				[]string{"Your plan: Free", "Your last payment is disputed at your bank.", "Upgrade to Business"}},
		} {
			story.e.Version = int64(i + 1)
			b.entitle(story.e)
			billing.is(func() {
				billing.stands = api.Subscription{Entitlement: story.e, Customer: true, Renewing: story.renews}
			})
			p := b.get("/account/plan").shows(http.StatusOK, story.words...)
			require.NotEqual(t, strings.Contains(p.text(), "Upgrade to"), strings.Contains(p.text(), "Cancel Business"), "one or the other")
		}

		grant := b.svc.change(b.account, "grant", map[string]any{"tier": "developer"})
		require.Equal(t, http.StatusOK, grant.status, "%s", grant.body)
		b.get("/account/plan").shows(http.StatusOK, "Your plan: Developer", "Granted Developer, by the operator")
		b.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, time.Hour), Version: 99})
		b.get("/account/plan").shows(http.StatusOK, "Your plan: Business", "Ends then; after that you have Developer.", "Granted Developer")
	})
}

func TestOnlyProcessorURLsAreRedirectTargets(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, billing, _ := s.seller(t)
		for _, page := range []string{
			"https://evil.example/", "http://checkout.stripe.com/x", "https://checkout.stripe.com.evil.example/", "//checkout.stripe.com/",
			"https://u:p@checkout.stripe.com/", "https://checkout.stripe.com@evil.example/", "javascript:alert(1)", "", "/billing/sandbox/x",
			"https://api.example/account/sign-out", "https://api.example.evil/billing/sandbox/x", "http://api.example/billing/sandbox/x",
		} {
			billing.is(func() { billing.page = page })
			require.Empty(t, b.post("/account/plan/upgrade").shows(http.StatusInternalServerError).header.Get("Location"), page)
		}
		billing.is(func() { billing.page = "https://api.example/billing/sandbox/checkout/1" })
		b.post("/account/plan/upgrade").leads("https://api.example/billing/sandbox/checkout/1")
	})
}

func TestPlanPageDuringBillingOutage(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, billing, c := s.seller(t)
		b.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: until(c, time.Hour), Renews: true, Version: 1})
		billing.is(func() { billing.away = true })
		p := b.get("/account/plan").shows(http.StatusOK, "Your plan: Business", "Paid until 20 November 2026, 11:00 UTC",
			"The payment service is temporarily unavailable", "Reload")
		require.NotContains(t, p.text(), "Upgrade to")
		for _, act := range []string{"upgrade", "portal", "cancel", "resume"} {
			b.post("/account/plan/"+act).shows(http.StatusServiceUnavailable, "The payment service is temporarily unavailable", "Check your plan before you try again.")
		}
		b.get("/account/plan/cancel").shows(http.StatusOK, "Cancel Business?")
	})
}

func TestASuspendedAccountDoesNotBuy(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, billing, _ := s.seller(t)
		b.svc.change(b.account, "suspend", map[string]any{"reason": "x"})
		b.post("/account/plan/upgrade").leads("/account/plan")
		b.get("/account/plan").shows(http.StatusOK, "A suspended account cannot buy a plan.")
		require.Empty(t, billing.asked)
	})
}
