package stripe_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/stripetest"
)

// Only renewal invoices that Stripe would charge to a card later are pending.
func TestPendingRenewalInvoice(t *testing.T) {
	s, fake := start(t)
	id, _ := buy(t, s, fake)
	fake.DraftRenewal(id)
	for _, c := range []struct {
		name   string
		change map[string]any
		want   bool
	}{
		{"a draft", nil, true},
		{"finalized, not charged", map[string]any{"status": "open"}, true},
		{"declined: Stripe retries", map[string]any{"status": "open", "attempted": true}, false},
		{"void", map[string]any{"status": "void"}, false},
		{"paid", map[string]any{"status": "paid"}, false},
		{"does not advance automatically", map[string]any{"status": "draft", "attempted": false, "auto_advance": false}, false},
		{"sent by mail", map[string]any{"auto_advance": true, "collection_method": "send_invoice"}, false},
		{"first invoice", map[string]any{"collection_method": "charge_automatically", "billing_reason": "subscription_create"}, false},
		{"a draft again", map[string]any{"billing_reason": "subscription_cycle"}, true},
	} {
		invoice := fake.UpdateInvoice(id, c.change)
		got, err := s.Subscription(t.Context(), id)
		require.NoError(t, err)
		if c.want {
			require.Equal(t, invoice["id"], got.PendingInvoice, c.name)
		} else {
			require.Empty(t, got.PendingInvoice, c.name)
		}
	}
}

func TestCharge(t *testing.T) {
	s, fake := start(t)
	id, _ := buy(t, s, fake)
	end := now.Add(stripetest.Period)
	draft := func() string {
		fake.DraftRenewal(id)
		return fake.UpdateInvoice(id, nil)["id"].(string)
	}

	invoice := draft()
	require.NoError(t, s.Charge(t.Context(), invoice))
	got, err := s.Subscription(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, invoice, got.Paid.Invoice)
	require.Equal(t, end.Add(stripetest.Period), got.Paid.Until)
	require.NoError(t, s.Charge(t.Context(), invoice), "repeated, as after a crash")
	require.Equal(t, "paid", fake.UpdateInvoice(id, nil)["status"])

	invoice = draft()
	fake.UpdateInvoice(id, map[string]any{"status": "open"})
	require.NoError(t, s.Charge(t.Context(), invoice), "already finalized")
	require.Equal(t, "paid", fake.UpdateInvoice(id, nil)["status"])

	invoice = draft()
	fake.Decline(true)
	require.NoError(t, s.Charge(t.Context(), invoice))
	got, err = s.Subscription(t.Context(), id)
	require.NoError(t, err)
	require.True(t, got.Failing)
	require.Equal(t, end.Add(2*stripetest.Period), got.Paid.Until, "the paid period is unchanged")
	require.Equal(t, true, fake.UpdateInvoice(id, nil)["auto_advance"], "Stripe retries the card")
	fake.Decline(false)
	require.NoError(t, s.Charge(t.Context(), invoice))
	require.Equal(t, "open", fake.UpdateInvoice(id, nil)["status"], "a repeated charge gets the first response and does not charge the card")

	invoice = draft()
	fake.UpdateInvoice(id, map[string]any{"status": "void"})
	err = s.Charge(t.Context(), invoice)
	require.Error(t, err)
	require.NotErrorAs(t, err, new(*problem.Error), "Stripe would reject it again")
	require.ErrorIs(t, s.Charge(t.Context(), "in_nowhere"), processor.ErrNotFound)
}

// A failed connection is an outage, so that the event is sent again. The next attempt charges.
func TestChargeDuringOutage(t *testing.T) {
	for _, step := range []string{"/finalize", "/pay"} {
		s, fake := start(t)
		id, _ := buy(t, s, fake)
		fake.DraftRenewal(id)
		invoice := fake.UpdateInvoice(id, nil)["id"].(string)
		fake.Gate(func(r *http.Request) {
			if r.URL.Path == "/v1/invoices/"+invoice+step {
				panic(http.ErrAbortHandler)
			}
		})
		require.ErrorAs(t, s.Charge(t.Context(), invoice), new(*problem.Error), step)
		got, err := s.Subscription(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, invoice, got.PendingInvoice, step)
		fake.Gate(nil)
		require.NoError(t, s.Charge(t.Context(), invoice))
		require.Equal(t, "paid", fake.UpdateInvoice(id, nil)["status"], step)
	}
}
