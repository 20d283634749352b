package billing_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// Authquota receives every change of a subscription, and none before the processor has confirmed
// it.
func TestSubscriptionLifecycle(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *instance) {
		end := now.AddDate(0, 1, 0)
		page := s.checkout("acc_1")
		require.Equal(t, api.Subscription{Entitlement: api.Entitlement{Tier: api.Free}, Customer: true,
			Purchase: api.PurchaseOpen}, s.subscription("acc_1"))
		id, events := s.processor.Pay(page)
		require.Zero(t, s.authquota.entitlement("acc_1").Version, "no entitlement before the webhook event")
		require.Equal(t, http.StatusBadRequest, s.sendWebhook(events[0], events[0].Signature("whsec_of_another_endpoint",
			now)).Status)
		require.Zero(t, s.subscription("acc_1").Entitlement.Version, "rejected events change nothing")
		s.sendEvents(events...)
		e := s.waitForPush("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &end, Renews: true, Version: e.Version}, e)
		require.True(t, s.subscription("acc_1").Renewing)

		canceled := servicetest.Read[api.Subscription](s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_1/cancel", nil))
		require.True(t, canceled.Cancelled)
		require.False(t, s.waitForPush("acc_1").Renews)
		resumed := servicetest.Read[api.Subscription](s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_1/resume", nil))
		require.True(t, resumed.Renewing)
		require.True(t, s.waitForPush("acc_1").Renews)
		s.sendEvents(s.processor.Dispute(id, true)...)
		require.Equal(t, api.Disputed, s.waitForPush("acc_1").Trouble)
		s.processor.Dispute(id, false) // the event is missed
		require.Equal(t, 1, reconcile(s).Healed())
		require.Equal(t, api.NoTrouble, s.waitForPush("acc_1").Trouble)
		storetest.Eventually(t, "counted", func() bool { return s.HasMetric("billing_entitlements_pending 0") })
		require.Equal(t, 5, s.authquota.changed, "each change is applied once")
		require.True(t, s.HasMetric(`billing_webhooks_total{outcome="bad_signature"} 1`))
		require.True(t, s.HasMetric(`billing_reconcile_differences_total{field="disputed"} 1`))
	})
}

func TestRejectedRequests(t *testing.T) {
	s := start(t, schema.SQLite(t))
	request := api.ProcessorRequest{Account: "acc_1", Email: "a@example.com", ReturnURL: returnURL}
	noAccount, noEmail, badURL, query := request, request, request, request
	noAccount.Account, noEmail.Email, badURL.ReturnURL, query.ReturnURL = "", "", "javascript:alert(1)", returnURL+"?a=b"
	for name, body := range map[string]any{"no account": noAccount, "no email address": noEmail, "return URL": badURL,
		"query": query, "unknown field": map[string]any{"account": "acc_1", "returnURL2": "x"}} {
		for _, page := range []string{"checkouts", "portals"} {
			require.Equal(t, http.StatusBadRequest, s.Do(http.MethodPost, "/internal/v1/"+page, body).Status, name)
		}
	}
	require.Equal(t, http.StatusMethodNotAllowed, s.Do(http.MethodGet, "/billing/stripe/webhook", nil).Status)
	for _, path := range []string{"/billing/sandbox/static/style.css", "/billing/sandbox/portal/x", "/billing/sandbox"} {
		require.Equal(t, http.StatusNotFound, s.Do(http.MethodGet, path, nil).Status, "not the sandbox: %s", path)
	}
	s.processor.SetUnavailable(true)
	s.Do(http.MethodPost, "/internal/v1/checkouts", request).RequireError("service_unavailable")
}
