package stripe

import (
	"testing"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v86"
)

// Only renewal invoices that Stripe would charge to a card later are pending.
func TestPendingRenewalInvoice(t *testing.T) {
	for name, c := range map[string]struct {
		change func(i *api.Invoice)
		want   string
	}{
		"a draft":                         {func(*api.Invoice) {}, "in_1"},
		"finalized, not charged":          {func(i *api.Invoice) { i.Status = api.InvoiceStatusOpen }, "in_1"},
		"declined: Stripe retries":        {func(i *api.Invoice) { i.Status, i.Attempted = api.InvoiceStatusOpen, true }, ""},
		"void":                            {func(i *api.Invoice) { i.Status = api.InvoiceStatusVoid }, ""},
		"paid":                            {func(i *api.Invoice) { i.Status = api.InvoiceStatusPaid }, ""},
		"does not advance automatically":  {func(i *api.Invoice) { i.AutoAdvance = false }, ""},
		"sent by mail":                    {func(i *api.Invoice) { i.CollectionMethod = api.InvoiceCollectionMethodSendInvoice }, ""},
		"first invoice of a subscription": {func(i *api.Invoice) { i.BillingReason = api.InvoiceBillingReasonSubscriptionCreate }, ""},
	} {
		invoice := &api.Invoice{
			ID: "in_1", Status: api.InvoiceStatusDraft, AutoAdvance: true,
			BillingReason:    api.InvoiceBillingReasonSubscriptionCycle,
			CollectionMethod: api.InvoiceCollectionMethodChargeAutomatically,
		}
		c.change(invoice)
		require.Equal(t, c.want, pendingRenewal(invoice), name)
	}
	require.Empty(t, pendingRenewal(nil))
}
