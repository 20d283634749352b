package stripe_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
)

// Stripe charges a renewal an hour after the period has ended. It is charged as soon as it is
// known, so that access is not interrupted. What Stripe would not charge on its own, or the account
// does not want, is not charged.
func TestPendingRenewalIsCharged(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(f *fake, invoice object)
		charged bool
	}{
		"a draft":                        {func(*fake, object) {}, true},
		"finalized, not charged":         {func(_ *fake, in object) { in["status"] = "open" }, true},
		"declined: Stripe retries":       {func(_ *fake, in object) { in["status"], in["attempted"] = "open", true }, false},
		"void":                           {func(_ *fake, in object) { in["status"] = "void" }, false},
		"paid":                           {func(_ *fake, in object) { in["status"] = "paid" }, false},
		"does not advance automatically": {func(_ *fake, in object) { in["auto_advance"] = false }, false},
		"sent by mail":                   {func(_ *fake, in object) { in["collection_method"] = "send_invoice" }, false},
		"first invoice":                  {func(_ *fake, in object) { in["billing_reason"] = "subscription_create" }, false},
		"cancelled":                      {func(f *fake, _ object) { f.subscription["cancel_at_period_end"] = true }, false},
		"ended":                          {func(f *fake, _ object) { f.subscription["status"] = "canceled" }, false},
		"another product":                {func(f *fake, _ object) { f.price["product"] = object{"id": "prod_2"} }, false},
		"unknown account": {func(f *fake, _ object) {
			f.subscription["metadata"], f.subscription["customer"] = nil, object{"id": "cus_1"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := start()
			f.renew("draft")
			c.change(f, f.invoices[0])
			state := storetest.Must(s.Subscription(t.Context(), "sub_1"))(t)
			require.Equal(t, c.charged, len(f.posted("/pay")) == 1)
			if c.charged {
				require.Equal(t, "in_2", state.Paid.Invoice)
				require.Equal(t, now.AddDate(0, 2, 0), state.Paid.Until)
			}
		})
	}
}

// A card that is declined neither extends nor shortens the paid period.
func TestDeclinedRenewal(t *testing.T) {
	s, f := start()
	invoice := f.renew("draft")
	f.declines = true
	for range 2 {
		state := storetest.Must(s.Subscription(t.Context(), "sub_1"))(t)
		require.True(t, state.Failing)
		require.Equal(t, "in_1", state.Paid.Invoice)
	}
	require.Len(t, f.posted("/pay"), 1, "Stripe retries the card, billing does not")
	require.Equal(t, "true", f.posted(invoice + "/finalize")[0].form.Get("auto_advance"))
}

// A failed request is an outage, so that the event is sent again. The next attempt charges, with
// the same idempotency key, so that a charge whose response was lost is not repeated.
func TestOutageDuringCharge(t *testing.T) {
	for _, step := range []string{"/finalize", "/pay"} {
		s, f := start()
		f.renew("draft")
		f.failAt(step)
		require.ErrorAs(t, storetest.Err(s.Subscription(t.Context(), "sub_1")), new(*problem.Error), step)
		f.fail = nil
		require.Equal(t, "in_2", storetest.Must(s.Subscription(t.Context(), "sub_1"))(t).Paid.Invoice)
		paid := f.posted("/pay")
		require.NotEmpty(t, paid[0].key)
		require.Equal(t, paid[0].key, paid[len(paid)-1].key)
	}
	s, f := start()
	f.renew("draft")
	f.fail = func(r *http.Request) int {
		if r.Method == http.MethodGet && len(f.posted("/pay")) > 0 {
			return http.StatusInternalServerError
		}
		return 0
	}
	require.ErrorAs(t, storetest.Err(s.Subscription(t.Context(), "sub_1")), new(*problem.Error), "after the charge")
}

// If the API key may not charge, the event still succeeds: a failing event would delay Stripe's own
// charge.
func TestRejectedChargeIsLeftToStripe(t *testing.T) {
	s, f := start()
	f.renew("draft")
	f.fail = func(r *http.Request) int {
		if r.Method == http.MethodPost {
			return http.StatusForbidden
		}
		return 0
	}
	require.Equal(t, "in_1", storetest.Must(s.Subscription(t.Context(), "sub_1"))(t).Paid.Invoice)
	require.Equal(t, "draft", f.invoices[0]["status"])
	require.Contains(t, f.log.String(), "renewal charge rejected, left to the processor")
	require.Contains(t, f.log.String(), "OPPORTUNITY_STRIPE_API_KEY is invalid or lacks the permission")
}
