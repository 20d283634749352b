package accountpages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// shop is a site that sells plans, with a person.
type shop struct {
	*testkit.Person

	site    *sitekit.Site
	billing *sitekit.Billing
	version int64 // of the latest entitlement
}

func sell(t *testing.T) *shop {
	t.Helper()
	b := sitekit.NewBilling(t)
	site, p := person(t, b.Configure)
	return &shop{Person: p, site: site, billing: b}
}

// entitle stores the next version of an entitlement.
func (s *shop) entitle(e api.Entitlement) api.Entitlement {
	s.version++
	e.Version = s.version
	s.site.Entitle(s.Account, e)
	return e
}

// in returns the time after d.
func (s *shop) in(d time.Duration) *time.Time {
	at := s.site.Now().Add(d)
	return &at
}

func TestPlanPageWithoutBilling(t *testing.T) {
	_, b := person(t)
	b.Get("/account/plan").Shows(http.StatusOK, "Plans are not sold here. To change your plan, write to")
	for _, path := range []string{"upgrade", "portal", "cancel", "resume"} {
		b.Post("/account/plan/"+path).Shows(http.StatusNotFound, "Plans are not sold here.")
	}
	b.Get("/account/plan/cancel").Shows(http.StatusNotFound, "Plans are not sold here.")
}

func TestPlansAreCompared(t *testing.T) {
	s, b := person(t, func(c *authquota.Config) { c.Tiers = "commercial=300/20000/100" })
	p := b.Get("/account/plan").
		Shows(http.StatusOK, "Your plan: Free", "Free of charge", b.Account, "What Business includes",
			"20,000 requests a day instead of 100", "300 requests in any 60 seconds instead of 10", "The verification history",
			"not only the ten of the free set",
			"29 USD a month", "Granted by the operator", "write to the operator")
	require.NotRegexp(t, `(?s)<main.*<button.*</main>`, p.Body, "nothing is sold here yet")
	s.Grant(b.Account, api.Developer)
	p = b.Get("/account/plan").Shows(http.StatusOK, "Your plan: Developer", "20,000 requests a day instead of 1,000")
	require.NotContains(t, p.Text(), "The verification history of every record", "they have it already")
	s.Grant(b.Account, api.Commercial)
	b.Get("/account/plan").Shows(http.StatusOK, "Your plan: Business", "There is no larger plan")
	b.Get("/account").Shows(http.StatusOK, "Business", "20,000 requests a day")
}

func TestBuyingAPlan(t *testing.T) {
	s := sell(t)
	p := s.Get("/account/plan").
		Shows(http.StatusOK, "Upgrade to Business", "You pay on a page of the payment processor. Business starts when").
		Lacks("Card and invoices")
	require.Contains(t, p.Header.Get("Content-Security-Policy"),
		"form-action 'self' https://checkout.stripe.com https://billing.stripe.com;")
	require.Contains(t, s.Get("/account/plan/upgrade").
		Shows(http.StatusOK, "Upgrade to Business", "29 USD a month").Body, `action="/account/plan/upgrade"`)
	s.Post("/account/plan/upgrade").Leads("https://checkout.stripe.com/c/pay/cs_1")
	require.Equal(t, []string{
		`/internal/v1/checkouts {"account":"` + s.Account +
			`","email":"ada@example.org","returnUrl":"https://api.example/account/plan"}`,
	}, s.billing.Calls())
	require.Contains(t, s.site.Actions(t, s.Account), "plan.upgrade")

	p = s.Get("/account/plan?checkout=done").
		Shows(http.StatusOK, "Your payment is not confirmed yet", "Reload", "Your plan: Free")
	require.Equal(t, "3", p.Header.Get("Refresh"))
	require.NotContains(t, p.Text(), "Your payment is confirmed")
	s.Get("/account/plan?checkout=left").Shows(http.StatusOK, "If you did not pay there, nothing was bought.")
	s.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(time.Hour), Renews: true})
	s.billing.Set(func(b *sitekit.Billing) {
		b.Subscription = api.Subscription{Customer: true, Renewing: true, Sandbox: true}
	})
	s.Get("/account/plan?checkout=done").
		Shows(http.StatusOK, "Your payment is confirmed", "Your plan: Business", "Cancel Business", "Card and invoices")
	s.Get("/account/security").Shows(http.StatusOK, "Checkout opened")
}

