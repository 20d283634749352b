package verbs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Formats of a listings file. The API accepts only JSON Lines; the command converts CSV.
const (
	jsonLines = "jsonl"
	csvFormat = "csv"
)

func formatFlag(c *cobra.Command, format *string) {
	flags.Choice(c.Flags(), format, "format", "",
		"format of the file; the default is csv for a name that ends in .csv, otherwise jsonl", jsonLines, csvFormat)
}

// asJSONLines returns the file as JSON Lines with the same line numbers. If CSV cannot be
// converted, lines is nil and wrong has both the valid lines and the problems.
func asJSONLines(in io.Reader, name, format string, now time.Time) (lines io.Reader, wrong listingfile.File,
	err error) {
	if format == jsonLines || format == "" && !strings.EqualFold(filepath.Ext(name), ".csv") {
		return in, wrong, nil
	}
	var out bytes.Buffer
	rejected, err := listingfile.FromCSV(in, &out)
	if err != nil || len(rejected) == 0 {
		return &out, wrong, err
	}
	wrong, err = listingfile.Read(&out, now, math.MaxInt)
	wrong.Rejected = append(wrong.Rejected, rejected...)
	slices.SortStableFunc(wrong.Rejected, func(a, b api.RejectedLine) int { return cmp.Compare(a.Line, b.Line) })
	return nil, wrong, err
}

func (v *verbs) export() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write all listings as a listings file, private ones and curators' notes included",
		Long: `Write all listings as a listings file, private ones and curators' notes included: JSON
Lines, or CSV for spreadsheets. Importing either changes nothing.`,
		Example: "  opportunity listings export > backup.jsonl\n  opportunity listings export --format csv > listings.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			if format != csvFormat {
				return c.Export(cmd.Context(), cmd.OutOrStdout()) // ignores --output
			}
			in, out := io.Pipe()
			go func() { out.CloseWithError(c.Export(cmd.Context(), out)) }()
			defer func() { _ = in.Close() }() // never fails
			return listingfile.ToCSV(in, cmd.OutOrStdout())
		},
	}
	flags.Choice(c.Flags(), &format, "format", jsonLines, "format of the file", jsonLines, csvFormat)
	return c
}

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
