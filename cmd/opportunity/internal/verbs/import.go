package verbs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
)

func (v *verbs) importListings() *cobra.Command {
	var dry, yes bool
	var format string
	c := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Import a listings file: all of it, or nothing",
		Long: `Import a listings file: JSON Lines (a header, then one listing on each line), or CSV with
the columns of 'export --format csv'. A file whose name ends in .csv is read as CSV; for others, use
--format.

Every line is checked first. If one is wrong, each wrong line is named (beyond 200, counted),
nothing is changed and the exit code is 1. Importing a file again changes nothing; listings that are
not in the file do not change. A listing that the file has as withdrawn is withdrawn. An import
never publishes a withdrawn one again: it lists those that stay withdrawn.

Before several listings become public, any of them never reviewed, the command shows how many and
asks for confirmation. In scripts and for standard input, add --yes.

--dry-run changes nothing. It shows what would be created, updated, published and withdrawn, each
changed field with its old and its new value, and which records would turn "needs-review".`,
		Example: "  opportunity listings import --dry-run platforms.jsonl\n  opportunity listings import platforms.jsonl\n" +
			"  opportunity listings import listings.csv\n  opportunity listings export | opportunity listings import -",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := v.importFile(format, dry, !yes)(cmd, args)
			if several, asks := errors.AsType[publishesSeveral](err); asks {
				if err = confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), several.Error()); err == nil {
					err = v.importFile(format, dry, false)(cmd, args)
				}
			}
			return err
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "show what would change without changing it")
	c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	formatFlag(c, &format)
	return c
}

// publishesSeveral is the error of an import that changed nothing because it would publish several
// listings, one of them never reviewed.
type publishesSeveral struct{ listings, neverReviewed int }

func (p publishesSeveral) Error() string {
	return forms.Count(p.listings, "listing", "listings") + " would become public, " + neverReviewed(p.neverReviewed) + "."
}

// importFile imports a listings file, or shows what would change if dry is set. If ask is set, it
// may return publishesSeveral.
func (v *verbs) importFile(format string, dry, ask bool) runE {
	return func(cmd *cobra.Command, args []string) error {
		return v.file(func(cmd *cobra.Command, in io.Reader) (result, error) {
			file, wrong, err := asJSONLines(in, args[0], format, time.Now())
			if err != nil {
				return result{}, err
			}
			if len(wrong.Rejected) > 0 { // in the conversion from CSV
				raw, err := json.Marshal(api.ImportReport{Rejected: wrong.Rejected})
				return result{rejected: wrong.Rejected, raw: raw}, err
			}
			query := adminapi.Query("dryRun", ifTrue(dry), "ask", ifTrue(ask && !dry))
			r, raw, err := call(cmd, v, adminapi.ImportListings, adminapi.Input{Query: query, Body: file})
			switch {
			case err != nil:
				return result{}, err
			case dry:
				shown := imported(r, raw, preview(r))
				shown.applied = len(r.Rejected) == 0
				return shown, nil
			case !r.Applied && len(r.Rejected) == 0:
				return result{}, publishesSeveral{r.Published, r.NeverReviewed}
			}
			text := fmt.Sprintf("created %d, updated %d, unchanged %d", r.Created, r.Updated, r.Unchanged)
			if r.Published > 0 {
				text += fmt.Sprintf("; published %d, %s", r.Published, neverReviewed(r.NeverReviewed))
			}
			if r.Withdrawn > 0 {
				text += fmt.Sprintf("; withdrawn %d", r.Withdrawn)
			}
			return imported(r, raw, text+stillWithdrawn(r.KeptWithdrawn)), nil
		})(cmd, args)
	}
}

// preview returns what an import would do: a line for each listing and each of its changed fields,
// then the totals.
func preview(p api.ImportReport) string {
	out := new(strings.Builder)
	for _, c := range p.Changes {
		sign := "~"
		if c.Change == api.ListingCreated {
			sign = "+"
		}
		fmt.Fprintf(out, "%s %s", sign, c.ID)
		if c.Published {
			fmt.Fprint(out, "  published")
		}
		if c.Withdrawn {
			fmt.Fprint(out, "  withdrawn")
		}
		if c.NeedsReview {
			fmt.Fprint(out, "  turns needs-review")
		}
		fmt.Fprintln(out)
		for _, f := range c.Fields {
			fmt.Fprintf(out, "    %s: %s -> %s\n", f.Field, compact(f.Old), compact(f.New))
		}
	}
	if p.Unlisted > 0 {
		fmt.Fprintf(out, "and %d more listings\n", p.Unlisted)
	}
	fmt.Fprintf(out, "would create %d, update %d, leave %d unchanged; publish %d; turn %d needs-review\n",
		p.Created, p.Updated, p.Unchanged, p.Published, p.NeedsReview)
	if p.Published > 0 {
		fmt.Fprintf(out, "of those to publish, %d never reviewed\n", p.NeverReviewed)
	}
	if p.Withdrawn > 0 {
		fmt.Fprintf(out, "would withdraw %d\n", p.Withdrawn)
	}
	if text := stillWithdrawn(p.KeptWithdrawn); text != "" {
		fmt.Fprintln(out, strings.TrimPrefix(text, "\n"))
	}
	return out.String() + "nothing was changed"
}

// maxValue bounds the characters of a value in text output; --output json has them all.
const maxValue = 70

func compact(value []byte) string {
	text := string(value)
	if utf8.RuneCountInString(text) <= maxValue {
		return text
	}
	return string([]rune(text)[:maxValue-3]) + "..."
}

func neverReviewed(n int) string { return fmt.Sprintf("%d of them never reviewed", n) }

// stillWithdrawn lists the listings that an import left withdrawn although the file has them as
// published.
func stillWithdrawn(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%d stay withdrawn although the file has them as published: %s\npublish them again with: "+
		"opportunity listings publish ID...",
		len(ids), strings.Join(ids, ", "))
}
