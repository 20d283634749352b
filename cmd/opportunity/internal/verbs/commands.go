// Package verbs has the commands of operators: each makes calls with an operator.Client and prints the result.
package verbs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/api"
)

// verbs are the settings that all commands share.
type verbs struct {
	adminURL, dataDir, output string
}

// Commands returns the operators' commands.
func Commands() []*cobra.Command {
	v := new(verbs)
	groups := []*cobra.Command{v.listings(), v.reviews(), v.events(), v.history(), v.keys(), v.accounts(), v.announce(), v.audit(), v.billing(), v.recover(), v.sample(), v.status()}
	for _, c := range groups {
		f := c.PersistentFlags()
		f.StringVar(&v.adminURL, "admin-url", cmp.Or(os.Getenv("OPPORTUNITY_ADMIN_URL"), "http://"+operator.DefaultAdmin),
			"the gateway's admin listener, also from OPPORTUNITY_ADMIN_URL")
		f.StringVar(&v.dataDir, "data-dir", cmp.Or(os.Getenv("OPPORTUNITY_DATA_DIR"), operator.DefaultDataDir),
			`data directory of "opportunity up", which holds the operator token; also from OPPORTUNITY_DATA_DIR.
OPPORTUNITY_OPERATOR_TOKEN takes precedence`)
		v.completeIDs(c)
		flags.Choice(f, &v.output, "output", "text", "output format", "text", "json")
	}
	return groups
}

// client returns a operator.Client as operator.NewClient does.
func (v *verbs) client() (operator.Client, error) { return operator.NewClient(v.adminURL, v.dataDir) }

// act returns the RunE of a command that makes one call. It prints the response as JSON, or the sentence that done returns.
func (v *verbs) act(
	call func(ctx context.Context, c operator.Client, args []string) ([]byte, error), done func(args []string) string,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := v.client()
		if err != nil {
			return err
		}
		raw, err := call(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		v.print(cmd.OutOrStdout(), raw, func(out io.Writer) { fmt.Fprintln(out, done(args)) })
		return nil
	}
}

// print writes the unmodified response or calls text, depending on --output.
func (v *verbs) print(out io.Writer, raw []byte, text func(io.Writer)) {
	if v.output == "json" {
		fmt.Fprintf(out, "%s\n", raw)
		return
	}
	text(out)
}

// pageFlags adds the flags of a paged list.
func pageFlags(c *cobra.Command, p *operator.Page) {
	c.Flags().IntVar(&p.Limit, "limit", 0, fmt.Sprintf("maximum number of entries, up to %d", api.MaxOperatorPageSize))
	c.Flags().StringVar(&p.After, "after", "", "start after the entry with this id")
}

// printNextPage prints how to get the next page, if there is one.
func printNextPage(out io.Writer, flag, next string) {
	if next != "" {
		fmt.Fprintf(out, "There are more: continue with --%s %s\n", flag, next)
	}
}

// table prints rows in aligned columns.
func table(out io.Writer, head string, rows func(row func(cells ...any))) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	rows(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, c)
		}
		fmt.Fprintln(w)
	})
	_ = w.Flush()
}
