package verbs

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

func tiers() []api.Tier {
	var names []api.Tier
	for _, t := range api.Tiers {
		names = append(names, t.Tier)
	}
	return names
}

func (v *verbs) accounts() *cobra.Command {
	c := &cobra.Command{Use: "accounts", Short: "Find, show, suspend and resume accounts, and grant tiers"}
	c.AddCommand(
		v.accountList(), v.accountShow(),
		v.suspend(false), v.suspend(true),
		&cobra.Command{
			Use:     "grant ID TIER",
			Short:   "Grant an account a tier from its next request on; requests charged today still count",
			Example: "  opportunity accounts grant acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 developer",
			Args: func(_ *cobra.Command, args []string) error {
				if !slices.Contains(tiers(), api.Tier(args[1])) {
					return fmt.Errorf("unknown tier %q: use %s", args[1], flags.OneOf(tiers()...))
				}
				return nil
			},
			RunE: v.act(func(ctx context.Context, c adminapi.Client, args []string) ([]byte, error) {
				return c.Grant(ctx, args[0], api.Tier(args[1]))
			}, func(args []string) string { return "granted " + args[1] + ": " + args[0] }),
		},
	)
	return c
}

func (v *verbs) suspend(resume bool) *cobra.Command {
	verb, done, example, usage := "suspend", "suspended: ", "resells our data", "why; the mail to the account's person quotes it"
	short := "Suspend an account: its next request is rejected, and its person gets a mail with the reason"
	if resume {
		verb, done, example, usage = "resume", "resumed: ", "settled by mail", "why, for the audit log"
		short = "Resume a suspended account; its person gets a mail"
	}
	var reason string
	var yes bool
	act := v.act(func(ctx context.Context, c adminapi.Client, args []string) ([]byte, error) {
		return c.Suspend(ctx, args[0], reason, resume)
	}, func(args []string) string { return done + args[0] })
	c := &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: "  opportunity accounts " + verb + ` acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 --reason "` + example + `"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkReason(reason); err != nil {
				return err
			}
			what := fmt.Sprintf("This suspends %s: its next request is rejected, and its person gets a mail with the reason %q.",
				args[0], reason)
			if err := confirmed(cmd, yes || resume, what); err != nil {
				return err
			}
			return act(cmd, args)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", usage)
	if !resume {
		c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	}
	return c
}
