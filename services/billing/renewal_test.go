package billing_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/stripetest"
)

// Stripe charges a renewal an hour after the period has ended. Billing charges it on the webhook event, so that access is not interrupted.
func TestRenewalIsChargedOnWebhookEvent(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		end := now.Add(stripetest.Period)
		require.Equal(t, end, *s.waitForPush("acc_1").PaidUntil)
		until := func(periods int) {
			t.Helper()
			end = end.Add(stripetest.Period)
			e := s.waitForPush("acc_1")
			require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &end, Renews: true, Version: e.Version}, e)
			require.Len(t, s.stripe.Requests("POST /v1/invoices/"), 2*periods, "each invoice is finalized and charged once")
		}
		events = s.stripe.DraftRenewal(id)
		s.sendEvents(events[1]) // invoice.created
		until(1)
		s.sendEvents(events...)
		require.Len(t, s.stripe.Requests("POST /v1/invoices/"), 2, "already charged")
		s.sendEvents(s.stripe.DraftRenewal(id)[0]) // customer.subscription.updated, whichever comes first
		until(2)
		s.stripe.DraftRenewal(id) // its events are lost
		report := reconcile(s)
		require.Zero(t, report.Failed)
		require.Len(t, report.Differences, 2, "the invoice and its period: %v", report.Differences)
		until(3)
	})
}

func TestRenewalsNotChargedImmediately(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		charges := func() int { return len(s.stripe.Requests("POST /v1/invoices/")) }
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		paid := s.waitForPush("acc_1")

		invoiceCreated := s.stripe.DraftRenewal(id)[1]
		for _, step := range []string{"/finalize", "/pay"} { // Stripe sends the event again
			s.stripe.Gate(func(r *http.Request) {
				if strings.HasSuffix(r.URL.Path, step) {
					panic(http.ErrAbortHandler)
				}
			})
			require.Equal(t, http.StatusServiceUnavailable, s.sendEvent(invoiceCreated).Status, step)
			require.Equal(t, paid, s.subscription("acc_1").Entitlement)
			require.Equal(t, 1, reconcile(s).Failed)
		}
		s.stripe.Gate(nil)
		s.stripe.Decline(true)
		s.sendEvents(invoiceCreated)
		require.Equal(t, api.PaymentFailed, s.waitForPush("acc_1").Trouble)
		require.Equal(t, paid.PaidUntil, s.waitForPush("acc_1").PaidUntil, "a declined card neither extends nor shortens the paid period")
		before := charges()
		require.Zero(t, reconcile(s).Failed)
		require.Equal(t, before, charges(), "Stripe retries the card, billing does not")
		s.stripe.Decline(false)

		invoiceCreated = s.stripe.DraftRenewal(id)[1]
		s.stripe.Cancel(id, true)
		before = charges()
		s.sendEvents(invoiceCreated)
		require.Equal(t, before, charges(), "cancelled before the charge: left to Stripe")
		s.sendEvents(s.stripe.Cancel(id, false)...)
		require.Equal(t, before+2, charges())

		other, events := s.stripe.Subscribe("cus_unknown", map[string]any{})
		s.sendEvents(events[0])
		s.sendEvents(s.stripe.DraftRenewal(other)...)
		require.Equal(t, before+2, charges(), "subscriptions of unknown accounts are not charged")
	})
}

// If the API key may not charge, the event still succeeds: a failing event would delay Stripe's own charge.
func TestRejectedChargeIsLeftToStripe(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		events = s.stripe.DraftRenewal(id)
		s.stripe.ForbidWrites("/v1/invoices/")
		s.sendEvents(events...)
		require.Contains(t, s.Log.String(), "renewal charge rejected, left to the processor")
		require.Contains(t, s.Log.String(), "OPPORTUNITY_STRIPE_API_KEY is invalid or lacks the permission")
		require.Zero(t, reconcile(s).Failed)
		require.Equal(t, "draft", s.stripe.UpdateInvoice(id, nil)["status"])
	})
}
