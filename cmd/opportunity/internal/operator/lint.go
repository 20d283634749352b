package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// lintReport is what a lint says to programs.
type lintReport struct {
	Valid    bool          `json:"valid"`
	Listings int           `json:"listings"` // lines that an import would take
	Refused  []api.Refusal `json:"refused"`
}

func (v *verbs) lint() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE|-",
		Short: "Check a listings file on this machine, as an import would",
		Long: `Check a listings file as an import would, without a running API. Everything that is wrong is named by line and field.
The exit code is 1 if an import would refuse the file.`,
		Example: "  opportunity listings lint platforms.jsonl\n  opportunity listings export | opportunity listings lint --output json -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, closed, err := input(cmd, args[0])
			if err != nil {
				return err
			}
			defer closed()
			file, err := listingfile.Read(in, time.Now(), math.MaxInt)
			if err != nil {
				return err
			}
			report := lintReport{len(file.Refused) == 0, len(file.Lines), file.Refused}
			if report.Valid {
				report.Refused = []api.Refusal{}
			}
			raw, err := json.Marshal(report)
			if err != nil {
				return err
			}
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) {
				if report.Valid {
					fmt.Fprintf(out, "%d listings, nothing wrong\n", report.Listings)
				}
				result{refused: file.Refused, lines: true}.explain(cmd.ErrOrStderr())
			})
			if !report.Valid {
				return &Failure{codeRejected, "an import would reject the file"}
			}
			return nil
		},
	}
}

func schema() *cobra.Command {
	var example bool
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a line of a listings file",
		Long: `Print the JSON Schema (draft 2020-12) of a line of a listings file, for editors and other programs. It says what a line may be by
itself; its $comment names what only an import, or a lint, can find.`,
		Example: "  opportunity listings schema > listings.schema.json\n  opportunity listings schema --example > start.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := listingfile.Schema
			if example {
				text = listingfile.Example
			}
			_, err := cmd.OutOrStdout().Write(text) // as it is, whatever --output says
			return err
		},
	}
	c.Flags().BoolVar(&example, "example", false, "print a file with a listing that uses every field instead")
	return c
}
