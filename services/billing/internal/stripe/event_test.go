package stripe_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/stripetest"
)

func TestSignatures(t *testing.T) {
	s, fake := start(t)
	_, told := bought(t, s, fake)
	event := told[1]
	tampered := stripetest.Event(bytes.Replace(event, []byte("sub_"), []byte("sub-"), 1))
	require.NotEqual(t, event, tampered)
	for _, c := range []struct {
		name, header string
		body         stripetest.Event
		err          error
	}{
		{"now", event.Signed(secret, now), event, nil},
		{"the older secret, while it is rolled", event.Signed(older, now), event, nil},
		{"both, as Stripe sends them then", event.Signed(older, now) + event.Signed(secret, now)[len("t=1795176000"):], event, nil},
		{"just in time", event.Signed(secret, now.Add(-4*time.Minute-59*time.Second)), event, nil},
		{"too old", event.Signed(secret, now.Add(-5*time.Minute-time.Second)), event, processor.ErrSignature},
		{"a clock that is a little fast", event.Signed(secret, now.Add(4*time.Minute+59*time.Second)), event, nil},
		{"from the future", event.Signed(secret, now.Add(5*time.Minute+time.Second)), event, processor.ErrSignature},
		{"another secret", event.Signed("whsec_of_somebody_else", now), event, processor.ErrSignature},
		{"another body", event.Signed(secret, now), tampered, processor.ErrSignature},
		{"none", "", event, processor.ErrSignature},
		{"no time", "v1=00", event, processor.ErrSignature},
		{"two times, the first of them now", event.Signed(secret, now)[:12] + "," + event.Signed(secret, now.Add(-time.Hour)), event, processor.ErrSignature},
		{"two times, the first of them old", event.Signed(secret, now.Add(-time.Hour))[:12] + "," + event.Signed(secret, now), event, processor.ErrSignature},
		{"nonsense", "t=now,v1", event, processor.ErrSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.Event(t.Context(), c.body, c.header, now)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "customer.subscription.created", got.Kind)
			require.NotEmpty(t, got.ID)
		})
	}
}

func TestSignedRubbishIsMalformed(t *testing.T) {
	s, _ := start(t)
	for _, body := range []string{``, `{`, `[]`, `{}`, `{"object":"event"}`, `{"object":"v2.core.event","id":"evt_1","type":"invoice.paid"}`,
		`{"object":"event","id":"evt_1","type":"invoice.paid"}`, `{"object":"event","id":"evt_1","type":"invoice.paid","data":{"object":[1]}}`,
		`{"object":"event","id":"","type":"invoice.paid","data":{"object":{"id":"in_1"}}}`} {
		e := stripetest.Event(body)
		_, err := s.Event(t.Context(), e, e.Signed(secret, now), now)
		require.ErrorIs(t, err, processor.ErrMalformed, body)
	}
}

// Every kind that matters leads to the subscription, whatever it is about, and in older shapes too; every other kind to none.
func TestWhatAnAnnouncementIsAbout(t *testing.T) {
	s, fake := start(t)
	id, told := bought(t, s, fake)
	told = append(told, fake.Renew(id, false)...)
	told = append(told, fake.Renew(id, true)...)
	told = append(told, fake.Cancel(id, true)...)
	told = append(told, fake.Refund(id, 2900)...)
	told = append(told, fake.Dispute(id, "needs_response")...)
	told = append(told, fake.Delete(id)...)
	told = append(told, stripetest.Event(`{"id":"evt_old","object":"event","api_version":"2019-12-03","type":"invoice.paid","data":{"object":{"id":"in_1","subscription":"`+id+`"}}}`))
	for _, e := range told {
		got, err := s.Event(t.Context(), e, e.Signed(secret, now), now)
		require.NoError(t, err, "%s", e)
		require.Equal(t, id, got.Subscription, "%s", e)
	}
	asked := len(fake.Requests(""))
	for _, kind := range []string{"product.created", "invoice.created", "customer.updated", "charge.succeeded", "checkout.session.expired"} {
		e := fake.Other(kind)
		got, err := s.Event(t.Context(), e, e.Signed(secret, now), now)
		require.NoError(t, err)
		require.Empty(t, got.Subscription, kind)
		require.Equal(t, kind, got.Kind)
	}
	require.Len(t, fake.Requests(""), asked, "what does not matter costs Stripe no question")

	for _, text := range []string{ // payments for something else
		`{"id":"evt_1","object":"event","type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":"pi_of_a_shirt"}}}`,
		`{"id":"evt_2","object":"event","type":"charge.dispute.created","data":{"object":{"id":"dp_1","charge":"ch_nowhere"}}}`,
		`{"id":"evt_3","object":"event","type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":null}}}`,
		`{"id":"evt_4","object":"event","type":"invoice.paid","data":{"object":{"id":"in_1","subscription":null,"parent":null}}}`,
	} {
		e := stripetest.Event(text)
		got, err := s.Event(t.Context(), e, e.Signed(secret, now), now)
		require.NoError(t, err, text)
		require.Empty(t, got.Subscription, text)
	}

	fake.Away(true)
	refund := told[9]
	_, err := s.Event(t.Context(), refund, refund.Signed(secret, now), now)
	require.ErrorAs(t, err, new(*problem.Error), "it must come again: %s", refund)
}
