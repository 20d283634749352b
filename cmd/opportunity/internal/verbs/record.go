package verbs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/jsonlines"
)

func (v *verbs) record() *cobra.Command {
	r := submission{verbs: v}
	c := &cobra.Command{
		Use:   "record ID --outcome OUTCOME | --event FILE",
		Short: "Append the review of a listing, from flags or a file",
		Long: `Append the review of a listing. The curation desk shows a listing with its sources and asks
for each fact: see "opportunity desk".

  --event reads one review from a file, as in an events file. You may leave out slug, checkType,
  checkedAt and lastEventId.
  --outcome builds the review from --facts or --set, --source, --note and --checked-at. --set changes
  single facts of the known ones, shows the difference and asks for confirmation; add --yes to skip
  the question. Facts that stay keep their quotes from these pages.

  --closed says why a programme is closed: paused, or ended permanently, which also proposes to
  withdraw a published listing.

One unchanged review in ten, chosen at random, is accepted only after you opened a source from the
listing's sheet on the desk, signed in as the same person. The same command is accepted then.

A verified review needs all facts (unknown ones as null, "unknown" or []), at least one known fact,
a source, and a source for each country whose eligibility it states. A closed or needs-review one
without facts does not change the facts.

The review's time is when the command read the listing, unless you set it. The review is rejected if
another event was recorded for the listing since then.`,
		Example: `  opportunity reviews record maple-scribe --outcome closed --closed ended --source https://maple-scribe.example/
  opportunity reviews record maple-scribe --outcome verified --set pay=null --source https://maple-scribe.example/jobs
  opportunity reviews record maple-scribe --event review.json --output json`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if r.file == "" && r.given.Outcome == "" {
				return errors.New("missing --outcome or --event: to review a listing fact by fact, use the curation desk")
			}
			for _, flag := range []string{"outcome", "closed", "facts", "set", "note", "source", "checked-at", "yes"} {
				if r.file != "" && cmd.Flags().Changed(flag) {
					return fmt.Errorf("--event and --%s cannot be used together", flag)
				}
			}
			if r.facts != "" && len(r.set) > 0 {
				return errors.New("--facts and --set cannot be used together")
			}
			if r.closed != "" && r.given.Outcome != api.OutcomeClosed {
				return flags.Usage("--closed %s needs --outcome closed", r.closed)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	f := c.Flags()
	f.StringVar(&r.file, "event", "", "file with one review, or - for standard input")
	flags.Choice(f, &r.given.Outcome, "outcome", "", "outcome", "verified", "closed", "needs-review")
	flags.Choice(f, &r.closed, "closed", "", "why the programme is closed", api.ClosedPaused, api.ClosedEnded)
	f.StringVar(&r.facts, "facts", "", "file with all facts as JSON, or - for standard input")
	f.StringArrayVar(&r.set, "set", nil,
		"change one fact: NAME=VALUE with a JSON value, such as remote=true or pay=null; repeatable")
	f.StringVar(&r.given.Note, "note", "", "note of the review")
	f.StringArrayVar(&r.given.SourceURLs, "source", nil, "URL of a page that supports the review; repeatable")
	f.TimeVar(&r.given.CheckedAt, "checked-at", time.Time{}, []string{time.RFC3339Nano},
		"time of the review (RFC 3339, default now)")
	f.BoolVar(&r.yes, "yes", false, "skip the confirmation")
	return c
}

// submission is a review from flags, or from a file that they name.
type submission struct {
	*verbs

	given api.Review
	file  string   // file with the whole review
	facts string   // file with the facts
	set   []string // changes of single facts
	yes   bool

	closed string // reason of an outcome of closed; empty if not given
}

func (s submission) run(cmd *cobra.Command, id string) error {
	return s.report(func(cmd *cobra.Command, _ []string) (result, error) {
		sheet, _, err := call(cmd, s.verbs, adminapi.GetSheet, adminapi.Input{ID: id})
		if err != nil {
			return result{}, err
		}
		problems, err := s.read(cmd, id, sheet)
		if err != nil {
			return result{}, err
		}
		if len(problems) == 0 {
			// Times up to the service's clock are valid, which may be ahead of the local one.
			_, problems = eventfile.Check(s.given, slices.MaxFunc([]time.Time{time.Now(), sheet.GeneratedAt}, time.Time.Compare))
		}
		if len(problems) > 0 {
			rejected := []api.RejectedLine{{Line: 1, ID: id, Problems: problems}}
			raw, err := json.Marshal(api.AppendReport{Rejected: rejected})
			return result{rejected: rejected, raw: raw}, err
		}
		if len(s.set) > 0 {
			if err := s.confirmChanges(cmd, sheet); err != nil {
				return result{}, err
			}
		}
		r, raw, err := call(cmd, s.verbs, adminapi.SubmitReview,
			adminapi.Input{ID: id, Body: api.ReviewSubmission{Review: s.given}})
		return appended(r.AppendReport, raw), err
	})(cmd, []string{id})
}

// read completes the given review of the listing with the id from the files and the sheet.
func (s *submission) read(cmd *cobra.Command, id string, sheet api.ReviewSheet) (problems api.Problems, err error) {
	text := []byte("{}")
	switch {
	case s.file != "":
		text, err = object(cmd, s.file)
	case s.facts != "":
		text, err = object(cmd, s.facts)
		text = []byte(`{"facts":` + string(text) + "}")
	case len(s.set) > 0:
		text, err = changed(sheet.CurrentFacts(), s.set)
	}
	if err != nil {
		return nil, err
	}
	if problems = jsonlines.Decode(text, &s.given); len(problems) == 0 {
		problems = s.given.For(id)
	}
	if s.given.CheckedAt.IsZero() {
		s.given.CheckedAt = sheet.GeneratedAt
	}
	if s.given.LastEventID == nil {
		s.given.LastEventID = &sheet.LastEventID
	}
	if s.given.SourceURLs == nil {
		s.given.SourceURLs = []string{}
	}
	if s.file != "" {
		return problems, nil
	}
	kept := []api.Quote{}
	if s.given.Facts != nil {
		kept = append(kept, s.keptQuotes(s.given.Facts.Facts, sheet)...)
	}
	if len(kept) > 0 || s.closed != "" {
		s.given.Evidence = &api.GivenEvidence{Quotes: kept, Gone: []string{}, Unopened: []string{}, Closed: s.closed}
	}
	return problems, nil
}

// keptQuotes returns the stored quotes of the facts that the review keeps, from the pages that it
// used.
func (s *submission) keptQuotes(facts api.Facts, sheet api.ReviewSheet) []api.Quote {
	changed := forms.Differences(sheet.CurrentFacts(), facts)
	used := append(facts.Cites(api.FactNames...), s.given.SourceURLs...)
	return slices.DeleteFunc(sheet.CurrentQuotes(), func(q api.Quote) bool {
		return !facts.Knows(q.Fact) || slices.Contains(changed, q.Fact) || !slices.Contains(used, q.SourceURL)
	})
}

// confirmChanges prints the facts that the review changes and, without --yes, asks for
// confirmation.
func (s *submission) confirmChanges(cmd *cobra.Command, sheet api.ReviewSheet) error {
	changes := forms.Changes(sheet.CurrentFacts(), s.given.Facts.Facts)
	text := cmp.Or(strings.Join(changes, "\n"), "no fact changes") + "\n"
	if s.yes {
		_, err := io.WriteString(cmd.ErrOrStderr(), text)
		return err
	}
	return confirm(cmd.InOrStdin(), cmd.ErrOrStderr(),
		text+"The review will be appended, and can only be corrected by a later one.")
}

// changed returns a review with all facts as JSON after changes of the form NAME=VALUE. A value
// that is no JSON is a text.
func changed(facts api.Facts, changes []string) ([]byte, error) {
	all := forms.Values(facts)
	for _, change := range changes {
		name, value, ok := strings.Cut(change, "=")
		if _, known := all[name]; !ok || !known {
			return nil, flags.Usage("invalid --set %q: use NAME=VALUE, where NAME is one of %s", change,
				strings.Join(api.FactNames, ", "))
		}
		if !json.Valid([]byte(value)) {
			text, _ := json.Marshal(value) // a string
			value = string(text)
		}
		all[name] = json.RawMessage(value)
	}
	return json.Marshal(map[string]any{"facts": all})
}

// object reads a file with one JSON object and puts it on one line.
func object(cmd *cobra.Command, file string) ([]byte, error) {
	text, err := readFile(cmd, file)
	if err != nil {
		return nil, fmt.Errorf("%w: give a file that holds the JSON object, or - for standard input", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return nil, fmt.Errorf("%s: must hold one JSON object: %w", file, err)
	}
	if !bytes.HasPrefix(line.Bytes(), []byte("{")) {
		return nil, fmt.Errorf("%s: must hold one JSON object", file)
	}
	return line.Bytes(), nil
}
