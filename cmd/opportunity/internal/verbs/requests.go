package verbs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

func (v *verbs) requests() *cobra.Command {
	var all bool
	var page adminapi.Page
	c := &cobra.Command{
		Use:     "requests",
		Short:   "List key requests that wait for a decision",
		Example: "  opportunity keys requests\n  opportunity keys requests --all --output json",
		RunE: show(v, func(ctx context.Context, c adminapi.Client, _ []string) (api.KeyRequestList, []byte, error) {
			return c.KeyRequests(ctx, all, page)
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
		RunE: show(v, func(ctx context.Context, c adminapi.Client, args []string) (api.KeyRequest, []byte, error) {
			return c.ApproveKey(ctx, args[0])
		}, showDecision),
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
		RunE: show(v, func(ctx context.Context, c adminapi.Client, args []string) (api.KeyRequest, []byte, error) {
			return c.DeclineKey(ctx, args[0], reason)
		}, showDecision),
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
		RunE: v.file(func(ctx context.Context, c adminapi.Client, file io.Reader) (result, error) {
			r, raw, err := adminapi.Send[api.ImportReport](ctx, c, http.MethodPost, "/keys/import", file)
			return imported(r, raw, fmt.Sprintf("created %d, unchanged %d", r.Created, r.Unchanged)), err
		}),
	}
}
