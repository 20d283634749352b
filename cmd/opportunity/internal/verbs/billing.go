package verbs

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

func (v *verbs) billing() *cobra.Command {
	c := &cobra.Command{Use: "billing", Short: "Reconcile paid subscriptions with the payment processor"}
	c.AddCommand(&cobra.Command{
		Use:   "reconcile",
		Short: "Compare every subscription with the payment processor and fix differences",
		Long: `Compare every subscription with the payment processor and fix differences. This also runs
automatically once a day.

Each difference is listed with the value stored here and the processor's value. A subscription that
the processor does not know is listed but not changed; it ends with its paid period. Every
entitlement is then sent to authquota again.

The exit code is 1 if a subscription could not be compared. Differences that were fixed are not a
failure.`,
		Example: "  opportunity billing reconcile\n  opportunity billing reconcile --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, raw, err := call(cmd, v, adminapi.ReconcileBilling, adminapi.Input{})
			if err != nil {
				return err
			}
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) { showReconciled(out, report) })
			if report.Failed > 0 {
				return errors.New("some subscriptions could not be compared: see the log of the billing service")
			}
			return nil
		},
	})
	return c
}

func showReconciled(out io.Writer, r api.BillingReport) {
	if len(r.Differences) > 0 {
		table(out, "ACCOUNT\tSUBSCRIPTION\tFIELD\tHAD\tHAS\tHEALED", func(row func(...any)) {
			for _, d := range r.Differences {
				row(d.Account, d.Subscription, d.Field, d.Had, d.Has, map[bool]string{true: "yes", false: "no"}[d.Healed])
			}
		})
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, r.Summary())
}
