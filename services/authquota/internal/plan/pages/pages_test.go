package pages_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

// billing is a fake of the billing service and of the audit log.
type billing struct {
	err          error
	page         string // of the processor
	subscription api.Subscription
	calls        []string // actions for the audit log and calls of billing, in order
	deadline     time.Duration
}

func (b *billing) call(ctx context.Context, name string) error {
	b.calls = append(b.calls, name)
	if until, ok := ctx.Deadline(); ok {
		b.deadline = time.Until(until)
	}
	return b.err
}

func (b *billing) Subscription(context.Context, string) (api.Subscription, error) {
	return b.subscription, b.err
}

func (b *billing) Cancel(ctx context.Context, _ string) (api.Subscription, error) {
	b.subscription.Renewing, b.subscription.Cancelled = false, true
	return b.subscription, b.call(ctx, "cancel")
}

func (b *billing) Resume(ctx context.Context, _ string) (api.Subscription, error) {
	b.subscription.Renewing, b.subscription.Cancelled = true, false
	return b.subscription, b.call(ctx, "resume")
}

func (b *billing) Checkout(ctx context.Context, want api.CheckoutRequest) (string, error) {
	return b.page, b.call(ctx, "checkout "+want.Account+" "+want.Email+" "+want.ReturnURL)
}

func (b *billing) Portal(ctx context.Context, want api.PortalRequest) (string, error) {
	return b.page, b.call(ctx, "portal "+want.Account+" "+want.ReturnURL)
}

func (b *billing) RecordPlanAction(_ context.Context, _, action string) error {
	b.calls = append(b.calls, action)
	return nil
}

// start returns a site that sells plans.
func start(t *testing.T) (*sitetest.Site, *billing) {
	t.Helper()
	b := &billing{page: "https://checkout.stripe.com/c/pay/cs_1"}
	return startWith(t, "", b, b), b
}

func startWith(t *testing.T, limits string, sells pages.Billing, actions pages.Actions) *sitetest.Site {
	t.Helper()
	tiers, err := account.ParseTiers(limits)
	require.NoError(t, err)
	return sitetest.New(t, func(s *sitetest.Site) []site.Feature {
		plans := &pages.Pages{PublicURL: sitetest.PublicURL, Log: s.Logger(), Tiers: tiers, Billing: sells, Actions: actions}
		return []site.Feature{plans.Feature()}
	})
}

// setEntitlement gives the person an entitlement.
func setEntitlement(s *sitetest.Site, e api.Entitlement) {
	s.Person.Paid = []api.Entitlement{e}
	s.Person.Tier = s.Person.TierAt(s.Now)
}

func in(s *sitetest.Site, d time.Duration) *time.Time {
	at := s.Now.Add(d)
	return &at
}

func TestPlanPageWithoutBilling(t *testing.T) {
	s := startWith(t, "", nil, new(billing))
	s.Get("/account/plan").Shows(http.StatusOK, "Plans are not sold here. To change your plan, write to")
	for _, path := range []string{"upgrade", "portal", "cancel", "resume"} {
		s.Post("/account/plan/"+path).Shows(http.StatusNotFound, "Plans are not sold here.")
	}
	s.Get("/account/plan/cancel").Shows(http.StatusNotFound, "Plans are not sold here.")
}

func TestPlansAreCompared(t *testing.T) {
	s := startWith(t, "commercial=300/20000/100", nil, new(billing))
	p := s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Free", "Free of charge", s.Person.Account, "What Business includes",
		"20,000 requests a day instead of 100", "300 requests in any 60 seconds instead of 10", "The verification history", "not only the ten of the free set",
		"29 USD a month", "Granted by the operator", "write to the operator")
	require.NotRegexp(t, `(?s)<main.*<button.*</main>`, p.Body, "nothing is sold here yet")
	s.Person.Tier = api.Developer
	p = s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Developer", "20,000 requests a day instead of 1,000")
	require.NotContains(t, p.Text(), "The verification history of every record", "they have it already")
	s.Person.Tier = api.Commercial
	s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Business", "There is no larger plan")
}

