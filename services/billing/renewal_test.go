package billing_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/stripetest"
)

// Stripe lets a renewal's invoice lie for an hour. Nobody who pays is free for that long: it is charged when it is announced.
func TestARenewalIsChargedWhenItIsAnnounced(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		end := now.Add(stripetest.Period)
		require.Equal(t, end, *s.knows("acc_1").PaidUntil)
		until := func(periods int) {
			t.Helper()
			end = end.Add(stripetest.Period)
			e := s.knows("acc_1")
			require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &end, Renews: true, Version: e.Version}, e)
			require.Len(t, s.stripe.Requests("POST /v1/invoices/"), 2*periods, "each is finalized and charged once")
		}
		told = s.stripe.Draft(id)
		s.announced(told[1]) // invoice.created
		until(1)
		s.announced(told...)
		require.Len(t, s.stripe.Requests("POST /v1/invoices/"), 2, "it is charged no more")
		s.announced(s.stripe.Draft(id)[0]) // whichever comes first
		until(2)
		s.stripe.Draft(id) // it is announced to nobody
		report := reconciled(s)
		require.Zero(t, report.Failed)
		require.Len(t, report.Differences, 2, "the invoice, and what it pays for: %v", report.Differences)
		until(3)
	})
}

func TestRenewalsThatAreNotChargedAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		charges := func() int { return len(s.stripe.Requests("POST /v1/invoices/")) }
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		paid := s.knows("acc_1")

		created := s.stripe.Draft(id)[1]
		for _, step := range []string{"/finalize", "/pay"} { // it is announced again
			s.stripe.Gate(func(r *http.Request) {
				if strings.HasSuffix(r.URL.Path, step) {
					panic(http.ErrAbortHandler)
				}
			})
			require.Equal(t, http.StatusServiceUnavailable, s.announce(created).status, step)
			require.Equal(t, paid, s.standing("acc_1").Entitlement)
			require.Equal(t, 1, reconciled(s).Failed)
		}
		s.stripe.Gate(nil)
		s.stripe.Decline(true)
		s.announced(created)
		require.Equal(t, api.PaymentFailed, s.knows("acc_1").Trouble)
		require.Equal(t, paid.PaidUntil, s.knows("acc_1").PaidUntil, "a declined card gives no grace, and takes nothing")
		before := charges()
		require.Zero(t, reconciled(s).Failed)
		require.Equal(t, before, charges(), "Stripe tries the card again, and we do not")
		s.stripe.Decline(false)

		created = s.stripe.Draft(id)[1]
		s.stripe.Cancel(id, true)
		before = charges()
		s.announced(created)
		require.Equal(t, before, charges(), "cancelled in between: Stripe charges it in its own time")
		s.announced(s.stripe.Cancel(id, false)...)
		require.Equal(t, before+2, charges())

		other, told := s.stripe.Subscribe("cus_nobody", map[string]any{})
		s.announced(told[0])
		s.announced(s.stripe.Draft(other)...)
		require.Equal(t, before+2, charges(), "what is nobody's is left alone")
	})
}

// A key that may not charge keeps nobody from being charged by Stripe: an announcement that is never taken in would.
func TestARefusedChargeIsLeftToStripe(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		told = s.stripe.Draft(id)
		s.stripe.Forbid("/v1/invoices/")
		s.announced(told...)
		require.Contains(t, s.log.String(), "a renewal is not charged at once")
		require.Contains(t, s.log.String(), "OPPORTUNITY_STRIPE_API_KEY is not accepted for this")
		require.Zero(t, reconciled(s).Failed)
		require.Equal(t, "draft", s.stripe.Invoice(id, nil)["status"])
	})
}
