package billing_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/stripetest"
)

// Authquota receives every change of a subscription, and none before the processor has confirmed it.
func TestSubscriptionLifecycle(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		end := now.Add(stripetest.Period)
		page := s.checkout("acc_1")
		require.Equal(t, api.Subscription{Entitlement: api.Entitlement{Tier: api.Free}, Customer: true}, s.subscription("acc_1"))
		id, events := s.stripe.Pay(page)
		require.Zero(t, s.authquota.entitlement("acc_1").Version, "no entitlement before the webhook event")
		s.sendEvents(events...)
		e := s.waitForPush("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &end, Renews: true, Version: e.Version}, e)
		require.True(t, s.subscription("acc_1").Renewing)

		s.sendEvents(s.stripe.Renew(id, false)...)
		e = s.waitForPush("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &end, Renews: true, Trouble: api.PaymentFailed, Version: e.Version}, e)
		s.sendEvents(s.stripe.Renew(id, true)...)
		later := end.Add(2 * stripetest.Period)
		e = s.waitForPush("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &later, Renews: true, Version: e.Version}, e)

		s.sendEvents(s.stripe.Refund(id, 2900)...)
		e = s.waitForPush("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Free, Trouble: api.Refunded, Version: e.Version}, e)
		s.sendEvents(s.stripe.Delete(id)...)

		page = s.checkout("acc_1")
		id, events = s.stripe.Pay(page)
		s.sendEvents(events...)
		require.Equal(t, api.Commercial, s.waitForPush("acc_1").Tier)
		s.sendEvents(s.stripe.Dispute(id, "needs_response")...)
		require.Equal(t, api.Disputed, s.waitForPush("acc_1").Trouble)
		s.sendEvents(s.stripe.Dispute(id, "won")...)
		require.Equal(t, api.NoTrouble, s.waitForPush("acc_1").Trouble)
		storetest.Eventually(t, "counted", func() bool { return s.HasMetric("billing_entitlements_pending 0") })
		require.Equal(t, 7, s.authquota.changed, "each change is applied once")
	})
}

func TestWebhook(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		_, events := s.stripe.Pay(s.checkout("acc_1"))
		e := events[1]
		post := func(body []byte, signature string) int {
			return s.sendWebhook(body, signature).Status
		}
		require.Equal(t, http.StatusBadRequest, post(e, ""), "no signature")
		require.Equal(t, http.StatusBadRequest, post(e, e.Signature("whsec_of_another_endpoint", now)))
		require.Equal(t, http.StatusBadRequest, post(e, e.Signature(secret, now.Add(-time.Hour))))
		require.Equal(t, http.StatusBadRequest, post(append(bytes.Clone(e), ' '), e.Signature(secret, now)))
		empty := stripetest.Event(`{"object":"event"}`)
		require.Equal(t, http.StatusBadRequest, post(empty, empty.Signature(secret, now)))
		large := stripetest.Event(string(e[:len(e)-1]) + `,"more":"` + strings.Repeat("x", 256<<10) + `"}`)
		require.Equal(t, http.StatusBadRequest, post(large, large.Signature(secret, now)))
		require.Equal(t, http.StatusMethodNotAllowed, s.Do(http.MethodGet, "/billing/stripe/webhook", nil).Status)
		require.Zero(t, s.subscription("acc_1").Entitlement.Version, "rejected events change nothing")
		require.True(t, s.HasMetric(`billing_webhooks_total{outcome="bad_signature"} 4`))
		require.True(t, s.HasMetric(`billing_webhooks_total{outcome="malformed"} 2`))

		a := s.sendEvent(s.stripe.UnrelatedEvent("product.updated"))
		require.Equal(t, http.StatusOK, a.Status)
		require.JSONEq(t, `{"outcome":"irrelevant"}`, a.Body)

		s.stripe.SetUnavailable(true) // the event must not be marked as processed
		require.Equal(t, http.StatusServiceUnavailable, s.sendEvent(e).Status)
		s.stripe.SetUnavailable(false)
		require.JSONEq(t, `{"outcome":"done"}`, s.sendEvent(e).Body)
		requests := len(s.stripe.Requests("GET /v1/subscriptions/"))
		require.JSONEq(t, `{"outcome":"repeated"}`, s.sendEvent(e).Body)
		require.Len(t, s.stripe.Requests("GET /v1/subscriptions/"), requests, "a duplicate makes no request")
		require.Equal(t, api.Commercial, s.waitForPush("acc_1").Tier)
		require.True(t, s.HasMetric(`billing_webhooks_total{outcome="done"} 1`))
		require.True(t, s.HasMetric(`billing_webhooks_total{outcome="failed"} 1`))
		require.True(t, s.HasMetric(`billing_webhooks_total{outcome="repeated"} 1`))

		id, events := s.stripe.Subscribe("cus_unknown", map[string]any{}) // a customer that billing does not know
		require.NotEmpty(t, id)
		require.JSONEq(t, `{"outcome":"irrelevant"}`, s.sendEvent(events[0]).Body)
		s.stripe.Remove(id)
		require.JSONEq(t, `{"outcome":"irrelevant"}`, s.sendEvent(events[1]).Body)
	})
}

