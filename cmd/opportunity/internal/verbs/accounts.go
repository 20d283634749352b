package verbs

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

// Tiers returns the names of the tiers, from the lowest.
func Tiers() []api.Tier {
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
	c.AddCommand(v.accountList(), v.accountShow(), v.suspend(), v.resume(), v.resetAuthenticator(), v.grant())
	return c
}

func (v *verbs) grant() *cobra.Command {
	return &cobra.Command{
		Use:     "grant ID TIER",
		Short:   "Grant an account a tier from its next request on; requests charged today still count",
		Example: "  opportunity accounts grant acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 developer",
		Args: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(Tiers(), api.Tier(args[1])) {
				return fmt.Errorf("unknown tier %q: use %s", args[1], flags.OneOf(Tiers()...))
			}
			return nil
		},
		RunE: v.act(adminapi.GrantTier, func(args []string) adminapi.Input {
			return adminapi.Input{ID: args[0], Body: map[string]string{"tier": args[1]}}
		}, func(args []string) string { return "granted " + args[1] + ": " + args[0] }),
	}
}

func (v *verbs) suspend() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "suspend ID",
		Short:   "Suspend an account: its next request is rejected, and its person gets a mail with the reason",
		Example: `  opportunity accounts suspend acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 --reason "resells our data"`,
		RunE: v.act(adminapi.SuspendAccount, withReason(&reason),
			func(args []string) string { return "suspended: " + args[0] }),
	}
	needsReason(c, &reason, "why; the mail to the account's person quotes it")
	return asksFirst(c, func(args []string) string {
		return fmt.Sprintf("This suspends %s: its next request is rejected, and its person gets a mail with the reason %q.",
			args[0], reason)
	})
}

func (v *verbs) resume() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "resume ID",
		Short:   "Resume a suspended account; its person gets a mail",
		Example: `  opportunity accounts resume acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 --reason "settled by mail"`,
		RunE: v.act(adminapi.ResumeAccount, withReason(&reason),
			func(args []string) string { return "resumed: " + args[0] }),
	}
	needsReason(c, &reason, "why, for the audit log")
	return c
}

func (v *verbs) resetAuthenticator() *cobra.Command {
	var reason string
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
		RunE: show(v, adminapi.ResetAuthenticator, withReason(&reason), func(out io.Writer, reset api.AuthenticatorReset) {
			fmt.Fprintf(out, "to be removed at %s: the authenticator, recovery codes and passkeys\n", formatTime(reset.ResetAt))
		}),
	}
	needsReason(c, &reason, "how you know who the person is; the mail to the person quotes it")
	return asksFirst(c, func(args []string) string {
		return fmt.Sprintf("This removes the second factors of %s in 24 hours. Its person gets a mail with the reason %q.",
			args[0], reason)
	})
}

func (v *verbs) accountList() *cobra.Command {
	var email string
	var page page
	c := &cobra.Command{
		Use:     "list",
		Short:   "List accounts with today's usage",
		Example: "  opportunity accounts list --output json\n  opportunity accounts list --email ada@example.org",
		RunE: show(v, adminapi.ListAccounts, func([]string) adminapi.Input { return page.input("email", email) },
			showAccounts),
	}
	c.Flags().StringVar(&email, "email", "", "only accounts whose email address contains this")
	pageFlags(c, &page)
	return c
}

func (v *verbs) accountShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show an account's owner, keys, open requests, usage and latest audit entries",
		Example: "  opportunity accounts show acc_0199a1c26f0e7a51b0a71d1f5a3b9c55",
		RunE:    show(v, adminapi.GetAccount, withID, showAccount),
	}
}

func showAccounts(out io.Writer, found api.AccountList) {
	table(out, "ID\tTIER\tPAID UNTIL\tSTATUS\tUSED TODAY\tKEYS\tCREATED\tE-MAIL", func(row func(...any)) {
		for _, a := range found.Accounts {
			until := "-"
			if a.Paid != nil && a.Paid.PaidUntil != nil {
				until = formatTime(*a.Paid.PaidUntil)
			}
			row(a.ID, a.Tier, until, a.Status, a.UsedToday, a.Keys, a.CreatedAt.Format(time.DateOnly), cmp.Or(a.Email, "-"))
		}
	})
	printNextPage(out, "after", found.Next)
}

func showAccount(out io.Writer, a api.AccountDetail) {
	table(out, "Account\t"+a.ID, func(row func(...any)) {
		row("Created", formatTime(a.CreatedAt))
		row("Tier", a.Tier)
		row("Granted", a.Granted)
		row("Paid", paid(a.Paid))
		row("Status", a.Status)
		if a.Suspended {
			row("Suspended", fmt.Sprintf("%s: %s", formatTime(*a.SuspendedAt), *a.SuspendReason))
		}
		if a.MergedInto != "" {
			row("Merged into", a.MergedInto)
		}
		row("Used today", fmt.Sprintf("%d of %d", a.UsedToday, a.PerDay))
		showPerson(row, a.Person)
	})
	fmt.Fprintln(out)
	table(out, "KEY\tSTATUS\tSHOWN AS\tNAME\tCREATED\tEXPIRES\tLAST USED", func(row func(...any)) {
		for _, k := range a.Keys {
			row(k.ID, k.Status, k.Prefix+"..."+k.LastFour, cmp.Or(k.Name, "-"),
				k.CreatedAt.Format(time.DateOnly), k.ExpiresAt.Format(time.DateOnly), formatOptionalTime(k.LastUsedAt))
		}
	})
	if len(a.Requests) > 0 {
		fmt.Fprintln(out)
		table(out, "REQUEST\tSTATE\tREQUESTED\tNAME\tUSE CASE", func(row func(...any)) {
			for _, r := range a.Requests {
				row(r.ID, r.State, r.AskedAt.Format(time.DateOnly), r.Name, r.UseCase)
			}
		})
	}
	fmt.Fprintln(out)
	showAudit(out, a.Audit)
}

func paid(e *api.Entitlement) string {
	if e == nil {
		return "nothing"
	}
	text := "nothing"
	if e.PaidUntil != nil {
		text = fmt.Sprintf("%s until %s", e.Tier, formatTime(*e.PaidUntil))
	}
	if e.Renews {
		text += ", renews"
	}
	if e.Trouble != api.NoTrouble {
		text += ", " + string(e.Trouble)
	}
	return text
}

func showPerson(row func(...any), p *api.AccountPerson) {
	switch {
	case p == nil:
		row("Person", "none: an operator created this account")
		return
	case p.ClosedAt != nil:
		row("Person", "closed the account at "+formatTime(*p.ClosedAt))
		return
	}
	row("Email", p.Email)
	authenticator := "not set up"
	if p.AuthenticatorConfirmed {
		authenticator = fmt.Sprintf("confirmed, %d recovery codes left", p.RecoveryCodesLeft)
	}
	if p.ResetAt != nil {
		authenticator += ", to be removed at " + formatTime(*p.ResetAt)
	}
	row("Authenticator", authenticator)
	terms := "not accepted yet"
	if p.Terms != nil {
		terms = fmt.Sprintf("version %s, accepted at %s", p.Terms.Version, formatTime(p.Terms.AcceptedAt))
	}
	row("Terms of use", terms)
	row("Passkeys", p.Passkeys)
	row("Sessions", p.Sessions)
}
