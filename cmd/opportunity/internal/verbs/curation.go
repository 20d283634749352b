package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

func (v *verbs) listings() *cobra.Command {
	c := &cobra.Command{Use: "listings", Short: "List, check, import, export, publish and withdraw listings"}
	c.AddCommand(
		v.listListings(),
		v.showListing(),
		v.importListings(),
		v.lint(),
		schema(),
		v.export(),
		v.publish(),
		v.withdraw(),
	)
	return c
}

func (v *verbs) withdraw() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "withdraw ID...",
		Short: "Withdraw published listings: all that you name, or none",
		Long: `Withdraw published listings: all that you name, or none. Consumers no longer get them. At a
terminal, the command asks for confirmation; --yes skips that.`,
		Example: "  opportunity listings withdraw maple-scribe --reason \"the company closed\"",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := checkReason(reason); err != nil {
				return err
			}
			what := fmt.Sprintf("This withdraws %d listings: %s. Consumers no longer get them.", len(ids),
				strings.Join(ids, ", "))
			if err := confirmed(cmd, yes, what); err != nil {
				return err
			}
			return v.report(func(ctx context.Context, c adminapi.Client, ids []string) (result, error) {
				r, raw, err := c.Withdraw(ctx, ids, reason)
				return imported(r, raw, fmt.Sprintf("withdrawn %d, unchanged %d", r.Updated, r.Unchanged)), err
			})(cmd, ids)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the list of changes")
	c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	return c
}

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
			err := v.importFile(&format, dry, !yes)(cmd, args)
			if several, asks := errors.AsType[publishesSeveral](err); asks {
				if err = confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), several.Error()); err == nil {
					err = v.importFile(&format, dry, false)(cmd, args)
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
	return fmt.Sprintf("%d listings would become public, %s.", p.listings, neverReviewed(p.neverReviewed))
}

// importFile imports a listings file, or shows what would change if dry is set. If ask is set, it
// may return publishesSeveral.
func (v *verbs) importFile(format *string, dry, ask bool) runE {
	return v.listingsFile(format, func(ctx context.Context, c adminapi.Client, file io.Reader,
		rejected []api.RejectedLine) (result, error) {
		if len(rejected) > 0 { // in the conversion from CSV
			raw, err := json.Marshal(api.ImportReport{Rejected: rejected})
			return result{rejected: rejected, raw: raw}, err
		}
		if dry {
			p, raw, err := c.Preview(ctx, file)
			text := new(strings.Builder)
			showPreview(text, p)
			return result{applied: len(p.Rejected) == 0, rejected: p.Rejected, omitted: p.Omitted, raw: raw,
				text: strings.TrimSuffix(text.String(), "\n"), warnings: p.Warnings}, err
		}
		r, raw, err := c.Import(ctx, file, "", ask)
		if err == nil && !r.Applied && len(r.Rejected) == 0 {
			return result{}, publishesSeveral{r.Published, r.NeverReviewed}
		}
		text := fmt.Sprintf("created %d, updated %d, unchanged %d", r.Created, r.Updated, r.Unchanged)
		if r.Published > 0 {
			text += fmt.Sprintf("; published %d, %s", r.Published, neverReviewed(r.NeverReviewed))
		}
		if r.Withdrawn > 0 {
			text += fmt.Sprintf("; withdrawn %d", r.Withdrawn)
		}
		return imported(r, raw, text+stillWithdrawn(r.KeptWithdrawn)), err
	})
}

func (v *verbs) events() *cobra.Command {
	c := &cobra.Command{Use: "events", Short: "Check and append verification events"}
	c.AddCommand(v.lintEvents(), &cobra.Command{
		Use:   "append FILE|-",
		Short: "Append a file of verification events: all of it, or nothing",
		Long: `Append a file of verification events (JSON Lines, one event on each line, without an id).

Every line is checked first. If one is wrong, each wrong line is named (beyond 200, counted),
nothing is changed and the exit code is 1. An event that was recorded before is counted as a
duplicate. Events cannot be changed: append a later event to correct one.

A line may carry lastEventId, the id of the listing's newest recorded event when it was reviewed, or
"" if there was none. If there is a newer one, nothing is appended and the newer events are shown.`,
		Example: "  opportunity events append reviews.jsonl\n  opportunity events append --output json - < reviews.jsonl",
		RunE:    v.file(appended),
	})
	return c
}

func appended(ctx context.Context, c adminapi.Client, file io.Reader) (result, error) {
	r, raw, err := c.Append(ctx, file)
	text := fmt.Sprintf("appended %d, duplicates %d", r.Appended, r.Duplicates)
	return result{applied: r.Applied, rejected: r.Rejected, omitted: r.Omitted, newer: r.Newer, raw: raw, text: text}, err
}

