package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
)

// review is a review as an events file has it. Facts are kept as they were written, for the rules of events files to judge.
type review struct {
	Slug       string          `json:"slug"`
	CheckedAt  string          `json:"checkedAt"`
	CheckType  api.CheckType   `json:"checkType"`
	Outcome    string          `json:"outcome"`
	SourceURLs []string        `json:"sourceUrls"`
	Facts      json.RawMessage `json:"facts,omitempty"`
	Note       string          `json:"note"`

	LastEventID string `json:"lastEventId"` // newest event that the reviewer has seen
}

func (v *verbs) record() *cobra.Command {
	r := scripted{verbs: v}
	c := &cobra.Command{
		Use:   "record ID",
		Short: "Review one listing: see what is known, answer for each fact, and append the review",
		Long: `Review one listing. It shows what is known of the listing, why it is due and what changed since its latest review. Then it asks for
each fact, the outcome, the sources and a note, shows the review and appends it once you say yes. At a question Enter keeps what
stands in brackets, ? says that nobody has established it, - empties a list or a text.

For scripts there are two ways. --event takes a file with one review, as in an events file; slug, checkType, checkedAt and lastEventId
may be left out. --outcome takes the review from --facts or --set, --source, --note and --checked-at. --set changes single facts of
those that are known now, shows the difference and asks; with --yes it does not ask. Nothing else is asked.

A review that ends in verified needs all facts (unknown ones as null, "unknown" or []), at least one known fact, a source, and a source
for each country whose eligibility it states. A closed or needs-review one without facts leaves the facts as they are.

The time of the review is that at which the listing was looked at. The review is refused if anything was recorded of the listing since.`,
		Example: "  opportunity reviews record maple-scribe\n  opportunity reviews record maple-scribe --outcome closed --note \"The site says so.\"" +
			" --source https://maple-scribe.example/\n  opportunity reviews record maple-scribe --outcome verified --set remote=true --set pay=null" +
			" --source https://maple-scribe.example/jobs\n  opportunity reviews record maple-scribe --event review.json --output json",
		Args: cobra.ExactArgs(1),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"facts", "set", "note", "source", "checked-at"} {
				if cmd.Flags().Changed(flag) && r.said.Outcome == "" {
					return fmt.Errorf("--%s needs --outcome", flag)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.file == "" && r.said.Outcome == "" {
				return v.interview(cmd, args[0])
			}
			return r.run(cmd, args[0])
		},
	}
	f := c.Flags()
	f.StringVar(&r.file, "event", "", "a file with the review, or -; nothing is asked")
	flags.Choice(f, &r.said.Outcome, "outcome", "", "outcome", "verified", "closed", "needs-review")
	f.StringVar(&r.facts, "facts", "", "a file with all facts as JSON, or -")
	f.StringArrayVar(&r.set, "set", nil, "change one fact, as NAME=VALUE with a JSON value, such as remote=true or pay=null; may be given several times")
	f.StringVar(&r.said.Note, "note", "", "what else was found")
	f.StringArrayVar(&r.said.SourceURLs, "source", nil, "a page that supports it; may be given several times")
	f.StringVar(&r.said.CheckedAt, "checked-at", "", "when it was checked (RFC 3339); now if left out")
	f.BoolVar(&r.yes, "yes", false, "do not ask")
	for _, flag := range []string{"outcome", "facts", "set", "note", "source", "checked-at", "yes"} {
		c.MarkFlagsMutuallyExclusive("event", flag)
	}
	c.MarkFlagsMutuallyExclusive("facts", "set")
	return c
}

// submit judges a review by the rules of the history, and appends it if it may be recorded.
func submit(ctx context.Context, c Client, event []byte, sheet api.ReviewSheet) (result, error) {
	if r, err := judge(event, sheet); err != nil || len(r.refused) > 0 {
		return r, err
	}
	return appended(ctx, c, bytes.NewReader(event))
}

// judge returns what is wrong with a review, without sending it. Its time is that of the service's clock, which may be ahead of ours.
func judge(event []byte, sheet api.ReviewSheet) (result, error) {
	now := time.Now()
	if sheet.GeneratedAt.After(now) {
		now = sheet.GeneratedAt
	}
	file, err := eventfile.Read(bytes.NewReader(event), now, 1)
	if err != nil || len(file.Rejected) == 0 {
		return result{}, err
	}
	raw, err := json.Marshal(api.AppendReport{Rejected: file.Rejected})
	return result{refused: file.Rejected, raw: raw}, err
}

// timestamp writes the time of a review in full: cut to a second, it would be earlier than a check that the reviewer has seen.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// interview asks a reviewer about one listing and appends what they say.
func (v *verbs) interview(cmd *cobra.Command, id string) error {
	c, err := v.client()
	if err != nil {
		return err
	}
	sheet, _, err := c.Sheet(cmd.Context(), id)
	if err != nil {
		return err
	}
	then, _, err := c.Known(cmd.Context(), id, "")
	if unknown := new(Refused); errors.As(err, &unknown) && unknown.Status == 404 { // to the history, as yet
		then, err = api.HistorySnapshot{}, nil
	}
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if v.output == "json" {
		out = cmd.ErrOrStderr() // what is asked, so that the answer alone is on stdout
	}
	showSheet(out, sheet, then.Events)
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
			return &Failure{codeRejected, "nothing was changed"}
		}
		fmt.Fprintln(out, "\nRefused; your answers stand in brackets now:")
		r.explain(out)
	}
}
