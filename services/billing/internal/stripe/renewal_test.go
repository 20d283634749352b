package stripe_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/stripetest"
)

// Only what Stripe would charge to a card by itself, later, waits to be charged at once.
func TestWhatWaitsToBeCharged(t *testing.T) {
	s, fake := start(t)
	id, _ := bought(t, s, fake)
	fake.Draft(id)
	for _, c := range []struct {
		name   string
		change map[string]any
		waits  bool
	}{
		{"a draft", nil, true},
		{"finalized and not charged", map[string]any{"status": "open"}, true},
		{"declined: Stripe tries again", map[string]any{"status": "open", "attempted": true}, false},
		{"void", map[string]any{"status": "void"}, false},
		{"paid", map[string]any{"status": "paid"}, false},
		{"an operator charges it, or nobody", map[string]any{"status": "draft", "attempted": false, "auto_advance": false}, false},
		{"it is sent by mail", map[string]any{"auto_advance": true, "collection_method": "send_invoice"}, false},
		{"a first invoice", map[string]any{"collection_method": "charge_automatically", "billing_reason": "subscription_create"}, false},
		{"a draft again", map[string]any{"billing_reason": "subscription_cycle"}, true},
	} {
		invoice := fake.Invoice(id, c.change)
		got, err := s.Subscription(t.Context(), id)
		require.NoError(t, err)
		if c.waits {
			require.Equal(t, invoice["id"], got.Waiting, c.name)
		} else {
			require.Empty(t, got.Waiting, c.name)
		}
	}
}

func TestCharge(t *testing.T) {
	s, fake := start(t)
	id, _ := bought(t, s, fake)
	end := now.Add(stripetest.Period)
	draft := func() string {
		fake.Draft(id)
		return fake.Invoice(id, nil)["id"].(string)
	}

	invoice := draft()
	require.NoError(t, s.Charge(t.Context(), invoice))
	got, err := s.Subscription(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, invoice, got.Paid.Invoice)
	require.Equal(t, end.Add(stripetest.Period), got.Paid.Until)
	require.NoError(t, s.Charge(t.Context(), invoice), "once more, as after a crash")
	require.Equal(t, "paid", fake.Invoice(id, nil)["status"])

	invoice = draft()
	fake.Invoice(id, map[string]any{"status": "open"})
	require.NoError(t, s.Charge(t.Context(), invoice), "somebody has finalized it")
	require.Equal(t, "paid", fake.Invoice(id, nil)["status"])

	invoice = draft()
	fake.Decline(true)
	require.NoError(t, s.Charge(t.Context(), invoice))
	got, err = s.Subscription(t.Context(), id)
	require.NoError(t, err)
	require.True(t, got.Failing)
	require.Equal(t, end.Add(2*stripetest.Period), got.Paid.Until, "what was paid before")
	require.Equal(t, true, fake.Invoice(id, nil)["auto_advance"], "Stripe tries the card again by itself")
	fake.Decline(false)
	require.NoError(t, s.Charge(t.Context(), invoice))
	require.Equal(t, "open", fake.Invoice(id, nil)["status"], "a second one at once gets the first one's answer, and tries no card")

	invoice = draft()
	fake.Invoice(id, map[string]any{"status": "void"})
	err = s.Charge(t.Context(), invoice)
	require.Error(t, err)
	require.NotErrorAs(t, err, new(*problem.Error), "it would be refused again")
	require.ErrorIs(t, s.Charge(t.Context(), "in_nowhere"), processor.ErrUnknown)
}

// Whatever Stripe does not answer is an outage, so that the announcement comes again; and the next attempt charges.
func TestChargeWhileStripeIsAway(t *testing.T) {
	for _, step := range []string{"/finalize", "/pay"} {
		s, fake := start(t)
		id, _ := bought(t, s, fake)
		fake.Draft(id)
		invoice := fake.Invoice(id, nil)["id"].(string)
		fake.Gate(func(r *http.Request) {
			if r.URL.Path == "/v1/invoices/"+invoice+step {
				panic(http.ErrAbortHandler)
			}
		})
		require.ErrorAs(t, s.Charge(t.Context(), invoice), new(*problem.Error), step)
		got, err := s.Subscription(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, invoice, got.Waiting, step)
		fake.Gate(nil)
		require.NoError(t, s.Charge(t.Context(), invoice))
		require.Equal(t, "paid", fake.Invoice(id, nil)["status"], step)
	}
}
