package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/reviewform"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
)

// review is a review in an events file. Facts stay raw JSON, so that the rules of events files
// check them as written.
type review struct {
	Slug       string          `json:"slug"`
	CheckedAt  string          `json:"checkedAt"`
	CheckType  api.CheckType   `json:"checkType"`
	Outcome    string          `json:"outcome"`
	SourceURLs []string        `json:"sourceUrls"`
	Facts      json.RawMessage `json:"facts,omitempty"`
	Note       string          `json:"note"`

	LastEventID string `json:"lastEventId"` // id of the newest event that the reviewer has seen

	Evidence *api.Evidence `json:"evidence,omitempty"`
}

func (v *verbs) record() *cobra.Command {
	r := submission{verbs: v}
	c := &cobra.Command{
		Use:   "record ID --outcome OUTCOME | --event FILE",
		Short: "Append the review of a listing, from flags or a file",
		Long: `Append the review of a listing. The curation desk shows a listing with its sources and asks for each fact: see "opportunity desk".

  --event reads one review from a file, as in an events file. You may leave out slug, checkType, checkedAt and lastEventId.
  --outcome builds the review from --facts or --set, --source, --note and --checked-at. --set changes single facts of the known ones,
  shows the difference and asks for confirmation; add --yes to skip the question. Facts that stay keep their quotes from these pages.

A verified review needs all facts (unknown ones as null, "unknown" or []), at least one known fact, a source, and a source for each
country whose eligibility it states. A closed or needs-review one without facts does not change the facts.

The review's time is when the command read the listing, unless you set it. The review is rejected if another event was recorded for the
listing since then.`,
		Example: "  opportunity reviews record maple-scribe --outcome closed --note \"The site says so.\"" +
			" --source https://maple-scribe.example/\n  opportunity reviews record maple-scribe --outcome verified --set remote=true --set pay=null" +
			" --source https://maple-scribe.example/jobs\n  opportunity reviews record maple-scribe --event review.json --output json",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if r.file == "" && r.given.Outcome == "" {
				return errors.New("missing --outcome or --event: to review a listing fact by fact, use the curation desk")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
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

// submission is a review from flags, or from a file that they name.
type submission struct {
	*verbs

	given review
	file  string   // file with the whole review
	facts string   // file with the facts
	set   []string // changes of single facts
	yes   bool
}

func (s submission) run(cmd *cobra.Command, id string) error {
	return s.report(func(ctx context.Context, c adminapi.Client, _ []string) (result, error) {
		sheet, _, err := c.Sheet(ctx, id)
		if err != nil {
			return result{}, err
		}
		s.given.Slug, s.given.CheckType, s.given.LastEventID = id, api.Review, sheet.LastEventID
		event, err := s.event(cmd, sheet)
		if err != nil {
			return result{}, err
		}
		if r, err := validate(event, sheet); err != nil || len(r.rejected) > 0 {
			r.usage = s.file == "" && s.facts == ""
			return r, err
		}
		if len(s.set) > 0 {
			if err := s.confirmChanges(cmd, sheet, event); err != nil {
				return result{}, err
			}
		}
		r, raw, err := c.Review(ctx, id, api.ReviewSubmission{Review: event})
		text := fmt.Sprintf("appended %d, duplicates %d", r.Appended, r.Duplicates)
		return result{applied: r.Applied, rejected: r.Rejected, omitted: r.Omitted, newer: r.Newer, raw: raw, text: text}, err
	})(cmd, []string{id})
}

// event returns the review, from the flags or from the --event file, as a line of an events file.
func (s submission) event(cmd *cobra.Command, sheet api.ReviewSheet) ([]byte, error) {
	if s.file != "" {
		return fromFile(cmd, s.file, s.given.Slug, sheet)
	}
	if s.given.CheckedAt == "" {
		s.given.CheckedAt = timestamp(sheet.GeneratedAt)
	}
	if s.given.SourceURLs == nil {
		s.given.SourceURLs = []string{}
	}
	var err error
	switch {
	case s.facts != "":
		s.given.Facts, err = object(cmd, s.facts)
	case len(s.set) > 0:
		s.given.Facts, err = changed(sheet.CurrentFacts(), s.set)
	}
	if err != nil {
		return nil, err
	}
	s.given.Evidence = s.keptQuotes(sheet)
	return json.Marshal(s.given)
}

// keptQuotes returns the stored quotes of the facts that the review keeps, from the pages that it
// used, or nil if there are none.
func (s submission) keptQuotes(sheet api.ReviewSheet) *api.Evidence {
	var facts api.Facts
	if s.given.Facts == nil || json.Unmarshal(s.given.Facts, &facts) != nil { // the rules of events files name the mistake
		return nil
	}
	var kept api.Evidence
	changed, used := reviewform.Differences(sheet.CurrentFacts(), facts), append(facts.Cites(api.FactNames...), s.given.SourceURLs...)
	for _, q := range sheet.CurrentQuotes() {
		if facts.Knows(q.Fact) && !slices.Contains(changed, q.Fact) && slices.Contains(used, q.SourceURL) {
			kept.Quotes = append(kept.Quotes, q)
		}
	}
	if kept.Empty() {
		return nil
	}
	kept.Complete()
	return &kept
}

// confirmChanges prints the facts that the review changes and, without --yes, asks for
// confirmation.
func (s submission) confirmChanges(cmd *cobra.Command, sheet api.ReviewSheet, event []byte) error {
	var given struct{ Facts api.Facts }
	if err := json.Unmarshal(event, &given); err != nil {
		return err
	}
	var text strings.Builder
	before, after := reviewform.Values(sheet.CurrentFacts()), reviewform.Values(given.Facts)
	for _, name := range api.FactNames {
		if !bytes.Equal(before[name], after[name]) {
			fmt.Fprintf(&text, "%s: %s -> %s\n", name, compact(before[name]), compact(after[name]))
		}
	}
	if text.Len() == 0 {
		text.WriteString("no fact changes\n")
	}
	if s.yes {
		_, err := io.WriteString(cmd.ErrOrStderr(), text.String())
		return err
	}
	return confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), text.String()+"The review will be appended, and can only be corrected by a later one.")
}

// changed returns all facts as JSON after changes of the form NAME=VALUE. A value that is no JSON
// is a text.
func changed(facts api.Facts, changes []string) ([]byte, error) {
	all := reviewform.Values(facts)
	for _, change := range changes {
		name, value, ok := strings.Cut(change, "=")
		if _, known := all[name]; !ok || !known {
			return nil, flags.Usage("invalid --set %q: use NAME=VALUE, where NAME is one of %s", change, strings.Join(api.FactNames, ", "))
		}
		if !json.Valid([]byte(value)) {
			text, _ := json.Marshal(value) // a string
			value = string(text)
		}
		all[name] = json.RawMessage(value)
	}
	return json.Marshal(all)
}

// fromFile reads a review. What it leaves out of slug, checkType, checkedAt and lastEventId is that
// of the sheet.
func fromFile(cmd *cobra.Command, file, slug string, sheet api.ReviewSheet) ([]byte, error) {
	text, err := object(cmd, file)
	if err != nil {
		return nil, err
	}
	var has map[string]json.RawMessage
	if err := json.Unmarshal(text, &has); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var add []string
	for name, value := range map[string]string{
		"slug": slug, "checkType": string(api.Review), "checkedAt": timestamp(sheet.GeneratedAt), "lastEventId": sheet.LastEventID,
	} {
		given, is := has[name]
		want, _ := json.Marshal(value) // a string
		switch {
		case !is:
			add = append(add, fmt.Sprintf("%q:%s", name, want))
		case (name == "slug" || name == "checkType") && !bytes.Equal(given, want):
			return nil, fmt.Errorf("%s: %s must be %s, or left out", file, name, want)
		}
	}
	if len(add) == 0 {
		return text, nil
	}
	if len(has) > 0 {
		add = append(add, "")
	}
	// Put in front of the text as it is: decoded and encoded again, a name that stands there twice
	// would pass unseen.
	return append([]byte("{"+strings.Join(add, ",")), bytes.TrimPrefix(text, []byte("{"))...), nil
}

// object reads a file with one JSON object and puts it on one line.
func object(cmd *cobra.Command, file string) ([]byte, error) {
	in, closed, err := input(cmd, file)
	if err != nil {
		return nil, fmt.Errorf("%w: give a file that holds the JSON object, or - for standard input", err)
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

// validate validates a review without sending it. It accepts times up to the service's clock, which
// may be ahead of the local one.
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

// timestamp formats the time of a review with full precision. Rounded down to a second, the review
// could predate a check that the reviewer has seen.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
