package billing_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/stripetest"
)

// The life of a subscription: authquota learns of each change, and of nothing before the processor has confirmed it.
func TestLifeOfASubscription(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		end := now.Add(stripetest.Period)
		page := s.checkout("acc_1")
		require.Equal(t, api.Subscription{Entitlement: api.Entitlement{Tier: api.Free}, Customer: true}, s.standing("acc_1"))
		id, told := s.stripe.Pay(page)
		require.Zero(t, s.authquota.of("acc_1").Version, "nothing is given before it is announced")
		s.announced(told...)
		e := s.knows("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &end, Renews: true, Version: e.Version}, e)
		require.True(t, s.standing("acc_1").Renewing)

		s.announced(s.stripe.Renew(id, false)...)
		e = s.knows("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &end, Renews: true, Trouble: api.PaymentFailed, Version: e.Version}, e)
		s.announced(s.stripe.Renew(id, true)...)
		later := end.Add(2 * stripetest.Period)
		e = s.knows("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &later, Renews: true, Version: e.Version}, e)

		s.announced(s.stripe.Refund(id, 2900)...)
		e = s.knows("acc_1")
		require.Equal(t, api.Entitlement{Tier: api.Free, Trouble: api.Refunded, Version: e.Version}, e)
		s.announced(s.stripe.Delete(id)...)

		page = s.checkout("acc_1")
		id, told = s.stripe.Pay(page)
		s.announced(told...)
		require.Equal(t, api.Commercial, s.knows("acc_1").Tier)
		s.announced(s.stripe.Dispute(id, "needs_response")...)
		require.Equal(t, api.Disputed, s.knows("acc_1").Trouble)
		s.announced(s.stripe.Dispute(id, "won")...)
		require.Equal(t, api.NoTrouble, s.knows("acc_1").Trouble)
		storetest.Eventually(t, "counted", func() bool { return s.metric("billing_entitlements_pending 0") })
		require.Equal(t, 7, s.authquota.changed, "each change once")
	})
}

func TestAnnouncements(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		_, told := s.stripe.Pay(s.checkout("acc_1"))
		e := told[1]
		post := func(body []byte, signature string) int {
			return s.do(http.MethodPost, "/billing/stripe/webhook", body, "Stripe-Signature", signature).status
		}
		require.Equal(t, http.StatusBadRequest, post(e, ""), "no signature")
		require.Equal(t, http.StatusBadRequest, post(e, e.Signed("whsec_of_somebody_else", now)))
		require.Equal(t, http.StatusBadRequest, post(e, e.Signed(secret, now.Add(-time.Hour))))
		require.Equal(t, http.StatusBadRequest, post(append(bytes.Clone(e), ' '), e.Signed(secret, now)))
		rubbish := stripetest.Event(`{"object":"event"}`)
		require.Equal(t, http.StatusBadRequest, post(rubbish, rubbish.Signed(secret, now)))
		large := stripetest.Event(string(e[:len(e)-1]) + `,"more":"` + strings.Repeat("x", 256<<10) + `"}`)
		require.Equal(t, http.StatusBadRequest, post(large, large.Signed(secret, now)))
		require.Equal(t, http.StatusMethodNotAllowed, s.do(http.MethodGet, "/billing/stripe/webhook", nil).status)
		require.Zero(t, s.standing("acc_1").Entitlement.Version, "nothing of all that is believed")
		require.True(t, s.metric(`billing_webhooks_total{outcome="bad_signature"} 4`))
		require.True(t, s.metric(`billing_webhooks_total{outcome="malformed"} 2`))

		a := s.announce(s.stripe.Other("product.updated"))
		require.Equal(t, http.StatusOK, a.status)
		require.JSONEq(t, `{"outcome":"irrelevant"}`, a.body)

		s.stripe.Away(true) // while Stripe cannot be asked nothing is claimed
		require.Equal(t, http.StatusServiceUnavailable, s.announce(e).status)
		s.stripe.Away(false)
		require.JSONEq(t, `{"outcome":"done"}`, s.announce(e).body)
		asked := len(s.stripe.Requests("GET /v1/subscriptions/"))
		require.JSONEq(t, `{"outcome":"repeated"}`, s.announce(e).body)
		require.Len(t, s.stripe.Requests("GET /v1/subscriptions/"), asked, "a repeat asks nothing")
		require.Equal(t, api.Commercial, s.knows("acc_1").Tier)
		require.True(t, s.metric(`billing_webhooks_total{outcome="done"} 1`))
		require.True(t, s.metric(`billing_webhooks_total{outcome="failed"} 1`))
		require.True(t, s.metric(`billing_webhooks_total{outcome="repeated"} 1`))

		id, told := s.stripe.Subscribe("cus_nobody", map[string]any{}) // of a customer that does not exist here
		require.NotEmpty(t, id)
		require.JSONEq(t, `{"outcome":"irrelevant"}`, s.announce(told[0]).body)
		s.stripe.Lose(id)
		require.JSONEq(t, `{"outcome":"irrelevant"}`, s.announce(told[1]).body)
	})
}