// After a declined card and a second payment, the page has one notice: that the payment is not
// confirmed yet, not that nothing was charged.
func TestPaymentAfterADeclinedCardHasOneNotice(t *testing.T) {
	s := sell(t)
	s.entitle(api.Entitlement{Tier: api.Free, Trouble: api.PaymentFailed})
	s.Get("/account/plan").Shows(http.StatusOK, "The payment failed. You were not charged")
	s.Get("/account/plan?checkout=done").Shows(http.StatusOK, "Your payment is not confirmed yet.").Lacks("failed")
	s.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(time.Hour), Renews: true})
	s.Get("/account/plan?checkout=done").Shows(http.StatusOK, "Your payment is confirmed.").Lacks("failed")
}

func TestRejectionOfTheProcessorIsExplained(t *testing.T) {
	s := sell(t)
	s.billing.Set(func(b *sitekit.Billing) { b.Status = http.StatusBadRequest })
	s.Post("/account/plan/portal").Shows(http.StatusBadRequest, "The payment processor rejected the request.")
	s.billing.Set(func(b *sitekit.Billing) { b.Status, b.Page = 0, "https://billing.stripe.com/p/session/1" })
	s.Post("/account/plan/portal").Leads("https://billing.stripe.com/p/session/1")
	require.Contains(t, s.site.Actions(t, s.Account), "plan.portal")
	s.Get("/account/security").Shows(http.StatusOK, "Payment portal opened")
}

func TestCancellingAndResuming(t *testing.T) {
	s := sell(t)
	s.Get("/account/plan/cancel").Leads("/account/plan")
	s.Get("/account/plan").Shows(http.StatusOK, "There is nothing to cancel")
	paid := s.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(24 * time.Hour), Renews: true})
	s.billing.Set(func(b *sitekit.Billing) { b.Subscription = api.Subscription{Customer: true, Renewing: true} })
	s.Get("/account/plan/cancel").
		Shows(http.StatusOK, "Cancel Business?", "Business stays in effect until 21 November 2026, 10:00 UTC",
			"After that you have Free.", "not refunded", "Keep it")

	s.Post("/account/plan/cancel").Leads("/account/plan")
	s.billing.Set(func(b *sitekit.Billing) {
		b.Subscription.Entitlement = api.Entitlement{Tier: api.Commercial, PaidUntil: paid.PaidUntil, Version: 2}
	}) // billing pushes it later
	s.Get("/account/plan").
		Shows(http.StatusOK, "You will not be charged again.", "Cancelled Ends then", "Resume Business").
		Lacks("Renews automatically", "Cancel Business")

	s.Post("/account/plan/resume").Leads("/account/plan")
	s.billing.Set(func(b *sitekit.Billing) {
		b.Subscription.Entitlement.Renews, b.Subscription.Entitlement.Version = true, 3
	})
	s.Get("/account/plan").Shows(http.StatusOK, "The plan renews automatically again.", "Renews automatically.",
		"Cancel Business")
	require.Equal(t, []string{"/internal/v1/subscriptions/" + s.Account + "/cancel {}",
		"/internal/v1/subscriptions/" + s.Account + "/resume {}"}, s.billing.Calls())
	require.Subset(t, s.site.Actions(t, s.Account), []string{"plan.cancel", "plan.resume"})
}

func TestEndedPeriodThatBillingHasNotReportedCannotBeResumed(t *testing.T) {
	s := sell(t)
	s.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(0)})
	s.billing.Set(func(b *sitekit.Billing) { b.Subscription = api.Subscription{Customer: true, Cancelled: true} })
	s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Free", "You can buy Business again as soon as").Lacks("Resume")
}

