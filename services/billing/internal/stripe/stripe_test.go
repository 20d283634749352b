package stripe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = sandboxtest.Secret
	older  = "whsec_of_the_endpoint_before"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestSubscriptionState(t *testing.T) {
	refund := func(f *fake, cents int) { f.charges["in_1"]["amount_refunded"] = cents }
	disputed := func(status string) func(f *fake) {
		return func(f *fake) { f.charges["in_1"]["disputed"], f.dispute = true, status }
	}
	renewed := func(s *subscription.State) { s.Paid.Invoice, s.Paid.Until = "in_2", now.AddDate(0, 2, 0) }
	unchanged := func(*subscription.State) {}
	cancelled := func(s *subscription.State) { s.CancelAtPeriodEnd = true }
	for name, c := range map[string]struct {
		change func(f *fake)
		want   func(s *subscription.State)
	}{
		"paid":    {func(*fake) {}, unchanged},
		"renewed": {func(f *fake) { f.renew("paid") }, renewed},
		"renewal fails: the paid period continues": {func(f *fake) { f.renew("open") },
			func(s *subscription.State) { s.Failing = true }},
		"renewal after a failed one is paid": {func(f *fake) { f.renew("open"); f.renew("paid") },
			func(s *subscription.State) { s.Paid.Invoice, s.Paid.Until = "in_3", now.AddDate(0, 3, 0) }},
		"renewal without an amount pays nothing": {func(f *fake) { f.renew("paid"); f.invoices[0]["total"] = 0 }, unchanged},
		"cancelled":                              {func(f *fake) { f.subscription["cancel_at_period_end"] = true }, cancelled},
		"cancelled by a date, as in the portal": {
			func(f *fake) { f.subscription["cancel_at"] = now.AddDate(0, 1, 0).Unix() }, cancelled},
		"cancelled later: it renews before": {
			func(f *fake) { f.subscription["cancel_at"] = now.AddDate(0, 2, 0).Unix() }, unchanged},
		"ended": {func(f *fake) { f.subscription["status"] = "canceled" },
			func(s *subscription.State) { s.Ended = true }},
		"first payment never arrived": {func(f *fake) {
			f.subscription["status"], f.invoices[0]["status"] = "incomplete_expired", "void"
		}, func(s *subscription.State) { s.Ended, s.Paid = true, nil }},
		"another product": {func(f *fake) { f.price["product"] = object{"id": "prod_2"} },
			func(s *subscription.State) { s.Tier = api.BaseTier }},
		"created at Stripe, for the account of its customer": {func(f *fake) { f.subscription["metadata"] = nil }, unchanged},
		"partly refunded":        {func(f *fake) { refund(f, 2899) }, unchanged},
		"refunded":               {func(f *fake) { refund(f, 2900) }, func(s *subscription.State) { s.Paid.Refunded = true }},
		"older payment refunded": {func(f *fake) { refund(f, 2900); f.renew("paid") }, renewed},
		"disputed":               {disputed("needs_response"), func(s *subscription.State) { s.Paid.Disputed = true }},
		"dispute lost":           {disputed("lost"), func(s *subscription.State) { s.Paid.Disputed = true }},
		"dispute won":            {disputed("won"), unchanged},
		"inquiry of the bank":    {disputed("warning_under_review"), unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := start()
			c.change(f)
			want := subscription.State{
				ID: "sub_1", Customer: "cus_1", Account: "acc_1", Tier: api.Commercial,
				Paid: &subscription.Payment{Invoice: "in_1", Until: now.AddDate(0, 1, 0)},
			}
			c.want(&want)
			require.Equal(t, want, storetest.Must(s.Subscription(t.Context(), "sub_1"))(t))
		})
	}
}

// Stripe's objects have only the first ten elements of a list.
func TestNestedListsAreReadToTheEnd(t *testing.T) {
	s, f := start()
	f.subscription["cancel_at"] = now.AddDate(0, 1, 0).Unix()
	want := storetest.Must(s.Subscription(t.Context(), "sub_1"))(t)
	require.Equal(t, api.Commercial, want.Tier)
	f.long = true
	require.Equal(t, want, storetest.Must(s.Subscription(t.Context(), "sub_1"))(t))
	for _, list := range []string{"/lines", "/subscription_items"} {
		f.failAt(list)
		_, err := s.Subscription(t.Context(), "sub_1")
		require.ErrorAs(t, err, new(*problem.Error), "an outage, so that the event is sent again")
	}
}

// Only subscriptions with an account count if those of all customers are listed.
func TestSubscriptionsOfAllCustomers(t *testing.T) {
	s, f := start()
	list := func(customer string) []string {
		return storetest.Must(s.Subscriptions(t.Context(), customer))(t)
	}
	require.Equal(t, []string{"sub_1"}, list(""))
	f.subscription["metadata"] = nil
	require.Equal(t, []string{"sub_1"}, list(""), "its customer has an account")
	f.subscription["customer"] = object{"id": "cus_2"}
	require.Empty(t, list(""))
	require.Equal(t, []string{"sub_1"}, list("cus_2"))
}