// result is the report of an all-or-nothing command.
type result struct {
	applied  bool
	rejected []api.RejectedLine
	omitted  int
	newer    []api.RecordedEvent // events that the reviewer had not seen
	raw      []byte
	text     string // summary, if applied
	lines    bool   // the user sent a file; otherwise they typed ids
	usage    bool   // flags caused the rejection, before anything was sent

	warnings []string
}

func imported(r api.ImportReport, raw []byte, text string) result {
	return result{applied: r.Applied, rejected: r.Rejected, omitted: r.Omitted, raw: raw, text: text, warnings: r.Warnings}
}

// file is like report, for a command that sends a file.
func (v *verbs) file(call func(context.Context, adminapi.Client, io.Reader) (result, error)) runE {
	return func(cmd *cobra.Command, args []string) error {
		in, closed, err := input(cmd, args[0])
		if err != nil {
			return err
		}
		defer closed()
		return v.report(func(ctx context.Context, c adminapi.Client, _ []string) (result, error) {
			r, err := call(ctx, c, in)
			r.lines = true
			return r, err
		})(cmd, nil)
	}
}

// input opens a file named on the command line; - means standard input.
func input(cmd *cobra.Command, name string) (in io.Reader, closed func(), err error) {
	if name == "-" {
		return cmd.InOrStdin(), func() {}, nil
	}
	file, err := os.Open(name)
	return file, func() { file.Close() }, err
}

// report runs an all-or-nothing call and prints its summary, or the problems that prevented it.
func (v *verbs) report(call func(context.Context, adminapi.Client, []string) (result, error)) runE {
	return func(cmd *cobra.Command, args []string) error {
		c, err := v.client()
		if err != nil {
			return err
		}
		r, err := call(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		for _, w := range r.warnings {
			fmt.Fprintln(Printable(cmd.ErrOrStderr()), "warning:", w)
		}
		if r.applied {
			v.print(cmd.OutOrStdout(), r.raw, func(out io.Writer) { fmt.Fprintln(out, r.text) })
			return nil
		}
		v.print(cmd.OutOrStdout(), r.raw, func(io.Writer) { r.explain(cmd.ErrOrStderr()) })
		if r.usage {
			return flags.Usage("nothing was changed")
		}
		return &adminapi.Failure{Code: adminapi.CodeRejected, Message: "nothing was changed"}
	}
}

// explain prints each problem once, with the affected lines or ids.
func (r result) explain(out io.Writer) {
	out = Printable(out)
	var problems api.Problems // in the order of their first line
	places := map[api.Problem][]api.RejectedLine{}
	for _, rejected := range r.rejected {
		for _, p := range rejected.Problems {
			if places[p] == nil {
				problems = append(problems, p)
			}
			places[p] = append(places[p], rejected)
		}
	}
	for _, p := range problems {
		at := places[p]
		switch {
		case !r.lines && p.Code == api.UnknownListing:
			for _, rejected := range at {
				fmt.Fprintf(out, "unknown listing %q\n", rejected.ID)
			}
		case !r.lines:
			fmt.Fprintf(out, "%s: %s\n", ids(at), p)
		case len(at) > 1:
			fmt.Fprintf(out, "%s (%d lines: %s)\n", p, len(at), lineNumbers(at))
		case at[0].ID != "":
			fmt.Fprintf(out, "line %d (id %s): %s\n", at[0].Line, at[0].ID, p)
		default:
			fmt.Fprintf(out, "line %d: %s\n", at[0].Line, p)
		}
	}
	if r.omitted > 0 {
		fmt.Fprintf(out, "and %d more lines\n", r.omitted)
	}
	if len(r.newer) > 0 {
		fmt.Fprintln(out, "recorded since the listing was shown:")
		for _, e := range r.newer {
			fmt.Fprintf(out, "  %s: %s %s, checked %s, recorded %s by %s", e.Slug, e.CheckType, e.Outcome,
				formatTime(e.CheckedAt), formatTime(e.RecordedAt), e.Actor)
			if e.Note != "" {
				fmt.Fprintf(out, " (%s)", strings.Join(strings.Fields(e.Note), " "))
			}
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, "Nothing was appended. Read the newer events, then run the command again: it starts from the "+
			"listing's current state.")
	}
}

func ids(at []api.RejectedLine) string {
	names := make([]string, len(at))
	for i, rejected := range at {
		names[i] = rejected.ID
	}
	return strings.Join(names, ", ")
}

// lineNumbers lists the first ten line numbers.
func lineNumbers(at []api.RejectedLine) string {
	const most = 10
	var numbers []string
	for _, rejected := range at[:min(len(at), most)] {
		numbers = append(numbers, strconv.Itoa(rejected.Line))
	}
	if len(at) > most {
		numbers = append(numbers, "...")
	}
	return strings.Join(numbers, ", ")
}
