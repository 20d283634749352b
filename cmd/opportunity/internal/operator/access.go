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

func (v *verbs) keys() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "Issue, list and revoke API keys"}
	list := &cobra.Command{
		Use:     "list",
		Short:   "List keys, by their prefix and last four characters",
		Example: "  opportunity keys list --account acc_0199a1c26f0e7a51b0a71d1f5a3b9c55",
		Args:    cobra.NoArgs,
	}
	account := list.Flags().String("account", "", "only keys of this account")
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := v.client()
		if err != nil {
			return err
		}
		found, raw, err := c.KeyList(cmd.Context(), *account)
		if err != nil {
			return err
		}
		v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
			table(out, "ID\tACCOUNT\tTIER\tKEY\tSTATUS\tEXPIRES\tUSE CASE", func(row func(...any)) {
				for _, k := range found.Keys {
					row(k.ID, k.Account, k.Tier, k.Prefix+"..."+k.LastFour, k.Status, k.ExpiresAt.Format(time.DateOnly), k.UseCase)
				}
			})
		})
		return nil
	}
	c.AddCommand(v.issue(), list, &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a key, for good, in force on its next request",
		Example: "  opportunity keys revoke key_0199a1c27b3f7d0e9c1b52f6d1f0a4e2",
		Args:    cobra.ExactArgs(1),
		RunE: v.act(func(ctx context.Context, c Client, args []string) ([]byte, error) { return c.RevokeKey(ctx, args[0]) },
			func(args []string) string { return "revoked: " + args[0] }),
	})
	return c
}

func (v *verbs) issue() *cobra.Command {
	var want KeyRequest
	var life time.Duration
	c := &cobra.Command{
		Use:   "issue --tier TIER --use-case TEXT",
		Short: "Issue a key; it is shown this once",
		Long: `Issue a key. It is printed this once and cannot be shown again. Without --account the key gets an account of its own;
with it, the key shares the allowance of that account.`,
		Example: `  opportunity keys issue --tier developer --use-case "job board for Ontario"
  opportunity keys issue --tier commercial --use-case "nightly import" --expires-in 720h --output json`,
		Args: cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("expires-in") {
				if life <= 0 {
					return fmt.Errorf("--expires-in must be a positive duration, not %s", life)
				}
				want.ExpiresIn = life.String()
			}
			return knownTier(want.Tier)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			key, raw, err := c.IssueKey(cmd.Context(), want)
			if err != nil {
				return err
			}
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
				fmt.Fprintf(out, "key      %s\nid       %s\naccount  %s\ntier     %s\nexpires  %s\n",
					key.Key, key.ID, key.Account, key.Tier, key.ExpiresAt.Format(time.RFC3339))
			})
			return nil
		},
	}
	f := c.Flags()
	f.StringVar((*string)(&want.Tier), "tier", "", "free, developer or commercial")
	f.StringVar(&want.UseCase, "use-case", "", "what the key is for, in a few words")
	f.StringVar(&want.Account, "account", "", "the account that the key joins")
	f.DurationVar(&life, "expires-in", 0, "how long the key lives, such as 720h; at most, and without it, 365 days")
	f.BoolVar(&want.Test, "test", false, "a key with the prefix oda_test_")
	_ = c.MarkFlagRequired("tier")
	_ = c.MarkFlagRequired("use-case")
	return c
}

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
