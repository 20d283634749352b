package verbs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
)

// review is a review in an events file. Facts stay raw JSON, so that the rules of events files check them as written.
type review struct {
	Slug       string          `json:"slug"`
	CheckedAt  string          `json:"checkedAt"`
	CheckType  api.CheckType   `json:"checkType"`
	Outcome    string          `json:"outcome"`
	SourceURLs []string        `json:"sourceUrls"`
	Facts      json.RawMessage `json:"facts,omitempty"`
	Note       string          `json:"note"`

	LastEventID string `json:"lastEventId"` // id of the newest event that the reviewer has seen
}

func (v *verbs) record() *cobra.Command {
	r := scripted{verbs: v}
	c := &cobra.Command{
		Use:   "record ID",
		Short: "Review a listing fact by fact and append the review",
		Long: `Review a listing. The command shows the known facts, why the listing is due and what changed since its latest review. It asks for
each fact, the outcome, the sources and a note, then shows the review and appends it after you confirm. At each question, press Enter to
keep the value in brackets, or enter ? for unknown, or - to clear a list or a text.

In scripts, use one of these. Neither asks for facts:
  --event reads one review from a file, as in an events file. You may leave out slug, checkType, checkedAt and lastEventId.
  --outcome builds the review from --facts or --set, --source, --note and --checked-at. --set changes single facts of the known ones,
  shows the difference and asks for confirmation; add --yes to skip the question.

A verified review needs all facts (unknown ones as null, "unknown" or []), at least one known fact, a source, and a source for each
country whose eligibility it states. A closed or needs-review one without facts does not change the facts.

The review's time is when the listing was shown. The review is rejected if another event was recorded for the listing since then.`,
		Example: "  opportunity reviews record maple-scribe\n  opportunity reviews record maple-scribe --outcome closed --note \"The site says so.\"" +
			" --source https://maple-scribe.example/\n  opportunity reviews record maple-scribe --outcome verified --set remote=true --set pay=null" +
			" --source https://maple-scribe.example/jobs\n  opportunity reviews record maple-scribe --event review.json --output json",
		Args: cobra.ExactArgs(1),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"facts", "set", "note", "source", "checked-at"} {
				if cmd.Flags().Changed(flag) && r.given.Outcome == "" {
					return fmt.Errorf("--%s needs --outcome", flag)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.file == "" && r.given.Outcome == "" {
				return v.interview(cmd, args[0])
			}
			return r.run(cmd, args[0])
		},
	}
	f := c.Flags()
	f.StringVar(&r.file, "event", "", "file with one review, or - for standard input")
	flags.Choice(f, &r.given.Outcome, "outcome", "", "outcome", "verified", "closed", "needs-review")
	f.StringVar(&r.facts, "facts", "", "file with all facts as JSON, or - for standard input")
	f.StringArrayVar(&r.set, "set", nil, "change one fact: NAME=VALUE with a JSON value, such as remote=true or pay=null; repeatable")
	f.StringVar(&r.given.Note, "note", "", "note of the review")
	f.StringArrayVar(&r.given.SourceURLs, "source", nil, "URL of a page that supports the review; repeatable")
	f.StringVar(&r.given.CheckedAt, "checked-at", "", "time of the review (RFC 3339, default now)")
	f.BoolVar(&r.yes, "yes", false, "skip the confirmation")
	for _, flag := range []string{"outcome", "facts", "set", "note", "source", "checked-at", "yes"} {
		c.MarkFlagsMutuallyExclusive("event", flag)
	}
	c.MarkFlagsMutuallyExclusive("facts", "set")
	return c
}

// submit validates a review and appends it if it is valid.
func submit(ctx context.Context, c operator.Client, event []byte, sheet api.ReviewSheet) (result, error) {
	if r, err := validate(event, sheet); err != nil || len(r.rejected) > 0 {
		return r, err
	}
	r, raw, err := c.Review(ctx, sheet.Record.ID, api.ReviewSubmission{Review: event})
	text := fmt.Sprintf("appended %d, duplicates %d", r.Appended, r.Duplicates)
	return result{applied: r.Applied, rejected: r.Rejected, omitted: r.Omitted, newer: r.Newer, raw: raw, text: text}, err
}

// validate validates a review without sending it. It accepts times up to the service's clock, which may be ahead of the local one.
func validate(event []byte, sheet api.ReviewSheet) (result, error) {
	now := time.Now()
	if sheet.GeneratedAt.After(now) {
		now = sheet.GeneratedAt
	}
	file, err := eventfile.Read(bytes.NewReader(event), now, 1)
	if err != nil || len(file.Rejected) == 0 {
		return result{}, err
	}
	raw, err := json.Marshal(api.AppendReport{Rejected: file.Rejected})
	return result{rejected: file.Rejected, raw: raw}, err
}

// timestamp formats the time of a review with full precision. Rounded down to a second, the review could predate a check that the reviewer
// has seen.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// interview reviews one listing interactively and appends the review.
func (v *verbs) interview(cmd *cobra.Command, id string) error {
	c, err := v.client()
	if err != nil {
		return err
	}
	sheet, _, err := c.Sheet(cmd.Context(), id)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if v.output == "json" {
		out = cmd.ErrOrStderr() // keeps standard output for the JSON result
	}
	showSheet(out, sheet)
	q := newQuestions(bufio.NewReader(cmd.InOrStdin()), out, sheet)
	for {
		if err := q.all(); err != nil {
			return err
		}
		event, err := q.event(id, sheet)
		if err != nil {
			return err
		}
		var pretty bytes.Buffer
		_ = json.Indent(&pretty, event, "  ", "  ")
		fmt.Fprintf(out, "\nThis will be appended, and can only be corrected by a later review:\n  %s\n", pretty.Bytes())
		switch sure, err := q.sure(); {
		case err != nil:
			return err
		case sure == "no":
			fmt.Fprintln(out, "nothing was appended")
			return nil
		case sure == "again":
			continue
		}
		r, err := submit(cmd.Context(), c, event, sheet)
		if err != nil {
			return err
		}
		if r.applied {
			v.print(cmd.OutOrStdout(), r.raw, func(out io.Writer) { fmt.Fprintln(out, r.text) })
			return nil
		}
		if len(r.newer) > 0 {
			r.explain(out)
			return &operator.Failure{Code: operator.CodeRejected, Message: "nothing was changed"}
		}
		fmt.Fprintln(out, "\nRejected. Your answers are now the values in brackets:")
		r.explain(out)
	}
}
