package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/pkg/api"
)

// review is a review as an events file has it. Facts are kept as they were written: the history judges them, not we.
type review struct {
	Slug       string          `json:"slug"`
	CheckedAt  string          `json:"checkedAt"`
	CheckType  api.CheckType   `json:"checkType"`
	Outcome    string          `json:"outcome"`
	SourceURLs []string        `json:"sourceUrls"`
	Facts      json.RawMessage `json:"facts,omitempty"`
	Note       string          `json:"note"`
}

func (v *verbs) record() *cobra.Command {
	var file, facts string
	var said review
	c := &cobra.Command{
		Use:   "record ID",
		Short: "Review one listing: see what is known, answer for each fact, and append the review",
		Long: `Review one listing. It shows what is known of the listing, why it is due and what changed since its latest review. Then it asks for
each fact, the outcome, the sources and a note, shows the review and appends it once you say yes. At a question Enter keeps what
stands in brackets, ? says that nobody has established it, - empties a list or a text.

For scripts: --event takes a file with one review, as in an events file (slug, checkType and checkedAt may be left out); or --outcome,
with --facts, --source, --note and --checked-at. Then nothing is asked. A review without facts leaves the facts as they are.`,
		Example: "  opportunity reviews record maple-scribe\n  opportunity reviews record maple-scribe --outcome closed --note \"The site says so.\"" +
			" --source https://maple-scribe.example/\n  opportunity reviews record maple-scribe --outcome verified --facts facts.json --output json",
		Args: cobra.ExactArgs(1),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"facts", "note", "source", "checked-at"} {
				if cmd.Flags().Changed(flag) && said.Outcome == "" {
					return fmt.Errorf("--%s needs --outcome", flag)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			said.Slug, said.CheckType = args[0], api.Review
			if file == "" && said.Outcome == "" {
				return v.interview(cmd, args[0])
			}
			event, err := scripted(cmd, said, file, facts, time.Now())
			if err != nil {
				return err
			}
			return v.report(func(ctx context.Context, c Client, _ []string) (result, error) {
				return appended(ctx, c, bytes.NewReader(event))
			})(cmd, nil)
		},
	}
	f := c.Flags()
	f.StringVar(&file, "event", "", "a file with the review, or -; nothing is asked")
	f.StringVar(&said.Outcome, "outcome", "", "verified, closed or needs-review; nothing is asked")
	f.StringVar(&facts, "facts", "", "a file with the facts as JSON, or -")
	f.StringVar(&said.Note, "note", "", "what else was found")
	f.StringArrayVar(&said.SourceURLs, "source", nil, "a page that supports it; may be given several times")
	f.StringVar(&said.CheckedAt, "checked-at", "", "when it was checked (RFC 3339); now where left out")
	for _, flag := range []string{"outcome", "facts", "note", "source", "checked-at"} {
		c.MarkFlagsMutuallyExclusive("event", flag)
	}
	return c
}

// scripted is the line of an events file that the flags, or the file that they name, make.
func scripted(cmd *cobra.Command, said review, file, facts string, now time.Time) ([]byte, error) {
	if file != "" {
		return fromFile(cmd, file, said.Slug, now)
	}
	if said.CheckedAt == "" {
		said.CheckedAt = now.UTC().Format(time.RFC3339)
	}
	if said.SourceURLs == nil {
		said.SourceURLs = []string{}
	}
	if facts != "" {
		text, err := object(cmd, facts)
		if err != nil {
			return nil, err
		}
		said.Facts = text
	}
	return json.Marshal(said)
}

// fromFile reads a review, of which what goes without saying may be left out.
func fromFile(cmd *cobra.Command, file, slug string, now time.Time) ([]byte, error) {
	text, err := object(cmd, file)
	if err != nil {
		return nil, err
	}
	var has map[string]json.RawMessage
	if err := json.Unmarshal(text, &has); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var add []string
	for name, value := range map[string]string{"slug": slug, "checkType": string(api.Review), "checkedAt": now.UTC().Format(time.RFC3339)} {
		given, is := has[name]
		want, _ := json.Marshal(value) // a string
		switch {
		case !is:
			add = append(add, fmt.Sprintf("%q:%s", name, want))
		case name != "checkedAt" && !bytes.Equal(given, want):
			return nil, fmt.Errorf("%s: %s must be %s, or left out", file, name, want)
		}
	}
	if len(add) == 0 {
		return text, nil
	}
	if len(has) > 0 {
		add = append(add, "")
	}
	// Put in front of the text as it is: decoded and encoded anew, a name that stands there twice would pass unseen.
	return append([]byte("{"+strings.Join(add, ",")), bytes.TrimPrefix(text, []byte("{"))...), nil
}

// object reads a file with one JSON object and puts it on one line.
func object(cmd *cobra.Command, file string) ([]byte, error) {
	in, closed, err := input(cmd, file)
	if err != nil {
		return nil, err
	}
	defer closed()
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if line.Len() == 0 || line.Bytes()[0] != '{' {
		return nil, fmt.Errorf("%s: must hold one JSON object", file)
	}
	return line.Bytes(), nil
}

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
		then, err = api.KnownThen{}, nil
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
		event, err := q.event(id, time.Now())
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
		r, err := appended(cmd.Context(), c, bytes.NewReader(event))
		if err != nil {
			return err
		}
		if r.applied {
			v.print(cmd.OutOrStdout(), r.raw, func(out io.Writer) { fmt.Fprintln(out, r.text) })
			return nil
		}
		fmt.Fprintln(out, "\nRefused; your answers stand in brackets now:")
		r.explain(out)
	}
}
