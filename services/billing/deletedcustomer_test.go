package billing_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
)

// An account whose customer was deleted at the processor can buy again, as a new customer, and keeps its paid period.
func TestDeletedCustomer(t *testing.T) {
	for name, lists := range map[string]bool{"subscriptions not listed": false, "subscriptions listed": true} {
		t.Run(name, func(t *testing.T) {
			onBothDatabases(t, func(t *testing.T, s *service) {
				page := s.checkout("acc_1")
				_, events := s.stripe.Pay(page)
				s.sendEvents(events...)
				paid := s.waitForPush("acc_1")
				customer, _ := s.stripe.Session(page)["customer"].(string)
				endEvents := s.stripe.DeleteCustomer(customer, lists)

				require.Zero(t, reconcile(s).Failed, "a deleted customer is not an error")
				again := s.checkout("acc_1")
				require.Contains(t, again, "/pay/")
				require.NotEqual(t, customer, s.stripe.Session(again)["customer"])
				require.Equal(t, again, s.checkout("acc_1"))
				e := s.waitForPush("acc_1")
				require.Equal(t, paid.PaidUntil, e.PaidUntil, "the paid period continues")
				require.False(t, e.Renews, "deleting the customer ends its subscriptions")
				s.sendEvents(endEvents...)
				require.Equal(t, e, s.waitForPush("acc_1"))

				id, events := s.stripe.Pay(again)
				s.sendEvents(events...)
				require.True(t, s.waitForPush("acc_1").Renews)
				require.Contains(t, s.checkout("acc_1"), "/portal/")
				s.sendEvents(s.stripe.Renew(id, true)...)
				require.True(t, s.waitForPush("acc_1").PaidUntil.After(*paid.PaidUntil))
			})
		})
	}
}

// A subscription stays with its account after the customer is deleted, even if only the customer named the account. A dispute still ends
// access.
func TestDisputeOfDeletedCustomer(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		customer, _ := s.stripe.Session(s.checkout("acc_1"))["customer"].(string)
		id, events := s.stripe.Subscribe(customer, map[string]any{})
		s.sendEvents(events...)
		require.Equal(t, api.Commercial, s.waitForPush("acc_1").Tier)
		s.stripe.DeleteCustomer(customer, false)
		require.Contains(t, s.checkout("acc_1"), "/pay/")
		require.Equal(t, api.Commercial, s.waitForPush("acc_1").Tier)
		s.sendEvents(s.stripe.Dispute(id, "needs_response")...)
		require.Equal(t, api.Disputed, s.waitForPush("acc_1").Trouble)
	})
}

func TestDeletedCustomerHasNoPortal(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		page := s.checkout("acc_1")
		_, events := s.stripe.Pay(page)
		s.sendEvents(events...)
		customer, _ := s.stripe.Session(page)["customer"].(string)
		s.stripe.DeleteCustomer(customer, false)
		want := api.PortalRequest{Account: "acc_1", ReturnURL: returnURL}
		require.Equal(t, http.StatusNotFound, s.Do(http.MethodPost, "/internal/v1/portals", want).Status)
		require.False(t, s.subscription("acc_1").Customer)
		require.False(t, s.subscription("acc_1").Renewing)
	})
}

// Cancelling succeeds if the subscription has already ended at the processor, even before the webhook event.
func TestCancelEndedSubscription(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		s.stripe.Delete(id)
		got := servicetest.Read[api.Subscription](s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_1/cancel", nil))
		require.False(t, got.Renewing)
		require.False(t, s.waitForPush("acc_1").Renews)

		id, events = s.stripe.Pay(s.checkout("acc_2"))
		s.sendEvents(events...)
		s.stripe.ForbidWrites("/v1/subscriptions/" + id)
		require.Equal(t, http.StatusInternalServerError, s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_2/cancel", nil).Status)
		require.True(t, s.subscription("acc_2").Renewing, "not cancelled: the API key lacks the permission")
	})
}
