package stripe_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/stripe"
)

func TestSignatures(t *testing.T) {
	s, _ := start()
	event := event("customer.subscription.created", `{"id":"sub_1"}`)
	tampered := sandboxtest.Event(bytes.Replace(event, []byte("sub_"), []byte("sub-"), 1))
	require.NotEqual(t, event, tampered)
	for _, c := range []struct {
		name, header string
		body         sandboxtest.Event
		err          error
	}{
		{"now", event.Signature(secret, now), event, nil},
		{"older secret during rotation", event.Signature(older, now), event, nil},
		{"both secrets, as Stripe signs during rotation", event.Signature(older, now) + event.Signature(secret,
			now)[len("t=1795176000"):], event, nil},
		{"just in time", event.Signature(secret, now.Add(-4*time.Minute-59*time.Second)), event, nil},
		{"too old", event.Signature(secret, now.Add(-5*time.Minute-time.Second)), event, stripe.ErrSignature},
		{"at the limit of age", event.Signature(secret, now.Add(-5*time.Minute)), event, nil},
		{"at the limit in the future", event.Signature(secret, now.Add(5*time.Minute)), event, nil},
		{"time after the signature", event.Signature(secret, now)[len("t=1795176000,"):] + ",t=1795176000", event, nil},
		{"slightly in the future", event.Signature(secret, now.Add(4*time.Minute+59*time.Second)), event, nil},
		{"too far in the future", event.Signature(secret, now.Add(5*time.Minute+time.Second)), event, stripe.ErrSignature},
		{"another secret", event.Signature("whsec_of_another_endpoint", now), event, stripe.ErrSignature},
		{"another body", event.Signature(secret, now), tampered, stripe.ErrSignature},
		{"no signature", "", event, stripe.ErrSignature},
		{"no time", "v1=00", event, stripe.ErrSignature},
		{"two times, the first of them now", event.Signature(secret, now)[:12] + "," + event.Signature(secret,
			now.Add(-time.Hour)), event, stripe.ErrSignature},
		{"two times, the first of them old", event.Signature(secret, now.Add(-time.Hour))[:12] + "," + event.Signature(secret,
			now), event, stripe.ErrSignature},
		{"malformed header", "t=now,v1", event, stripe.ErrSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.Event(t.Context(), c.body, c.header, now)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "customer.subscription.created", got.Type)
			require.NotEmpty(t, got.ID)
		})
	}
}

// The sandbox has no secrets: nothing can sign an event of Stripe for it.
func TestWithoutSecretsNoSignatureIsValid(t *testing.T) {
	s := stripe.New(stripe.Config{}, stripe.Options{})
	e := event("customer.subscription.created", `{"id":"sub_1"}`)
	for _, header := range []string{e.Signature("", now), e.Signature(secret, now)} {
		require.ErrorIs(t, storetest.Err(s.Event(t.Context(), e, header, now)), stripe.ErrSignature)
	}
}

func TestSignedNonEventsAreMalformed(t *testing.T) {
	s, _ := start()
	for _, body := range []string{``, `{`, `[]`, `{}`, `{"object":"event"}`,
		`{"object":"v2.core.event","id":"evt_1","type":"invoice.paid"}`,
		`{"object":"event","id":"evt_1","type":"invoice.paid"}`,
		`{"object":"event","id":"evt_1","type":"invoice.paid","data":{"object":[1]}}`,
		`{"object":"event","id":"","type":"invoice.paid","data":{"object":{"id":"in_1"}}}`} {
		e := sandboxtest.Event(body)
		require.ErrorIs(t, storetest.Err(s.Event(t.Context(), e, e.Signature(secret, now), now)), stripe.ErrMalformed, body)
	}
}

// Every relevant event type leads to its subscription, in older API versions too. Other types and
// payments for something else lead to none.
func TestEventLeadsToItsSubscription(t *testing.T) {
	const invoice = `{"id":"in_1","parent":{"subscription_details":{"subscription":"sub_1"}}}`
	for _, c := range []struct {
		eventType, object string
		subscription      string
		requests          int
	}{
		{"customer.subscription.updated", `{"id":"sub_1"}`, "sub_1", 0},
		{"invoice.paid", invoice, "sub_1", 0},
		{"invoice.payment_failed", invoice, "sub_1", 0},
		{"invoice.paid", `{"id":"in_1","subscription":"sub_1"}`, "sub_1", 0}, // until 2025
		{"checkout.session.completed", `{"id":"cs_1","subscription":{"id":"sub_1"}}`, "sub_1", 0},
		{"charge.refunded", `{"id":"ch_in_1","payment_intent":"pi_in_1"}`, "sub_1", 1},
		{"refund.updated", `{"id":"re_1","charge":"ch_in_1","payment_intent":"pi_in_1"}`, "sub_1", 1},
		{"charge.dispute.closed", `{"id":"dp_1","charge":"ch_in_1"}`, "sub_1", 2}, // of older accounts

		{"charge.refunded", `{"id":"ch_1","payment_intent":"pi_of_a_shirt"}`, "", 1},
		{"charge.dispute.created", `{"id":"dp_1","charge":"ch_nowhere"}`, "", 1},
		{"charge.refunded", `{"id":"ch_1","payment_intent":null}`, "", 0},
		{"invoice.paid", `{"id":"in_1","subscription":null,"parent":null}`, "", 0},
		{"product.created", `{"id":"prod_1"}`, "", 0},
		{"checkout.session.expired", `{"id":"cs_1","subscription":"sub_1"}`, "", 0},
		{"invoice.upcoming", invoice, "", 0},
		{"refunds.created", `{"id":"re_1","charge":"ch_in_1"}`, "", 0},
		{"charge.updated", `{"id":"ch_in_1","payment_intent":"pi_in_1"}`, "", 0},
	} {
		s, f := start()
		e := event(c.eventType, c.object)
		require.Equal(t, c.subscription, subscriptionOf(t, s, e), "%s", e)
		require.Len(t, f.requests, c.requests, "%s", e)

		f.failAt("")
		_, err := s.Event(t.Context(), e, e.Signature(secret, now), now)
		require.Equal(t, c.requests > 0, err != nil, "Stripe must send the event again: %s", e)
	}
}
