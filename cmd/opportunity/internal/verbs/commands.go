// Package verbs has the commands of operators: each makes calls with an adminapi.Client and prints
// the result.
package verbs

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

// verbs are the settings that all commands share.
type verbs struct {
	adminURL, dataDir, output string
}

// Commands returns the operators' commands.
func Commands() []*cobra.Command {
	v := new(verbs)
	groups := []*cobra.Command{
		v.listings(), v.reviews(), v.events(), v.history(), v.links(), v.keys(), v.accounts(), v.announce(), v.audit(),
		v.billing(), v.recover(), v.sample(), v.status(),
	}
	for _, c := range groups {
		f := c.PersistentFlags()
		f.StringVar(&v.adminURL, "admin-url", cmp.Or(os.Getenv("OPPORTUNITY_ADMIN_URL"), "http://"+adminapi.DefaultAdmin),
			"the gateway's admin listener, also from OPPORTUNITY_ADMIN_URL")
		f.StringVar(&v.dataDir, "data-dir", cmp.Or(os.Getenv("OPPORTUNITY_DATA_DIR"), adminapi.DefaultDataDir),
			`data directory of "opportunity up", which holds the operator token; also from OPPORTUNITY_DATA_DIR.
OPPORTUNITY_OPERATOR_TOKEN takes precedence`)
		v.completeIDs(c)
		flags.Choice(f, &v.output, "output", "text", "output format", "text", "json")
	}
	return groups
}

// client returns a adminapi.Client as adminapi.NewClient does.
func (v *verbs) client() (adminapi.Client, error) { return adminapi.NewClient(v.adminURL, v.dataDir) }

// runE is the work of a command.
type runE = func(cmd *cobra.Command, args []string) error

// show returns the work of a command that makes one call. It prints the response as JSON, or as
// text does.
func show[T any](
	v *verbs, call func(ctx context.Context, c adminapi.Client, args []string) (T, []byte, error),
	text func(out io.Writer, response T),
) runE {
	return func(cmd *cobra.Command, args []string) error {
		c, err := v.client()
		if err != nil {
			return err
		}
		response, raw, err := call(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		v.print(cmd.OutOrStdout(), raw, func(out io.Writer) { text(out, response) })
		return nil
	}
}

// act is like show, for a call whose response is empty. It prints the sentence that done returns.
func (v *verbs) act(call func(ctx context.Context, c adminapi.Client, args []string) ([]byte, error),
	done func(args []string) string) runE {
	return func(cmd *cobra.Command, args []string) error {
		return show(v, func(ctx context.Context, c adminapi.Client, args []string) (any, []byte, error) {
			raw, err := call(ctx, c, args)
			return nil, raw, err
		}, func(out io.Writer, _ any) { fmt.Fprintln(out, done(args)) })(cmd, args)
	}
}

// print writes the response or calls text, depending on --output.
func (v *verbs) print(out io.Writer, raw []byte, text func(io.Writer)) {
	out = Printable(out)
	if v.output == "json" {
		fmt.Fprintf(out, "%s\n", raw)
		return
	}
	text(out)
}

// Printable returns a writer that escapes control characters as \uXXXX, so that text of others
// cannot control the terminal. It keeps newlines and tabs. JSON stays the same value, because these
// characters appear only in its strings.
func Printable(out io.Writer) io.Writer { return printable{out} }

type printable struct{ io.Writer }

func (p printable) Write(text []byte) (int, error) {
	_, err := io.WriteString(p.Writer, escape(string(text), "\n\t"))
	return len(text), err
}

// escape replaces control characters, and those that change the direction of writing, by \uXXXX. It
// leaves those in keep.
func escape(text, keep string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control) && !strings.ContainsRune(keep, r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func pageFlags(c *cobra.Command, p *adminapi.Page) {
	usage := fmt.Sprintf("maximum number of entries, up to %d", api.MaxOperatorPageSize)
	flags.Number(c.Flags(), &p.Limit, "limit", 0, usage)
	c.Flags().StringVar(&p.After, "after", "", "start after the entry with this id")
}

// printNextPage prints how to get the next page, if there is one.
func printNextPage(out io.Writer, flag, next string) {
	if next != "" {
		fmt.Fprintf(out, "There are more: continue with --%s %s\n", flag, next)
	}
}

// table prints rows in aligned columns. A cell stays on its line.
func table(out io.Writer, head string, rows func(row func(cells ...any))) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	rows(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, escape(fmt.Sprint(c), ""))
		}
		fmt.Fprintln(w)
	})
	_ = w.Flush()
}

// WriteCSV writes rows for spreadsheets. It escapes formulas, because others wrote the text.
func WriteCSV(out io.Writer, head []string, rows func(row func(cells ...string))) error {
	w := csv.NewWriter(out)
	_ = w.Write(head) // Error returns the first error
	rows(func(cells ...string) {
		for i, cell := range cells {
			cells[i] = api.EscapeFormulas(cell)
		}
		_ = w.Write(cells)
	})
	w.Flush()
	return w.Error()
}