func TestOfferOfThePlanOnSale(t *testing.T) {
	s, b := start(t)
	p := s.Get("/account/plan").Shows(http.StatusOK, "Upgrade to Business", "You pay on a page of the payment processor. Business starts when")
	require.NotContains(t, p.Text(), "Card and invoices")
	require.Contains(t, p.Header.Get("Content-Security-Policy"), "form-action 'self' https://checkout.stripe.com https://billing.stripe.com;")
	s.Post("/account/plan/upgrade").Leads("https://checkout.stripe.com/c/pay/cs_1")
	require.Equal(t, []string{"plan.upgrade", "checkout " + s.Person.Account + " ada@example.org https://api.example/account/plan"}, b.calls)

	p = s.Get("/account/plan?checkout=done").Shows(http.StatusOK, "Your payment is not confirmed yet", "Reload", "Your plan: Free")
	require.NotContains(t, p.Text(), "Your payment is confirmed")
	s.Get("/account/plan?checkout=left").Shows(http.StatusOK, "If you did not pay there, nothing was bought.")
	setEntitlement(s, api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, time.Hour), Renews: true, Version: 1})
	b.subscription = api.Subscription{Customer: true, Renewing: true, Sandbox: true}
	s.Get("/account/plan?checkout=done").Shows(http.StatusOK, "Your payment is confirmed", "Your plan: Business", "Cancel Business", "Card and invoices")
}

func TestRejectionOfTheProcessorIsExplained(t *testing.T) {
	s, b := start(t)
	b.err = &peer.StatusError{Status: http.StatusBadRequest}
	s.Post("/account/plan/portal").Shows(http.StatusBadRequest, "The payment processor rejected the request.")
	b.err, b.page = nil, "https://billing.stripe.com/p/session/1"
	s.Post("/account/plan/portal").Leads("https://billing.stripe.com/p/session/1")
}

// Otherwise the person sees the gateway's error instead of our own.
func TestPlanActionsEndBeforeTheGatewayGivesUp(t *testing.T) {
	s, b := start(t)
	for _, action := range []string{"upgrade", "portal", "cancel", "resume"} {
		s.Post("/account/plan/" + action)
		require.Positive(t, b.deadline, action)
		require.LessOrEqual(t, b.deadline, api.GatewayTimeout-time.Second, action)
	}
}

func TestCancellingAndResuming(t *testing.T) {
	s, b := start(t)
	s.Get("/account/plan/cancel").Leads("/account/plan")
	s.Get("/account/plan").Shows(http.StatusOK, "There is nothing to cancel")
	paid := api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, 24*time.Hour), Renews: true, Version: 1}
	setEntitlement(s, paid)
	b.subscription = api.Subscription{Customer: true, Renewing: true}
	s.Get("/account/plan/cancel").Shows(http.StatusOK, "Cancel Business?", "Business stays in effect until 21 November 2026, 10:00 UTC",
		"After that you have Free.", "not refunded", "Keep it")

	s.Post("/account/plan/cancel").Leads("/account/plan")
	b.subscription.Entitlement = api.Entitlement{Tier: api.Commercial, PaidUntil: paid.PaidUntil, Version: 2} // billing pushes it later
	p := s.Get("/account/plan").Shows(http.StatusOK, "You will not be charged again.", "Cancelled Ends then", "Resume Business")
	require.NotContains(t, p.Text(), "Renews automatically")
	require.NotContains(t, p.Text(), "Cancel Business")

	s.Post("/account/plan/resume").Leads("/account/plan")
	b.subscription.Entitlement.Renews, b.subscription.Entitlement.Version = true, 3
	s.Get("/account/plan").Shows(http.StatusOK, "The plan renews automatically again.", "Renews automatically.", "Cancel Business")
	require.Equal(t, []string{"plan.cancel", "cancel", "plan.resume", "resume"}, b.calls)
}

func TestEndedPeriodThatBillingHasNotReportedCannotBeResumed(t *testing.T) {
	s, b := start(t)
	setEntitlement(s, api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, 0), Version: 1})
	b.subscription = api.Subscription{Customer: true, Cancelled: true}
	p := s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Free", "You can buy Business again as soon as")
	require.NotContains(t, p.Text(), "Resume")
}

// A stolen session lacks a recent proof.
func TestPaymentsNeedARecentProof(t *testing.T) {
	s, b := start(t)
	s.Now = s.Now.Add(11 * time.Minute)
	for _, act := range []string{"upgrade", "portal", "resume"} {
		s.Post("/account/plan/" + act).Leads("/account/security/confirm?next=%2Faccount%2Fplan")
	}
	s.Post("/account/plan/cancel").Leads("/account/security/confirm?next=%2Faccount%2Fplan%2Fcancel")
	s.Get("/account/plan/cancel").Leads("/account/security/confirm?next=%2Faccount%2Fplan%2Fcancel")
	require.Empty(t, b.calls)
	clear(s.Cookies)
	s.Post("/account/plan/upgrade").Leads("/account/sign-in?next=%2Faccount%2Fplan")
}