func TestOneWishToBuyIsOnePage(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		pages := make(chan string, 4)
		for range cap(pages) {
			go func() { pages <- s.checkout("acc_1") }()
		}
		page := <-pages
		for range cap(pages) - 1 {
			require.Equal(t, page, <-pages, "two clicks open one page")
		}
		id, told := s.stripe.Pay(page)
		portal := s.checkout("acc_1")
		require.Contains(t, portal, "/portal/", "who has paid is not sold it again, even before it is announced")
		s.announced(told...)
		require.Contains(t, s.checkout("acc_1"), "/portal/")
		s.announced(s.stripe.Cancel(id, true)...)
		require.Contains(t, s.checkout("acc_1"), "/portal/", "it is paid for still: it can be resumed there")
		s.announced(s.stripe.Delete(id)...)
		require.NotEqual(t, page, s.checkout("acc_1"), "a new wish is a new page")
		require.Contains(t, s.checkout("acc_1"), "/pay/")
		require.NotEqual(t, s.checkout("acc_1"), s.checkout("acc_2"))
	})
}

func TestCancelAndResume(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		act := func(what string) api.Subscription {
			return read[api.Subscription](s.do(http.MethodPost, "/internal/v1/subscriptions/acc_1/"+what, nil))
		}
		require.Equal(t, api.Subscription{Entitlement: api.Entitlement{Tier: api.Free}}, act("cancel"), "there is nothing to cancel")
		_, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		paid := s.knows("acc_1")
		got := act("cancel")
		require.True(t, got.Cancelled && !got.Renewing && !got.Entitlement.Renews)
		require.Equal(t, paid.PaidUntil, got.Entitlement.PaidUntil, "what is paid for runs on")
		require.Equal(t, got, act("cancel"), "it is as asked already")
		require.False(t, s.knows("acc_1").Renews)
		got = act("resume")
		require.True(t, got.Renewing && !got.Cancelled && got.Entitlement.Renews)
		require.Equal(t, got, act("resume"))
		require.True(t, s.knows("acc_1").Renews)

		s.stripe.Away(true)
		require.Equal(t, http.StatusServiceUnavailable, s.do(http.MethodPost, "/internal/v1/subscriptions/acc_1/cancel", nil).status)
		s.stripe.Away(false)
		require.Equal(t, got, s.standing("acc_1"))
	})
}

// The portal cancels by an instant. What is left of that is taken back with it, and an instant in some later period cancels nothing yet.
func TestCancelledInThePortal(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		act := func(what string) api.Subscription {
			return read[api.Subscription](s.do(http.MethodPost, "/internal/v1/subscriptions/acc_1/"+what, nil))
		}
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		s.announced(s.stripe.CancelAt(id, 0)...)
		require.True(t, s.standing("acc_1").Cancelled)
		require.True(t, act("resume").Renewing)
		require.True(t, s.knows("acc_1").Renews)

		s.announced(s.stripe.CancelAt(id, 3)...)
		require.True(t, s.standing("acc_1").Renewing, "it is charged again before it ends")
		require.True(t, act("cancel").Cancelled)
		require.True(t, act("resume").Renewing)
	})
}

