package verbs

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// result is the report of an all-or-nothing command.
type result struct {
	applied  bool
	rejected []api.RejectedLine
	omitted  int
	newer    []api.RecordedEvent // events that the reviewer had not seen
	raw      []byte
	text     string // summary, if applied
	lines    bool   // the user sent a file; otherwise they typed ids

	warnings []string
}

func imported(r api.ImportReport, raw []byte, text string) result {
	return result{applied: r.Applied, rejected: r.Rejected, omitted: r.Omitted, raw: raw, text: text, warnings: r.Warnings}
}

func appended(r api.AppendReport, raw []byte) result {
	return result{applied: r.Applied, rejected: r.Rejected, omitted: r.Omitted, newer: r.Newer, raw: raw,
		text: fmt.Sprintf("appended %d, duplicates %d", r.Appended, r.Duplicates)}
}

// file is like report, for a command that sends a file.
func (v *verbs) file(send func(cmd *cobra.Command, file io.Reader) (result, error)) runE {
	return func(cmd *cobra.Command, args []string) error {
		in, closed, err := input(cmd, args[0])
		if err != nil {
			return err
		}
		defer closed()
		return v.report(func(cmd *cobra.Command, _ []string) (result, error) {
			r, err := send(cmd, in)
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

// maxText bounds a file that a command reads into memory, in bytes.
const maxText = 1 << 20

// readFile reads a file named on the command line; - means standard input.
func readFile(cmd *cobra.Command, name string) ([]byte, error) {
	in, closed, err := input(cmd, name)
	if err != nil {
		return nil, err
	}
	defer closed()
	text, err := io.ReadAll(io.LimitReader(in, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxText)
	}
	return text, err
}

// report does all-or-nothing work and prints its summary, or the problems that prevented it.
func (v *verbs) report(work func(cmd *cobra.Command, args []string) (result, error)) runE {
	return func(cmd *cobra.Command, args []string) error {
		r, err := work(cmd, args)
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
			fmt.Fprintf(out, "%s: %s\n", firstTen(at, func(r api.RejectedLine) string { return r.ID }), p)
		case len(at) > 1:
			fmt.Fprintf(out, "%s (%d lines: %s)\n", p, len(at),
				firstTen(at, func(r api.RejectedLine) string { return strconv.Itoa(r.Line) }))
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
		fmt.Fprintln(out, "Nothing was appended. Read the newer events, then run the command again; a file needs the new "+
			"lastEventId.")
	}
}

func firstTen(at []api.RejectedLine, name func(api.RejectedLine) string) string {
	const most = 10
	var names []string
	for _, rejected := range at[:min(len(at), most)] {
		names = append(names, name(rejected))
	}
	if len(at) > most {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}