func TestOneCheckoutSessionPerPurchase(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		pages := make(chan string, 4)
		for range cap(pages) {
			go func() { pages <- s.checkout("acc_1") }()
		}
		page := <-pages
		for range cap(pages) - 1 {
			require.Equal(t, page, <-pages, "two clicks open one session")
		}
		id, events := s.stripe.Pay(page)
		portal := s.checkout("acc_1")
		require.Contains(t, portal, "/portal/", "a paid account cannot buy again, even before the webhook event")
		s.sendEvents(events...)
		require.Contains(t, s.checkout("acc_1"), "/portal/")
		s.sendEvents(s.stripe.Cancel(id, true)...)
		require.Contains(t, s.checkout("acc_1"), "/portal/", "still paid: it can be resumed in the portal")
		s.sendEvents(s.stripe.Delete(id)...)
		require.NotEqual(t, page, s.checkout("acc_1"), "a new purchase gets a new session")
		require.Contains(t, s.checkout("acc_1"), "/pay/")
		require.NotEqual(t, s.checkout("acc_1"), s.checkout("acc_2"))
	})
}

func TestCancelAndResume(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		act := func(what string) api.Subscription {
			return servicetest.Read[api.Subscription](s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_1/"+what, nil))
		}
		require.Equal(t, api.Subscription{Entitlement: api.Entitlement{Tier: api.Free}}, act("cancel"), "nothing to cancel")
		_, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		paid := s.waitForPush("acc_1")
		got := act("cancel")
		require.True(t, got.Cancelled && !got.Renewing && !got.Entitlement.Renews)
		require.Equal(t, paid.PaidUntil, got.Entitlement.PaidUntil, "the paid period continues")
		require.Equal(t, got, act("cancel"), "already cancelled")
		require.False(t, s.waitForPush("acc_1").Renews)
		got = act("resume")
		require.True(t, got.Renewing && !got.Cancelled && got.Entitlement.Renews)
		require.Equal(t, got, act("resume"))
		require.True(t, s.waitForPush("acc_1").Renews)

		s.stripe.SetUnavailable(true)
		require.Equal(t, http.StatusServiceUnavailable, s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_1/cancel", nil).Status)
		s.stripe.SetUnavailable(false)
		require.Equal(t, got, s.subscription("acc_1"))
	})
}

