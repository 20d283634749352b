package verbs

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

func (v *verbs) keys() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "Issue, list, approve, revoke and import API keys"}
	list := &cobra.Command{
		Use:     "list",
		Short:   "List keys, by their prefix and last four characters",
		Example: "  opportunity keys list --account acc_0199a1c26f0e7a51b0a71d1f5a3b9c55",
	}
	account := list.Flags().String("account", "", "only keys of this account")
	var page page
	pageFlags(list, &page)
	list.RunE = show(v, adminapi.ListKeys, func([]string) adminapi.Input {
		return page.input("account", *account)
	}, func(out io.Writer, found api.KeyList) {
		table(out, "ID\tACCOUNT\tTIER\tKEY\tSTATUS\tEXPIRES\tUSE CASE", func(row func(...any)) {
			for _, k := range found.Keys {
				row(k.ID, k.Account, k.Tier, k.Prefix+"..."+k.LastFour, k.Status, k.ExpiresAt.Format(time.DateOnly), k.UseCase)
			}
		})
		printNextPage(out, "after", found.Next)
	})
	c.AddCommand(v.issue(), list, v.requests(), v.approve(), v.decline(), v.revoke(), v.importKeys())
	return c
}

func (v *verbs) revoke() *cobra.Command {
	var leaked bool
	c := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a key for good; its next request is rejected",
		Long: `Revoke a key for good; its next request is rejected. At a terminal, the command asks for
confirmation; --yes skips that.`,
		Example: "  opportunity keys revoke key_0199a1c27b3f7d0e9c1b52f6d1f0a4e2\n  opportunity keys revoke " +
			"key_0199a1c27b3f7d0e9c1b52f6d1f0a4e2 --leaked",
		RunE: v.act(adminapi.RevokeKey, func(args []string) adminapi.Input {
			in := adminapi.Input{ID: args[0]}
			if leaked {
				in.Body = map[string]bool{"leaked": true}
			}
			return in
		}, func(args []string) string { return "revoked: " + args[0] }),
	}
	c.Flags().BoolVar(&leaked, "leaked", false, "the key was found in a public place; the mail to its holder says so")
	return asksFirst(c, func(args []string) string {
		return fmt.Sprintf("This revokes %s for good: its next request is rejected, and nothing restores it.", args[0])
	})
}

func (v *verbs) issue() *cobra.Command {
	var want api.KeyOrder
	var life time.Duration
	c := &cobra.Command{
		Use:   "issue --use-case TEXT --tier TIER | --account ID",
		Short: "Issue a key and print it once",
		Long: `Issue a key. It is printed once and cannot be shown again.

With --tier, the key gets a new account of that tier. With --account, it joins that account: it
shares the account's quota and has the account's tier. To change that tier for all keys of the
account, use "opportunity accounts grant".`,
		Example: `  opportunity keys issue --tier developer --use-case "job board for Ontario"
  opportunity keys issue --account acc_0199a1c26f0e7a51b0a71d1f5a3b9c55 --use-case "staging server"
  opportunity keys issue --tier commercial --use-case "nightly import" --expires-in 30d --output json`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("expires-in") {
				if life <= 0 {
					return fmt.Errorf("invalid --expires-in: %s", api.DurationHelp)
				}
				want.ExpiresIn = life.String()
			}
			if want.Tier == "" && want.Account == "" {
				return fmt.Errorf("missing --tier: a new account needs %s; with --account, the key has the account's tier",
					flags.OneOf(Tiers()...))
			}
			return nil
		},
		RunE: show(v, adminapi.IssueKey, func([]string) adminapi.Input {
			return adminapi.Input{Body: want}
		}, func(out io.Writer, key api.IssuedKey) {
			fmt.Fprintf(out, "key      %s\nid       %s\naccount  %s\ntier     %s\nexpires  %s\n",
				key.Key, key.ID, key.Account, key.Tier, key.ExpiresAt.Format(time.RFC3339))
		}),
	}
	f := c.Flags()
	flags.Choice(f, &want.Tier, "tier", "", "tier of the new account", Tiers()...)
	f.StringVar(&want.UseCase, "use-case", "", "what the key is for, in a few words")
	f.StringVar(&want.Account, "account", "", "add the key to this account instead of a new one")
	flags.Duration(f, &life, "expires-in", "lifetime of the key, such as 30d or 12h (default and maximum 365d)")
	f.BoolVar(&want.Test, "test", false, "a key with the prefix oda_test_")
	_ = c.MarkFlagRequired("use-case")
	return c
}