// The page shows the plan in effect, and why it may be less than expected.
func TestPlanPageShowsPaymentState(t *testing.T) {
	s, b := start(t)
	for _, state := range []struct {
		paid   api.Entitlement
		renews bool
		words  []string
	}{
		{api.Entitlement{Tier: api.Free, Trouble: api.PaymentFailed}, false,
			[]string{"Your plan: Free", "The payment failed. You were not charged", "Upgrade to Business"}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, time.Hour), Renews: true, Trouble: api.PaymentFailed}, true,
			[]string{"Your plan: Business", "The last payment failed. Business is paid until 20 November 2026, 11:00 UTC and ends then", "Card and invoices"}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, -time.Hour), Renews: true, Trouble: api.PaymentFailed}, true,
			[]string{"Your plan: Free", "The paid period ended on 20 November 2026, 09:00 UTC", "You still have a subscription to Business", "Cancel Business",
				"Business resumes as soon as a payment succeeds"}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, -time.Hour), Trouble: api.PaymentFailed}, false, // no more retries
			[]string{"Your plan: Free", "The paid period ended on 20 November 2026, 09:00 UTC", "The payment will not be retried.", "Upgrade to Business"}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, -time.Minute), Renews: true}, true,
			[]string{"Your plan: Free", "The next payment is not confirmed yet"}},
		{api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, -time.Minute)}, false,
			[]string{"Your plan: Free", "Business has ended.", "Upgrade to Business"}},
		{api.Entitlement{Tier: api.Free, Trouble: api.Refunded}, true,
			[]string{"Your plan: Free", "Your last payment was refunded. Business has ended", "You still have a subscription to Business", "Cancel Business"}},
		{api.Entitlement{Tier: api.Free, Trouble: api.Disputed}, false,
			[]string{"Your plan: Free", "Your last payment is disputed at your bank.", "Upgrade to Business"}},
	} {
		setEntitlement(s, state.paid)
		b.subscription = api.Subscription{Entitlement: state.paid, Customer: true, Renewing: state.renews}
		p := s.Get("/account/plan").Shows(http.StatusOK, state.words...)
		require.NotEqual(t, strings.Contains(p.Text(), "Upgrade to"), strings.Contains(p.Text(), "Cancel Business"), "one or the other")
	}
}

func TestGrantedTierIsShownBesideThePaidOne(t *testing.T) {
	s, _ := start(t)
	s.Person.Granted = api.Developer
	setEntitlement(s, api.Entitlement{Tier: api.Free, Version: 1})
	s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Developer", "Granted Developer, by the operator")
	setEntitlement(s, api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, time.Hour), Version: 2})
	s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Business", "Ends then; after that you have Developer.", "Granted Developer")
}

func TestOnlyProcessorURLsAreRedirectTargets(t *testing.T) {
	s, b := start(t)
	for _, page := range []string{
		"https://evil.example/", "http://checkout.stripe.com/x", "https://checkout.stripe.com.evil.example/", "//checkout.stripe.com/",
		"https://u:p@checkout.stripe.com/", "https://checkout.stripe.com@evil.example/", "javascript:alert(1)", "", "/billing/sandbox/x",
		"https://api.example/account/sign-out", "https://api.example.evil/billing/sandbox/x", "http://api.example/billing/sandbox/x",
	} {
		b.page = page
		require.Empty(t, s.Post("/account/plan/upgrade").Shows(http.StatusInternalServerError).Header.Get("Location"), page)
	}
	b.page = "https://api.example/billing/sandbox/checkout/1"
	s.Post("/account/plan/upgrade").Leads("https://api.example/billing/sandbox/checkout/1")
}

func TestPlanPageDuringBillingOutage(t *testing.T) {
	s, b := start(t)
	setEntitlement(s, api.Entitlement{Tier: api.Commercial, PaidUntil: in(s, time.Hour), Renews: true, Version: 1})
	b.err = problem.Unavailable(context.DeadlineExceeded)
	p := s.Get("/account/plan").Shows(http.StatusOK, "Your plan: Business", "Paid until 20 November 2026, 11:00 UTC",
		"The payment service is temporarily unavailable", "Reload")
	require.NotContains(t, p.Text(), "Upgrade to")
	for _, act := range []string{"upgrade", "portal", "cancel", "resume"} {
		s.Post("/account/plan/"+act).Shows(http.StatusServiceUnavailable, "The payment service is temporarily unavailable", "Check your plan before you try again.")
	}
	s.Get("/account/plan/cancel").Shows(http.StatusOK, "Cancel Business?")
}

func TestASuspendedAccountDoesNotBuy(t *testing.T) {
	s, b := start(t)
	s.Person.SuspendedAt = &s.Now
	s.Post("/account/plan/upgrade").Leads("/account/plan")
	s.Get("/account/plan").Shows(http.StatusOK, "A suspended account cannot buy a plan.")
	require.Empty(t, b.calls)
}