// The portal cancels by setting a date, which resuming clears.
func TestCancelAndResumeReachStripe(t *testing.T) {
	s, f := start()
	for _, cancel := range []bool{true, false} {
		require.NoError(t, s.SetCancelAtPeriodEnd(t.Context(), "sub_1", cancel))
		require.Equal(t, cancel, f.subscription["cancel_at_period_end"])
	}
	require.Len(t, f.requests, 2)
	f.subscription["cancel_at"] = now.Unix()
	require.NoError(t, s.SetCancelAtPeriodEnd(t.Context(), "sub_1", false))
	require.Nil(t, f.subscription["cancel_at"])
}

// A repeated request, as after a crash, has the idempotency key of the first one, so that Stripe
// returns the same customer and the same checkout session.
func TestRequestsAreIdempotent(t *testing.T) {
	s, f := start()
	order := subscription.Order{Account: "acc_1", Customer: "cus_1", ReturnURL: "https://api.example/account/plan",
		Attempt: "att_1", ExpiresAt: now.Add(12 * time.Hour)}
	for _, attempt := range []string{"att_1", "att_1", "att_2"} {
		order.Attempt = attempt
		storetest.Must(s.Customer(t.Context(), "acc_1", "ada@example.com", attempt))(t)
		require.Equal(t, "https://checkout.stripe.example/cs_1", storetest.Must(s.Checkout(t.Context(), order))(t))
	}
	for _, path := range []string{"/customers", "/checkout/sessions"} {
		sent := f.posted(path)
		require.Len(t, sent, 3)
		require.Equal(t, sent[0], sent[1])
		require.NotEqual(t, sent[0].key, sent[2].key)
	}
	form := f.posted("/checkout/sessions")[0].form
	require.Equal(t, "acc_1", form.Get("metadata[account]"))
	require.Equal(t, "acc_1", form.Get("subscription_data[metadata][account]"))
	require.Equal(t, "https://api.example/account/plan?checkout=done", form.Get("success_url"))
	require.Equal(t, "https://api.example/account/plan?checkout=left", form.Get("cancel_url"))
	require.Equal(t, fmt.Sprint(now.Add(12*time.Hour).Unix()), form.Get("expires_at"))
}

func TestOfferMustMatchPlanTable(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(price, product object)
		want   string // in the error; empty for none
	}{
		{"matching", func(_, _ object) {}, ""},
		{"other amount", func(p, _ object) { p["unit_amount"] = 3900 }, "amount in cents is 3900, want 2900"},
		{"other currency", func(p, _ object) { p["currency"] = "cad" }, "currency is cad, want usd"},
		{"yearly", func(p, _ object) {
			p["recurring"] = object{"interval": "year", "interval_count": 1, "usage_type": "licensed"}
		}, "interval is 1 year, want 1 month"},
		{"once", func(p, _ object) { p["recurring"] = nil }, "it is charged once"},
		{"archived price", func(p, _ object) { p["active"] = false }, "active is false, want true"},
		{"another product", func(_, p object) { p["name"] = "T-shirt" }, "product name is T-shirt, want Business"},
		{"archived product", func(_, p object) { p["active"] = false }, "product active is false, want true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, f := start()
			c.change(f.price, f.price["product"].(object))
			err := s.CheckOffer(t.Context())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "OPPORTUNITY_STRIPE_PRICE")
			require.NotErrorAs(t, err, new(*problem.Error), "a mismatch is not an outage")
		})
	}
}

func TestStripeErrors(t *testing.T) {
	s, f := start()
	require.ErrorIs(t, storetest.Err(s.Subscription(t.Context(), "sub_nowhere")), subscription.ErrNotFound)

	cfg := stripe.Config{APIKey: "sk_test_wrong_and_secret", Price: "price_1"}
	err := stripe.New(cfg, stripe.Options{Transport: f}).CheckOffer(t.Context())
	require.ErrorContains(t, err, "OPPORTUNITY_STRIPE_API_KEY")
	require.NotContains(t, err.Error(), "wrong_and_secret")
	require.NotErrorAs(t, err, new(*problem.Error))

	f.failAt("")
	unavailable := new(problem.Error)
	require.ErrorAs(t, s.CheckOffer(t.Context()), &unavailable)
	require.Equal(t, problem.ServiceUnavailable, unavailable.Code)

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	cfg.APIBase = closed.URL
	network := stripe.New(cfg, stripe.Options{})
	t.Cleanup(network.Close)
	require.ErrorAs(t, network.CheckOffer(t.Context()), &unavailable)
}

// A deleted customer has an error of its own, unlike other missing objects.
func TestDeletedCustomer(t *testing.T) {
	s, f := start()
	f.noCustomer = true
	_, checkout := s.Checkout(t.Context(), subscription.Order{Customer: "cus_1"})
	_, portal := s.Portal(t.Context(), "cus_1", "https://api.example/account/plan")
	_, list := s.Subscriptions(t.Context(), "cus_1")
	for _, err := range []error{checkout, portal, list} {
		require.ErrorIs(t, err, subscription.ErrNoCustomer)
	}
}