func (v *verbs) requests() *cobra.Command {
	var all bool
	var page page
	c := &cobra.Command{
		Use:     "requests",
		Short:   "List key requests that wait for a decision",
		Example: "  opportunity keys requests\n  opportunity keys requests --all --output json",
		RunE: show(v, adminapi.ListKeyRequests, func([]string) adminapi.Input {
			return page.input("all", ifTrue(all))
		}, func(out io.Writer, found api.KeyRequestList) {
			table(out, "ID\tACCOUNT\tSTATE\tREQUESTED\tNAME\tUSE CASE", func(row func(...any)) {
				for _, r := range found.Requests {
					row(r.ID, r.Account, r.State, r.AskedAt.Format(time.DateOnly), r.Name, r.UseCase)
				}
			})
			printNextPage(out, "after", found.Next)
		}),
	}
	pageFlags(c, &page)
	c.Flags().BoolVar(&all, "all", false, "also list decided and withdrawn requests")
	return c
}

func (v *verbs) approve() *cobra.Command {
	return &cobra.Command{
		Use:     "approve ID",
		Short:   "Approve a key request for good; the person gets a mail and collects the key",
		Example: "  opportunity keys approve req_0199a1c27b3f7d0e9c1b52f6d1f0a4e2",
		RunE:    show(v, adminapi.ApproveKeyRequest, withID, showDecision),
	}
}

// showDecision prints a decision with its operator and time, because repeating a decision returns
// the first one.
func showDecision(out io.Writer, r api.KeyRequest) {
	fmt.Fprintf(out, "%s: %s", r.State, r.ID)
	if r.DecidedAt != nil {
		fmt.Fprintf(out, " (by %s, %s)", r.DecidedBy, formatTime(*r.DecidedAt))
	}
	fmt.Fprintln(out)
}

func (v *verbs) decline() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "decline ID --reason TEXT",
		Short:   "Decline a key request for good; the person gets a mail with the reason",
		Example: `  opportunity keys decline req_0199a1c27b3f7d0e9c1b52f6d1f0a4e2 --reason "say which site will show the data"`,
		RunE:    show(v, adminapi.DeclineKeyRequest, withReason(&reason), showDecision),
	}
	c.Flags().StringVar(&reason, "reason", "", "why; the mail to the person quotes it")
	_ = c.MarkFlagRequired("reason")
	return c
}

func (v *verbs) importKeys() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE|-",
		Short: "Import keys that another system issued, by their hashes: all of them, or none",
		Long: `Take over keys of another form (JSON Lines, one key on each line): the SHA-256 of the key
in hexadecimal, never the key itself.

  {"sha256":"...","prefix":"jb-","lastFour":"9x2Q","name":"job board","useCase":"job board for Ontario","tier":"developer","expiresAt":"2027-01-31T00:00:00Z"}

Every line is checked first. If one is wrong, each wrong line is named (beyond 200, counted),
nothing is changed and the exit code is 1. Each key gets an account of its own, which its holder may
connect to theirs. A key that is held already stays as it is. For such keys to be accepted the
gateway must know their form: OPPORTUNITY_OLDER_KEYS.`,
		Example: "  opportunity keys import older.jsonl",
		RunE: v.file(func(cmd *cobra.Command, file io.Reader) (result, error) {
			r, raw, err := call(cmd, v, adminapi.ImportKeys, adminapi.Input{Body: file})
			return imported(r, raw, fmt.Sprintf("created %d, unchanged %d", r.Created, r.Unchanged)), err
		}),
	}
}
