package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/pkg/api"
)

// scripted is a review that flags describe, or a file that they name.
type scripted struct {
	*verbs

	given review
	file  string   // file with the whole review
	facts string   // file with the facts
	set   []string // changes of single facts
	yes   bool
}

func (s scripted) run(cmd *cobra.Command, id string) error {
	return s.report(func(ctx context.Context, c operator.Client, _ []string) (result, error) {
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
			return r, err
		}
		if len(s.set) > 0 {
			if err := s.confirmChanges(cmd, sheet, event); err != nil {
				return result{}, err
			}
		}
		return submit(ctx, c, event, sheet)
	})(cmd, []string{id})
}

// event returns the review, from the flags or from the --event file, as a line of an events file.
func (s scripted) event(cmd *cobra.Command, sheet api.ReviewSheet) ([]byte, error) {
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
	return json.Marshal(s.given)
}

// confirmChanges prints the facts that the review changes and, without --yes, asks for confirmation.
func (s scripted) confirmChanges(cmd *cobra.Command, sheet api.ReviewSheet, event []byte) error {
	var given struct{ Facts api.Facts }
	if err := json.Unmarshal(event, &given); err != nil {
		return err
	}
	var text strings.Builder
	before, after := factsByName(sheet.CurrentFacts()), factsByName(given.Facts)
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

// changed returns all facts as JSON after changes of the form NAME=VALUE. A value that is no JSON is a text.
func changed(facts api.Facts, changes []string) ([]byte, error) {
	all := factsByName(facts)
	for _, change := range changes {
		name, value, ok := strings.Cut(change, "=")
		if _, known := all[name]; !ok || !known {
			return nil, fmt.Errorf("invalid --set %q: use NAME=VALUE, where NAME is one of %s", change, strings.Join(api.FactNames, ", "))
		}
		if !json.Valid([]byte(value)) {
			text, _ := json.Marshal(value) // a string
			value = string(text)
		}
		all[name] = json.RawMessage(value)
	}
	return json.Marshal(all)
}

// fromFile reads a review. What it leaves out of slug, checkType, checkedAt and lastEventId is that of the sheet.
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
	// Put in front of the text as it is: decoded and encoded again, a name that stands there twice would pass unseen.
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
