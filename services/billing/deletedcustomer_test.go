package billing_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// Whom somebody has deleted at the processor can buy again, under another customer, and keeps what is paid for.
func TestDeletedCustomer(t *testing.T) {
	for name, lists := range map[string]bool{"and is forgotten there": false, "and is listed still": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *service) {
				page := s.checkout("acc_1")
				_, told := s.stripe.Pay(page)
				s.announced(told...)
				paid := s.knows("acc_1")
				customer, _ := s.stripe.Session(page)["customer"].(string)
				ended := s.stripe.DeleteCustomer(customer, lists)

				require.Zero(t, reconciled(s).Failed, "there is nobody to ask for")
				again := s.checkout("acc_1")
				require.Contains(t, again, "/pay/")
				require.NotEqual(t, customer, s.stripe.Session(again)["customer"])
				require.Equal(t, again, s.checkout("acc_1"))
				e := s.knows("acc_1")
				require.Equal(t, paid.PaidUntil, e.PaidUntil, "what was paid for runs on")
				require.False(t, e.Renews, "with the customer its subscriptions are over")
				s.announced(ended...)
				require.Equal(t, e, s.knows("acc_1"))

				id, told := s.stripe.Pay(again)
				s.announced(told...)
				require.True(t, s.knows("acc_1").Renews)
				require.Contains(t, s.checkout("acc_1"), "/portal/")
				s.announced(s.stripe.Renew(id, true)...)
				require.True(t, s.knows("acc_1").PaidUntil.After(*paid.PaidUntil))
			})
		})
	}
}

// What a deleted customer had stays the account's, also where only the customer said whose it was: a dispute takes it back still.
func TestDisputeOfADeletedCustomer(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		customer, _ := s.stripe.Session(s.checkout("acc_1"))["customer"].(string)
		id, told := s.stripe.Subscribe(customer, map[string]any{})
		s.announced(told...)
		require.Equal(t, api.Commercial, s.knows("acc_1").Tier)
		s.stripe.DeleteCustomer(customer, false)
		require.Contains(t, s.checkout("acc_1"), "/pay/")
		require.Equal(t, api.Commercial, s.knows("acc_1").Tier)
		s.announced(s.stripe.Dispute(id, "needs_response")...)
		require.Equal(t, api.Disputed, s.knows("acc_1").Trouble)
	})
}

func TestDeletedCustomerHasNoPortal(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		page := s.checkout("acc_1")
		_, told := s.stripe.Pay(page)
		s.announced(told...)
		customer, _ := s.stripe.Session(page)["customer"].(string)
		s.stripe.DeleteCustomer(customer, false)
		want := api.PortalRequest{Account: "acc_1", ReturnURL: returnURL}
		require.Equal(t, http.StatusNotFound, s.do(http.MethodPost, "/internal/v1/portals", want).status)
		require.False(t, s.standing("acc_1").Customer)
		require.False(t, s.standing("acc_1").Renewing)
	})
}

// A subscription that has ended at the processor, of which nobody has been told yet, is not charged either: there is nothing to cancel.
func TestCancelWhatHasEnded(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		s.stripe.Delete(id)
		got := read[api.Subscription](s.do(http.MethodPost, "/internal/v1/subscriptions/acc_1/cancel", nil))
		require.False(t, got.Renewing)
		require.False(t, s.knows("acc_1").Renews)

		id, told = s.stripe.Pay(s.checkout("acc_2"))
		s.announced(told...)
		s.stripe.Forbid("/v1/subscriptions/" + id)
		require.Equal(t, http.StatusInternalServerError, s.do(http.MethodPost, "/internal/v1/subscriptions/acc_2/cancel", nil).status)
		require.True(t, s.standing("acc_2").Renewing, "it is not said to be cancelled because the key may not")
	})
}
