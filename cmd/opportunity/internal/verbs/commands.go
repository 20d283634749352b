// Package verbs has the commands of operators: each makes calls with an adminapi.Client and prints
// the result.
package verbs

import (
	"encoding/csv"
	"fmt"
	"io"
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
		adminapi.Flags(f, &v.adminURL, &v.dataDir)
		v.completeIDs(c)
		flags.Choice(f, &v.output, "output", "text", "output format", "text", "json")
	}
	return groups
}

func (v *verbs) client() (adminapi.Client, error) { return adminapi.NewClient(v.adminURL, v.dataDir) }

// runE is the work of a command.
type runE = func(cmd *cobra.Command, args []string) error

// call makes one call as the operator at this machine.
func call[T any](cmd *cobra.Command, v *verbs, route adminapi.Route[T], in adminapi.Input) (T, []byte, error) {
	c, err := v.client()
	if err != nil {
		return *new(T), nil, err
	}
	return route.Call(cmd.Context(), c, in)
}

// show returns the work of a command that makes one call. It prints the response as JSON, or as
// text does.
func show[T any](v *verbs, route adminapi.Route[T], input func(args []string) adminapi.Input,
	text func(out io.Writer, response T)) runE {
	return func(cmd *cobra.Command, args []string) error {
		response, raw, err := call(cmd, v, route, input(args))
		if err == nil {
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) { text(out, response) })
		}
		return err
	}
}

// act is like show, for a route whose response is empty. It prints the sentence that done returns.
func (v *verbs) act(route adminapi.Route[any], input func(args []string) adminapi.Input,
	done func(args []string) string) runE {
	return func(cmd *cobra.Command, args []string) error {
		return show(v, route, input, func(out io.Writer, _ any) { fmt.Fprintln(out, done(args)) })(cmd, args)
	}
}

// withID is the input of a call about the thing that the first argument names.
func withID(args []string) adminapi.Input { return adminapi.Input{ID: args[0]} }

// withReason is withID with a reason in the body.
func withReason(reason *string) func(args []string) adminapi.Input {
	return func(args []string) adminapi.Input {
		return adminapi.Input{ID: args[0], Body: map[string]string{"reason": *reason}}
	}
}

// ifTrue returns the value of a parameter that is set if on is.
func ifTrue(on bool) string {
	if on {
		return "true"
	}
	return ""
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

// page selects entries of a list.
type page struct {
	after string
	limit int // 0: the service's default
}

func pageFlags(c *cobra.Command, p *page) {
	usage := fmt.Sprintf("maximum number of entries, up to %d", api.MaxOperatorPageSize)
	flags.Number(c.Flags(), &p.limit, "limit", 0, usage)
	c.Flags().StringVar(&p.after, "after", "", "start after the entry with this id")
}

// input returns the input of a list with the filters, which are names and values.
func (p page) input(filters ...string) adminapi.Input {
	return adminapi.Input{Query: adminapi.Query(append(filters, "after", p.after, "limit", number(int64(p.limit)))...)}
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
