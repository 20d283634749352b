package verbs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

func (v *verbs) accountList() *cobra.Command {
	var email string
	var page adminapi.Page
	c := &cobra.Command{
		Use:     "list",
		Short:   "List accounts with today's usage",
		Example: "  opportunity accounts list --output json\n  opportunity accounts list --email ada@example.org",
		RunE: show(v, func(ctx context.Context, c adminapi.Client, _ []string) (api.AccountList, []byte, error) {
			return c.AccountList(ctx, email, page)
		}, showAccounts),
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
		RunE: show(v, func(ctx context.Context, c adminapi.Client, args []string) (api.AccountDetail, []byte, error) {
			return c.Account(ctx, args[0])
		}, showAccount),
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

// paid describes the entitlement that billing sent for an account.
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

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
