package verbs

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/api"
)

func (v *verbs) requests() *cobra.Command {
	var all bool
	var page operator.Page
	c := &cobra.Command{
		Use:     "requests",
		Short:   "List key requests that wait for a decision",
		Example: "  opportunity keys requests\n  opportunity keys requests --all --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			found, raw, err := c.KeyRequests(cmd.Context(), all, page)
			if err != nil {
				return err
			}
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
				table(out, "ID\tACCOUNT\tSTATE\tREQUESTED\tNAME\tUSE CASE", func(row func(...any)) {
					for _, r := range found.Requests {
						row(r.ID, r.Account, r.State, r.AskedAt.Format(time.DateOnly), r.Name, r.UseCase)
					}
				})
				printNextPage(out, "after", found.Next)
			})
			return nil
		},
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
		Args:    cobra.ExactArgs(1),
		RunE: v.decide(func(ctx context.Context, c operator.Client, id string) (api.KeyRequest, []byte, error) {
			return c.ApproveKey(ctx, id)
		},
			"approved"),
	}
}

// decide prints a decision with its operator and time, because repeating a decision returns the first one.
func (v *verbs) decide(
	call func(ctx context.Context, c operator.Client, id string) (api.KeyRequest, []byte, error), decision string,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := v.client()
		if err != nil {
			return err
		}
		r, raw, err := call(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
			fmt.Fprintf(out, "%s: %s", decision, args[0])
			if r.DecidedAt != nil {
				fmt.Fprintf(out, " (by %s, %s)", r.DecidedBy, formatTime(*r.DecidedAt))
			}
			fmt.Fprintln(out)
		})
		return nil
	}
}

func (v *verbs) decline() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "decline ID --reason TEXT",
		Short:   "Decline a key request for good; the person gets a mail with the reason",
		Example: `  opportunity keys decline req_0199a1c27b3f7d0e9c1b52f6d1f0a4e2 --reason "say which site will show the data"`,
		Args:    cobra.ExactArgs(1),
		RunE: v.decide(func(ctx context.Context, c operator.Client, id string) (api.KeyRequest, []byte, error) {
			return c.DeclineKey(ctx, id, reason)
		}, "declined"),
	}
	c.Flags().StringVar(&reason, "reason", "", "why; the mail to the person quotes it")
	_ = c.MarkFlagRequired("reason")
	return c
}

func (v *verbs) importKeys() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE|-",
		Short: "Import keys that another system issued, by their hashes: all of them, or none",
		Long: `Take over keys of another form (JSON Lines, one key on each line): the SHA-256 of the key in hexadecimal, never the key itself.

  {"sha256":"...","prefix":"jb-","lastFour":"9x2Q","name":"job board","useCase":"job board for Ontario","tier":"developer","expiresAt":"2027-01-31T00:00:00Z"}

Every line is checked first. If one is wrong, each wrong line is named (beyond 200, counted), nothing is changed and the exit code is 1.
Each key gets an account of its own, which its holder may connect to theirs. A key that is held already stays as it is. For such keys
to be accepted the gateway must know their form: OPPORTUNITY_OLDER_KEYS.`,
		Example: "  opportunity keys import older.jsonl",
		Args:    cobra.ExactArgs(1),
		RunE: v.file(func(ctx context.Context, c operator.Client, file upload) (result, error) {
			r, raw, err := c.ImportKeys(ctx, file)
			return imported(r, raw, fmt.Sprintf("created %d, unchanged %d", r.Created, r.Unchanged)), err
		}),
	}
}
