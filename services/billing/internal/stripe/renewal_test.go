package stripe_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/stripe"
)

func TestCharge(t *testing.T) {
	s, fake := start(t)
	id, _ := buy(t, s, fake)
	end := now.AddDate(0, 1, 0)
	draft := func() string {
		fake.DraftRenewal(id)
		return fake.Invoice(id).ID
	}
	setStatus := func(status sandbox.InvoiceStatus) {
		fake.Change(id, func(sub *sandbox.Subscription, _ time.Time) []string { sub.Invoices[0].Status = status; return nil })
	}

	invoice := draft()
	require.NoError(t, s.Charge(t.Context(), invoice))
	got, err := s.Subscription(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, invoice, got.Paid.Invoice)
	require.Equal(t, end.AddDate(0, 1, 0), got.Paid.Until)
	require.NoError(t, s.Charge(t.Context(), invoice), "repeated, as after a crash")
	require.True(t, fake.Invoice(id).Paid())

	invoice = draft()
	setStatus(sandbox.Open)
	require.NoError(t, s.Charge(t.Context(), invoice), "already finalized")
	require.True(t, fake.Invoice(id).Paid())

	invoice = draft()
	fake.Decline(got.Customer, true)
	require.NoError(t, s.Charge(t.Context(), invoice))
	got, err = s.Subscription(t.Context(), id)
	require.NoError(t, err)
	require.True(t, got.Failing)
	require.Equal(t, end.AddDate(0, 2, 0), got.Paid.Until, "the paid period is unchanged")
	require.True(t, fake.Invoice(id).Advances, "Stripe retries the card")
	require.NoError(t, s.Charge(t.Context(), invoice))
	require.Len(t, fake.Requests("POST /v1/invoices/"+invoice+"/pay"), 2)
	require.Equal(t, sandbox.Open, fake.Invoice(id).Status,
		"a repeated charge gets the first response and does not charge the card")
	fake.Decline(got.Customer, false)

	invoice = draft()
	setStatus(sandbox.Void)
	err = s.Charge(t.Context(), invoice)
	require.Error(t, err)
	require.NotErrorAs(t, err, new(*problem.Error), "Stripe would reject it again")
	require.ErrorIs(t, s.Charge(t.Context(), "in_nowhere"), stripe.ErrNotFound)
}

// A failed request is an outage, so that the event is sent again. The next attempt charges.
func TestChargeDuringOutage(t *testing.T) {
	for _, step := range []string{"/finalize", "/pay"} {
		s, fake := start(t)
		id, _ := buy(t, s, fake)
		fake.DraftRenewal(id)
		invoice := fake.Invoice(id).ID
		fake.Fail(func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, step) {
				return http.StatusInternalServerError
			}
			return 0
		})
		require.ErrorAs(t, s.Charge(t.Context(), invoice), new(*problem.Error), step)
		got, err := s.Subscription(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, invoice, got.PendingInvoice, step)
		fake.Fail(nil)
		require.NoError(t, s.Charge(t.Context(), invoice))
		require.True(t, fake.Invoice(id).Paid(), step)
	}
}
