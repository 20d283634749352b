package verbs

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/listingfile"
)

func (v *verbs) lint() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "lint FILE|-",
		Short: "Check a listings file locally, as an import would",
		Long: `Check a listings file, JSON Lines or CSV, as an import would, without a running API. It
names every problem by line and field; in CSV, by the line where the row begins and by the column.
The exit code is 1 if an import would reject the file.`,
		Example: "  opportunity listings lint platforms.jsonl\n  opportunity listings export | opportunity listings lint " +
			"--output json -",
		RunE: v.linted("listings", "an import would reject the file", func(in io.Reader, name string) (linted, error) {
			lines, file, err := asJSONLines(in, name, format, time.Now())
			if err == nil && lines != nil {
				file, err = listingfile.Read(lines, time.Now(), math.MaxInt)
			}
			return linted{valid: len(file.Lines), rejected: file.Rejected}, err
		}),
	}
	formatFlag(c, &format)
	return c
}

func (v *verbs) lintEvents() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE|-",
		Short: "Check an events file locally, as an append would",
		Long: `Check an events file as an append would, without a running API. It names every problem by
line and field. It does not check that each slug is the id of a listing. It says what the service
completes: sources that facts cite, and facts of a closed platform. The exit code is 1 if an append
would reject the file.`,
		Example: "  opportunity events lint reviews.jsonl",
		RunE: v.linted("events", "an append would reject the file", func(in io.Reader, _ string) (linted, error) {
			file, err := eventfile.Read(in, time.Now(), math.MaxInt)
			found := linted{valid: len(file.Lines), rejected: file.Rejected}
			for _, l := range file.Lines {
				if added := l.Added(); len(added) > 0 {
					found.completed = append(found.completed, api.RejectedLine{Line: l.Number, ID: l.Event.Slug, Problems: added})
				}
			}
			return found, err
		}),
	}
}

// linted is the result of a lint.
type linted struct {
	valid     int
	rejected  []api.RejectedLine
	completed []api.RejectedLine // valid lines that the service completes
}

// linted returns the RunE of a lint command. what names the lines in output.
func (v *verbs) linted(what, verdict string, read func(in io.Reader, name string) (linted, error)) runE {
	return func(cmd *cobra.Command, args []string) error {
		in, closed, err := input(cmd, args[0])
		if err != nil {
			return err
		}
		defer closed()
		found, err := read(in, args[0])
		if err != nil {
			return err
		}
		valid := len(found.rejected) == 0
		raw, err := json.Marshal(map[string]any{
			"valid": valid, what: found.valid, "refused": append([]api.RejectedLine{}, found.rejected...),
			"completed": append([]api.RejectedLine{}, found.completed...),
		})
		if err != nil {
			return err
		}
		v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
			if valid {
				fmt.Fprintf(out, "%d %s, no problems\n", found.valid, what)
			}
			result{rejected: append(found.rejected, found.completed...), lines: true}.explain(cmd.ErrOrStderr())
		})
		if !valid {
			return &adminapi.Failure{Code: adminapi.CodeRejected, Message: verdict}
		}
		return nil
	}
}

func schema() *cobra.Command {
	var example bool
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a line of a listings file",
		Long: `Print the JSON Schema (draft 2020-12) of a line of a listings file, for editors and other
programs. Its $comment lists the rules that span lines, which only an import or a lint can check.`,
		Example: "  opportunity listings schema > listings.schema.json\n  opportunity listings schema --example > " +
			"start.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := listingfile.Schema
			if example {
				text = listingfile.Example
			}
			_, err := cmd.OutOrStdout().Write(text) // ignores --output
			return err
		},
	}
	c.Flags().BoolVar(&example, "example", false, "print an example file instead, with a listing that uses every field")
	return c
}
