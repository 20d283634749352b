package operator

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

// Defaults of flags and environment variables. `opportunity up` uses the same.
const (
	DefaultAdmin   = "127.0.0.1:8081"
	DefaultDataDir = ".opportunity"
	TokenFile      = "operator-token" // in the data directory
)

// verbs are the settings that all commands share.
type verbs struct {
	adminURL, dataDir, output string
}

// Commands returns the operators' commands.
func Commands() []*cobra.Command {
	v := new(verbs)
	groups := []*cobra.Command{v.listings(), v.reviews(), v.events(), v.history(), v.keys(), v.accounts(), v.audit(), v.billing(), v.recover(), v.sample(), v.status()}
	for _, c := range groups {
		f := c.PersistentFlags()
		f.StringVar(&v.adminURL, "admin-url", cmp.Or(os.Getenv("OPPORTUNITY_ADMIN_URL"), "http://"+DefaultAdmin),
			"the gateway's admin listener, also from OPPORTUNITY_ADMIN_URL")
		f.StringVar(&v.dataDir, "data-dir", cmp.Or(os.Getenv("OPPORTUNITY_DATA_DIR"), DefaultDataDir),
			`data directory of "opportunity up", which holds the operator token; also from OPPORTUNITY_DATA_DIR.
OPPORTUNITY_OPERATOR_TOKEN takes precedence`)
		v.completeIDs(c)
		flags.Choice(f, &v.output, "output", "text", "output format", "text", "json")
	}
	return groups
}

// client returns a Client as NewClient does.
func (v *verbs) client() (Client, error) { return NewClient(v.adminURL, v.dataDir) }

// NewClient returns a Client with the operator token from the environment or the data directory of "opportunity up". The token is only
// sent, never printed. Without a token, the Code of the error is CodeNoToken.
func NewClient(adminURL, dataDir string) (Client, error) {
	if err := usableURL("admin-url", adminURL); err != nil {
		return Client{}, err
	}
	token, file := os.Getenv("OPPORTUNITY_OPERATOR_TOKEN"), ""
	if token == "" {
		file = filepath.Join(dataDir, TokenFile)
		text, err := os.ReadFile(file)
		if err != nil {
			return Client{}, &Failure{CodeNoToken, fmt.Sprintf("no operator token: OPPORTUNITY_OPERATOR_TOKEN is not set, and %v. "+
				`Set it, or use --data-dir with the directory of "opportunity up".`, err)}
		}
		token = strings.TrimSpace(string(text))
	}
	return Client{URL: adminURL, Token: token, TokenFile: file, Actor: Actor(), HTTP: http.DefaultClient}, nil
}

// Actor returns the name of the person at this machine.
func Actor() string { return cmp.Or(os.Getenv("OPPORTUNITY_ACTOR"), os.Getenv("USER"), "operator") }

func usableURL(flag, value string) error {
	if api.ValidURL(value) {
		return nil
	}
	return flags.Usage("invalid --%s %q: use an http or https URL such as http://%s", flag, value, DefaultAdmin)
}

// act returns the RunE of a command that makes one call. It prints the response as JSON, or the sentence that done returns.
func (v *verbs) act(
	call func(ctx context.Context, c Client, args []string) ([]byte, error), done func(args []string) string,
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

// paged adds the flags of a paged list.
func (p *Page) paged(c *cobra.Command) {
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
