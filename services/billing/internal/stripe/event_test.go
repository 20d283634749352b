package stripe_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/stripe"
)

func TestSignatures(t *testing.T) {
	s, fake := start(t)
	_, events := buy(t, s, fake)
	event := events[0]
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

func TestSignedNonEventsAreMalformed(t *testing.T) {
	s, _ := start(t)
	for _, body := range []string{``, `{`, `[]`, `{}`, `{"object":"event"}`,
		`{"object":"v2.core.event","id":"evt_1","type":"invoice.paid"}`,
		`{"object":"event","id":"evt_1","type":"invoice.paid"}`,
		`{"object":"event","id":"evt_1","type":"invoice.paid","data":{"object":[1]}}`,
		`{"object":"event","id":"","type":"invoice.paid","data":{"object":{"id":"in_1"}}}`} {
		e := sandboxtest.Event(body)
		_, err := s.Event(t.Context(), e, e.Signature(secret, now), now)
		require.ErrorIs(t, err, stripe.ErrMalformed, body)
	}
}

// Every relevant event type leads to its subscription, in older API versions too. Other types lead
// to none.
func TestEventLeadsToItsSubscription(t *testing.T) {
	s, fake := start(t)
	id, events := buy(t, s, fake)
	events = append(events, fake.Renew(id, false)...)
	events = append(events, fake.Renew(id, true)...)
	events = append(events, fake.Cancel(id, true)...)
	refund := fake.Refund(id, 2900)[0]
	events = append(events, refund)
	events = append(events, fake.Dispute(id, "needs_response")...)
	events = append(events, fake.Delete(id)...)
	events = append(events,
		sandboxtest.Event(`{"id":"evt_old","object":"event","api_version":"2019-12-03","type":"invoice.paid",`+
			`"data":{"object":{"id":"in_1","subscription":"`+id+`"}}}`))
	for _, e := range events {
		got, err := s.Event(t.Context(), e, e.Signature(secret, now), now)
		require.NoError(t, err, "%s", e)
		require.Equal(t, id, got.Subscription, "%s", e)
	}
	requests := len(fake.Requests(""))
	for _, kind := range []string{"product.created", "customer.updated", "charge.succeeded", "checkout.session.expired"} {
		e := sandboxtest.UnrelatedEvent(kind)
		got, err := s.Event(t.Context(), e, e.Signature(secret, now), now)
		require.NoError(t, err)
		require.Empty(t, got.Subscription, kind)
		require.Equal(t, kind, got.Type)
	}
	require.Len(t, fake.Requests(""), requests, "irrelevant events make no request")

	for _, text := range []string{ // payments for something else
		`{"id":"evt_1","object":"event","type":"charge.refunded","data":{"object":{"id":"ch_1",` +
			`"payment_intent":"pi_of_a_shirt"}}}`,
		`{"id":"evt_2","object":"event","type":"charge.dispute.created","data":{"object":{"id":"dp_1",` +
			`"charge":"ch_nowhere"}}}`,
		`{"id":"evt_3","object":"event","type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":null}}}`,
		`{"id":"evt_4","object":"event","type":"invoice.paid","data":{"object":{"id":"in_1","subscription":null,` +
			`"parent":null}}}`,
	} {
		e := sandboxtest.Event(text)
		got, err := s.Event(t.Context(), e, e.Signature(secret, now), now)
		require.NoError(t, err, text)
		require.Empty(t, got.Subscription, text)
	}

	fake.SetUnavailable(true)
	_, err := s.Event(t.Context(), refund, refund.Signature(secret, now), now)
	require.ErrorAs(t, err, new(*problem.Error), "Stripe must send the event again: %s", refund)
}

func TestIrrelevantTypesAndKnownPaymentsCostNoLookup(t *testing.T) {
	s, fake := start(t)
	for _, kind := range []string{"invoice.upcoming", "refunds.created", "charge.updated"} { // none of eventTypes
		e := sandboxtest.Event(`{"id":"evt_5","object":"event","type":"` + kind + `","data":{"object":{"id":"in_1",` +
			`"subscription":"sub_1","charge":"ch_1"}}}`)
		got, err := s.Event(t.Context(), e, e.Signature(secret, now), now)
		require.NoError(t, err)
		require.Empty(t, got.Subscription, kind)
	}
	e := sandboxtest.Event(`{"id":"evt_6","object":"event","type":"charge.dispute.created",` +
		`"data":{"object":{"id":"dp_1","charge":"ch_1","payment_intent":"pi_of_a_shirt"}}}`)
	_, err := s.Event(t.Context(), e, e.Signature(secret, now), now)
	require.NoError(t, err)
	require.Empty(t, fake.Requests("GET /v1/charges"), "a charge is read only without a payment intent")
}
