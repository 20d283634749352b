package verbs

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
)

func (v *verbs) links() *cobra.Command {
	check := &cobra.Command{
		Use:   "check ID",
		Short: "Read the pages of a listing now",
		Long: `Read the pages of a listing and its application link now, instead of at their time of the
day. The link checker does it under its rules: robots.txt, its pause between requests to a host, and
no page twice within 10 minutes. The desk shows what changed on the pages. If link checks are off,
the command says how to switch them on.`,
		Example: "  opportunity links check maple-scribe",
		RunE: show(v, adminapi.ReadPages, withID,
			func(out io.Writer, due api.PagesDue) { fmt.Fprintln(out, forms.PagesDue(due)) }),
	}
	c := &cobra.Command{Use: "links", Short: "Check application links and pages of listings"}
	c.AddCommand(check)
	return c
}