// The page shows the plan in effect, and why it may be less than expected.
func TestPlanPageShowsPaymentState(t *testing.T) {
	s := sell(t)
	for _, state := range []struct {
		paid   api.Entitlement
		renews bool
		words  []string
	}{
		{api.Entitlement{Tier: api.Free, Trouble: api.PaymentFailed}, false,
			[]string{"Your plan: Free", "The payment failed. You were not charged", "Upgrade to Business"}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(time.Hour), Renews: true, Trouble: api.PaymentFailed}, true,
			[]string{
				"Your plan: Business", "The last payment failed. Business is paid until 20 November 2026, 11:00 UTC and ends then",
				"Card and invoices",
			}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(-time.Hour), Renews: true, Trouble: api.PaymentFailed}, true,
			[]string{"Your plan: Free", "The paid period ended on 20 November 2026, 09:00 UTC",
				"You still have a subscription to Business", "Cancel Business",
				"Business resumes as soon as a payment succeeds"}},
		// no more retries
		{api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(-time.Hour), Trouble: api.PaymentFailed}, false,
			[]string{
				"Your plan: Free", "The paid period ended on 20 November 2026, 09:00 UTC", "The payment will not be retried.",
				"Upgrade to Business",
			}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(-time.Minute), Renews: true}, true,
			[]string{"Your plan: Free", "The next payment is not confirmed yet"}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(-time.Minute)}, false,
			[]string{"Your plan: Free", "Business has ended.", "Upgrade to Business"}},
		{api.Entitlement{Tier: api.Free, Trouble: api.Refunded}, true,
			[]string{
				"Your plan: Free", "Your last payment was refunded. Business has ended",
				"You still have a subscription to Business", "Cancel Business",
			}},
		{api.Entitlement{Tier: api.Free, Trouble: api.Disputed}, false,
			[]string{"Your plan: Free", "Your last payment is disputed at your bank.", "Upgrade to Business"}},
	} {
		paid := s.entitle(state.paid)
		s.billing.Set(func(b *sitekit.Billing) {
			b.Subscription = api.Subscription{Entitlement: paid, Customer: true, Renewing: state.renews}
		})
		p := s.Get("/account/plan").Shows(http.StatusOK, state.words...)
		require.NotEqual(t, strings.Contains(p.Text(), "Upgrade to"), strings.Contains(p.Text(), "Cancel Business"),
			"one or the other")
	}
}

func TestGrantedTierIsShownBesideThePaidOne(t *testing.T) {
	s := sell(t)
	s.site.Grant(s.Account, api.Developer)
	s.entitle(api.Entitlement{Tier: api.Free})
	s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Developer", "Granted Developer, by the operator")
	s.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(time.Hour)})
	s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Business", "Ends then; after that you have Developer.",
		"Granted Developer")
}

func TestOnlyProcessorURLsAreRedirectTargets(t *testing.T) {
	s := sell(t)
	for _, page := range []string{
		"https://evil.example/", "http://checkout.stripe.com/x", "https://checkout.stripe.com.evil.example/",
		"//checkout.stripe.com/",
		"https://u:p@checkout.stripe.com/", "https://checkout.stripe.com@evil.example/", "javascript:alert(1)", "",
		"/billing/sandbox/x",
		"https://api.example/account/sign-out", "https://api.example.evil/billing/sandbox/x",
		"http://api.example/billing/sandbox/x",
	} {
		s.billing.Set(func(b *sitekit.Billing) { b.Page = page })
		require.Empty(t, s.Post("/account/plan/upgrade").Shows(http.StatusInternalServerError).Header.Get("Location"), page)
	}
	s.billing.Set(func(b *sitekit.Billing) { b.Page = "https://api.example/billing/sandbox/checkout/1" })
	s.Post("/account/plan/upgrade").Leads("https://api.example/billing/sandbox/checkout/1")
}

func TestPlanPageDuringBillingOutage(t *testing.T) {
	s := sell(t)
	s.entitle(api.Entitlement{Tier: api.Commercial, PaidUntil: s.in(time.Hour), Renews: true})
	s.billing.Set(func(b *sitekit.Billing) { b.Status = http.StatusServiceUnavailable })
	s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Business", "Paid until 20 November 2026, 11:00 UTC",
		"The payment service is temporarily unavailable", "Reload").Lacks("Upgrade to")
	for _, act := range []string{"upgrade", "portal", "cancel", "resume"} {
		s.Post("/account/plan/"+act).
			Shows(http.StatusServiceUnavailable, "The payment service is temporarily unavailable",
				"Check your plan before you try again.")
	}
	s.Get("/account/plan/cancel").Shows(http.StatusOK, "Cancel Business?")
}

func TestASuspendedAccountDoesNotBuy(t *testing.T) {
	s := sell(t)
	s.site.Suspend(s.Account, "unpaid")
	s.Post("/account/plan/upgrade").Leads("/account/plan")
	s.Get("/account/plan").Shows(http.StatusOK, "A suspended account cannot buy a plan.")
	require.Empty(t, s.billing.Calls())
}
