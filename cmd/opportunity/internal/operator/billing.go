package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"opportunity.internal/pkg/api"
)

func (v *verbs) billing() *cobra.Command {
	c := &cobra.Command{Use: "billing", Short: "See to what accounts have paid for"}
	c.AddCommand(&cobra.Command{
		Use:   "reconcile",
		Short: "Compare every subscription with the payment processor, and heal what differs",
		Long: `Compare every subscription with the payment processor, and heal what differs. It runs by itself once a day.

Each difference is listed with what was kept here and what the processor has. One that is not healed stays as it is: the processor does
not know the subscription, and what was paid for ends by itself. Authquota is told of every entitlement once more.
It fails where something could not be compared; what was healed is no failure.`,
		Example: "  opportunity billing reconcile\n  opportunity billing reconcile --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			report, raw, err := c.Reconcile(cmd.Context())
			if err != nil {
				return err
			}
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) { showReconciled(out, report) })
			if report.Failed > 0 {
				return errors.New("not everything could be compared; the log of billing says what, and why")
			}
			return nil
		},
	})
	return c
}

// Reconcile compares all that billing keeps with the payment processor.
func (c Client) Reconcile(ctx context.Context) (api.BillingReport, []byte, error) {
	return ask[api.BillingReport](ctx, c, http.MethodPost, "/billing/reconcile", nil)
}

func showReconciled(out io.Writer, r api.BillingReport) {
	if len(r.Differences) > 0 {
		table(out, "ACCOUNT\tSUBSCRIPTION\tFIELD\tHAD\tHAS\tHEALED", func(row func(...any)) {
			for _, d := range r.Differences {
				row(d.Account, d.Subscription, d.Field, d.Had, d.Has, yesNo(&d.Healed))
			}
		})
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, r.Summary())
}
