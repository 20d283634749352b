package verbs

import (
	"bytes"
	"cmp"
	"context"
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

// listingsFile is like file, for listings files. It converts CSV and passes call either the file or
// the problems of the conversion.
func (v *verbs) listingsFile(format *string, call func(context.Context, adminapi.Client, io.Reader,
	[]api.RejectedLine) (result, error)) runE {
	return func(cmd *cobra.Command, args []string) error {
		return v.file(func(ctx context.Context, c adminapi.Client, in io.Reader) (result, error) {
			lines, wrong, err := asJSONLines(in, args[0], *format, time.Now())
			if err != nil {
				return result{}, err
			}
			return call(ctx, c, lines, wrong.Rejected)
		})(cmd, args)
	}
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