func TestPortal(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		portal := func(back string) answer {
			return s.do(http.MethodPost, "/internal/v1/portals", api.PortalRequest{Account: "acc_1", ReturnURL: back})
		}
		require.Equal(t, http.StatusNotFound, portal(returnURL).status, "the processor does not know the account yet")
		s.checkout("acc_1")
		require.Contains(t, read[api.ProcessorPage](portal(returnURL)).URL, "/portal/cus_")
		require.Equal(t, http.StatusBadRequest, portal("javascript:alert(1)").status)
		require.Equal(t, http.StatusBadRequest, s.do(http.MethodPost, "/internal/v1/portals", map[string]any{"account": "acc_1", "returnURL2": "x"}).status)
		s.stripe.Away(true)
		a := portal(returnURL)
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Equal(t, http.StatusServiceUnavailable,
			s.do(http.MethodPost, "/internal/v1/checkouts", api.CheckoutRequest{Account: "acc_2", Email: "b@example.com", ReturnURL: returnURL}).status)
	})
}

func TestOnlyPeersAsk(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		for _, ask := range []string{
			"POST /internal/v1/checkouts", "POST /internal/v1/portals", "GET /internal/v1/subscriptions/acc_1",
			"POST /internal/v1/subscriptions/acc_1/cancel", "POST /internal/v1/subscriptions/acc_1/resume", "POST /operator/v1/billing/reconcile",
		} {
			method, path, _ := strings.Cut(ask, " ")
			require.Equal(t, http.StatusUnauthorized, s.do(method, path, nil, "Authorization", "Bearer guess").status, ask)
		}
	})
}

// Whatever authquota says, or does not, it learns each version, and changes at each once.
func TestEntitlementsReachAuthquotaInTheEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.authquota.set(func() { s.authquota.deaf = true })
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		storetest.Eventually(t, "told, and the answer lost", func() bool { return s.authquota.of("acc_1").Tier == api.Commercial })
		storetest.Eventually(t, "owed", func() bool { return s.metric("billing_entitlements_pending 1") })
		s.stop()
		s.authquota.set(func() { s.authquota.deaf = false })
		s.cfg.Now = func() time.Time { return now.Add(time.Minute) } // what was put off is due
		s.run()
		storetest.Eventually(t, "accepted", func() bool { return s.metric(`billing_entitlement_pushes_total{outcome="accepted"} 1`) })
		s.authquota.set(func() { require.Equal(t, 1, s.authquota.changed) })

		s.authquota.set(func() { s.authquota.status = http.StatusServiceUnavailable })
		s.announced(s.stripe.Renew(id, true)...)
		storetest.Eventually(t, "tried", func() bool { return s.metric(`billing_entitlement_pushes_total{outcome="failed"} 1`) })
		s.authquota.set(func() { s.authquota.status = http.StatusNotFound })
		s.announced(s.stripe.Renew(id, true)...)
		storetest.Eventually(t, "tried", func() bool { return s.metric(`billing_entitlement_pushes_total{outcome="unknown_account"} 1`) })
		require.Contains(t, s.log.String(), "authquota does not have an account that has paid")
		s.authquota.set(func() { s.authquota.status = 0 })
		s.announced(s.stripe.Renew(id, true)...)
		s.knows("acc_1")
		s.authquota.set(func() { require.Equal(t, 2, s.authquota.changed) })

		s.authquota.set(func() { s.authquota.status = http.StatusNotFound })
		s.announced(s.stripe.Renew(id, true)...)
		storetest.Eventually(t, "owed", func() bool { return s.metric("billing_entitlements_pending 1") })
		s.announced(s.stripe.Refund(id, 2900)...)
		storetest.Eventually(t, "who is not there is owed nothing once nothing is paid", func() bool { return s.metric("billing_entitlements_pending 0") })
	})
}
