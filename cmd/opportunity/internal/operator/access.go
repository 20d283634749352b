package operator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/pkg/api"
)

func knownTier(t api.Tier) error {
	if !slices.ContainsFunc(api.Tiers, func(k api.TierLimits) bool { return k.Tier == t }) {
		return fmt.Errorf("there is no tier %q: free, developer or commercial", t)
	}
	return nil
}

func (v *verbs) accounts() *cobra.Command {
	c := &cobra.Command{Use: "accounts", Short: "List, suspend and resume accounts, and grant tiers"}
	c.AddCommand(
		&cobra.Command{
			Use:     "list",
			Short:   "List accounts with what they used today",
			Example: "  opportunity accounts list --output json",
			Args:    cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				c, err := v.client()
				if err != nil {
					return err
				}
				found, raw, err := c.AccountList(cmd.Context())
				if err != nil {
					return err
				}
				v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
					table(out, "ID\tTIER\tSTATUS\tUSED TODAY\tKEYS\tCREATED", func(row func(...any)) {
						for _, a := range found.Accounts {
							status := "active"
							if a.Suspended {
								status = "suspended"
							}
							row(a.ID, a.Tier, status, a.UsedToday, a.Keys, a.CreatedAt.Format(time.DateOnly))
						}
					})
				})
				return nil
			},
		},
		v.suspend(false), v.suspend(true),
		&cobra.Command{
			Use:     "grant ID TIER",
			Short:   "Give an account a tier, in force on its next request; what it used today stays used",
			Example: "  opportunity accounts grant acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 developer",
			Args: func(cmd *cobra.Command, args []string) error {
				if err := cobra.ExactArgs(2)(cmd, args); err != nil {
					return err
				}
				return knownTier(api.Tier(args[1]))
			},
			RunE: v.act(func(ctx context.Context, c Client, args []string) ([]byte, error) {
				return c.Grant(ctx, args[0], api.Tier(args[1]))
			}, func(args []string) string { return "granted " + args[1] + ": " + args[0] }),
		},
	)
	return c
}

func (v *verbs) suspend(resume bool) *cobra.Command {
	verb, short, said := "suspend", "Stop an account's access, in force on its next request", "suspended: "
	if resume {
		verb, short, said = "resume", "Restore the access of a suspended account", "resumed: "
	}
	var reason string
	c := &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: "  opportunity accounts " + verb + ` acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 --reason "settled by mail"`,
		Args:    cobra.ExactArgs(1),
		RunE: v.act(func(ctx context.Context, c Client, args []string) ([]byte, error) {
			return c.Suspend(ctx, args[0], reason, resume)
		}, func(args []string) string { return said + args[0] }),
	}
	c.Flags().StringVar(&reason, "reason", "not stated", "why, for the record")
	return c
}