// The portal cancels by setting a date, which resuming clears. A date in a later period does not cancel the renewals before it.
func TestCancellationInPortal(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		act := func(what string) api.Subscription {
			return servicetest.Read[api.Subscription](s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_1/"+what, nil))
		}
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		s.sendEvents(s.stripe.CancelAt(id, 0)...)
		require.True(t, s.subscription("acc_1").Cancelled)
		require.True(t, act("resume").Renewing)
		require.True(t, s.waitForPush("acc_1").Renews)

		s.sendEvents(s.stripe.CancelAt(id, 3)...)
		require.True(t, s.subscription("acc_1").Renewing, "it renews before it ends")
		require.True(t, act("cancel").Cancelled)
		require.True(t, act("resume").Renewing)
	})
}

func TestPortal(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		portal := func(returnTo string) servicetest.Response {
			return s.Do(http.MethodPost, "/internal/v1/portals", api.PortalRequest{Account: "acc_1", ReturnURL: returnTo})
		}
		require.Equal(t, http.StatusNotFound, portal(returnURL).Status, "not a customer yet")
		s.checkout("acc_1")
		require.Contains(t, servicetest.Read[api.ProcessorPage](portal(returnURL)).URL, "/portal/cus_")
		require.Equal(t, http.StatusBadRequest, portal("javascript:alert(1)").Status)
		require.Equal(t, http.StatusBadRequest, s.Do(http.MethodPost, "/internal/v1/portals", map[string]any{"account": "acc_1", "returnURL2": "x"}).Status)
		s.stripe.SetUnavailable(true)
		a := portal(returnURL)
		require.Equal(t, http.StatusServiceUnavailable, a.Status)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
		require.Equal(t, http.StatusServiceUnavailable,
			s.Do(http.MethodPost, "/internal/v1/checkouts", api.CheckoutRequest{Account: "acc_2", Email: "b@example.com", ReturnURL: returnURL}).Status)
	})
}

// Whatever authquota responds, it eventually receives the latest version and applies each version once.
func TestEntitlementsEventuallyReachAuthquota(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		s.authquota.set(func() { s.authquota.dropReplies = true })
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		storetest.Eventually(t, "pushed, reply lost", func() bool { return s.authquota.entitlement("acc_1").Tier == api.Commercial })
		storetest.Eventually(t, "pending", func() bool { return s.HasMetric("billing_entitlements_pending 1") })
		s.Stop()
		s.authquota.set(func() { s.authquota.dropReplies = false })
		s.cfg.Now = func() time.Time { return now.Add(time.Minute) } // postponed pushes are due
		s.run()
		storetest.Eventually(t, "accepted", func() bool { return s.HasMetric(`billing_entitlement_pushes_total{outcome="accepted"} 1`) })
		s.authquota.set(func() { require.Equal(t, 1, s.authquota.changed) })

		s.authquota.set(func() { s.authquota.status = http.StatusServiceUnavailable })
		s.sendEvents(s.stripe.Renew(id, true)...)
		storetest.Eventually(t, "pushed", func() bool { return s.HasMetric(`billing_entitlement_pushes_total{outcome="failed"} 1`) })
		s.authquota.set(func() { s.authquota.status = http.StatusNotFound })
		s.sendEvents(s.stripe.Renew(id, true)...)
		storetest.Eventually(t, "pushed", func() bool { return s.HasMetric(`billing_entitlement_pushes_total{outcome="unknown_account"} 1`) })
		require.Contains(t, s.Log.String(), "paid account unknown to authquota")
		s.authquota.set(func() { s.authquota.status = 0 })
		s.sendEvents(s.stripe.Renew(id, true)...)
		s.waitForPush("acc_1")
		s.authquota.set(func() { require.Equal(t, 2, s.authquota.changed) })

		s.authquota.set(func() { s.authquota.status = http.StatusNotFound })
		s.sendEvents(s.stripe.Renew(id, true)...)
		storetest.Eventually(t, "pending", func() bool { return s.HasMetric("billing_entitlements_pending 1") })
		s.sendEvents(s.stripe.Refund(id, 2900)...)
		storetest.Eventually(t, "no pending push for an unknown account once nothing is paid", func() bool { return s.HasMetric("billing_entitlements_pending 0") })
	})
}
