package verbs

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
	c := &cobra.Command{
		Use: "accounts", Short: "Find, show, suspend and resume accounts, grant tiers, and reset authenticators",
	}
	c.AddCommand(
		v.accountList(), v.accountShow(),
		v.suspend(false), v.suspend(true), v.resetAuthenticator(),
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

func (v *verbs) resetAuthenticator() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "reset-authenticator ID",
		Short: "Have a lost authenticator removed after 24 hours; its person gets a mail and can cancel it",
		Long: `Have a lost authenticator removed after 24 hours, for a person who has neither it nor a
recovery code and cannot wait the three days of the account pages. Check first who the person is:
someone with the password alone could then set up another authenticator.

The person gets a mail at once, with your reason and a link that cancels the removal. Signing in
with the authenticator, a passkey or a recovery code cancels it too. Recovery codes and passkeys are
removed as well, and sessions end. Repeating the command changes nothing.`,
		Example: "  opportunity accounts reset-authenticator acc_0199a1c26f0e7a51b0a71d1f5a3b9c55" +
			` --reason "phone stolen; identity checked by video call"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkReason(reason); err != nil {
				return err
			}
			what := fmt.Sprintf("This removes the second factors of %s in 24 hours. Its person gets a mail with the reason %q.",
				args[0], reason)
			if err := confirmed(cmd, yes, what); err != nil {
				return err
			}
			return show(v, func(ctx context.Context, c adminapi.Client, args []string) (api.AuthenticatorReset, []byte, error) {
				return adminapi.Send[api.AuthenticatorReset](ctx, c, http.MethodPost,
					adminapi.Path("accounts", args[0], "reset-authenticator"), map[string]string{"reason": reason})
			}, func(out io.Writer, reset api.AuthenticatorReset) {
				fmt.Fprintf(out, "to be removed at %s: the authenticator of %s\n", formatTime(reset.ResetAt), args[0])
			})(cmd, args)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "how you know who the person is; the mail to the person quotes it")
	c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	return c
}

func (v *verbs) suspend(resume bool) *cobra.Command {
	verb, done, example, usage := "suspend", "suspended: ", "resells our data",
		"why; the mail to the account's person quotes it"
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
