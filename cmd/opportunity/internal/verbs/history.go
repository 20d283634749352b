package verbs

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
)

func (v *verbs) history() *cobra.Command {
	c := &cobra.Command{Use: "history", Short: "Show what was known about a listing, and prove that it is unchanged"}
	var at string
	showAt := &cobra.Command{
		Use:   "show ID",
		Short: "Show facts, status and evidence of a listing at a given time, private listings included",
		Long: `Show facts, status and evidence of a listing as they were known at a given time.

Only events that had been recorded by then count, whatever time they were checked at. The status is
derived from events alone: edits of the listing, which also put a review in doubt, are not part of
the history. --at takes a UTC day, which means its end, or a time. The default is now.`,
		Example: "  opportunity history show maple-scribe --at 2026-11-20\n  opportunity history show maple-scribe --at " +
			"2026-11-20T09:30:00Z --output json",
		RunE: show(v, adminapi.GetHistory, func(args []string) adminapi.Input {
			return adminapi.Input{ID: args[0], Query: adminapi.Query("at", at)}
		}, showHistory),
	}
	showAt.Flags().StringVar(&at, "at", "",
		"UTC day such as 2026-11-20, or time such as 2026-11-20T09:30:00Z (default now)")
	c.AddCommand(showAt, v.verify(), v.prove(), v.verifyEvent())
	return c
}

func showHistory(out io.Writer, then api.HistorySnapshot) {
	s := then.Verification
	fmt.Fprintf(out, "%s, as known at %s\n\n", then.Slug, then.At.Format(time.RFC3339))
	fmt.Fprintf(out, "status         %s\n", s.Status)
	fmt.Fprintf(out, "last reviewed  %s\n", formatOptionalTime(s.LastCheckedAt))
	if s.FreshUntil != nil {
		fmt.Fprintf(out, "fresh until    %s\n", formatOptionalTime(s.FreshUntil))
	}
	fmt.Fprintf(out, "reviews        %d, of which %d changed facts\n", s.ReviewCount, s.ChangeCount)
	if l := s.ApplicationLink; l != nil {
		fmt.Fprintf(out, "link           %s, %s\n", l.Outcome, formatOptionalTime(&l.CheckedAt))
	}
	fmt.Fprintln(out, "\nFacts")
	writeFacts(out, then.Facts)
	fmt.Fprintln(out, "\nEvidence, newest check first")
	if len(then.Events) == 0 {
		fmt.Fprintln(out, "  none had been recorded")
	}
	for _, e := range then.Events {
		fmt.Fprintf(out, "  %s  %s: %s\n", formatOptionalTime(&e.CheckedAt), e.CheckType, e.Outcome)
		fmt.Fprintf(out, "    recorded %s by %s, event %s\n", formatOptionalTime(&e.RecordedAt), e.Actor, e.ID)
		for _, u := range e.SourceURLs {
			fmt.Fprintf(out, "    %s\n", u)
		}
		if e.Note != "" {
			fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(e.Note, "\n", "\n    "))
		}
	}
}

// writeFacts prints each known fact, then the names of the unknown ones.
func writeFacts(out io.Writer, f *api.Facts) {
	if f == nil {
		fmt.Fprintln(out, "  no review had recorded any")
		return
	}
	var unknown []string
	for _, fact := range forms.Facts {
		name, lines := strings.ToLower(fact.Label), forms.Describe(*f, fact.Name)
		if len(lines) == 0 {
			unknown = append(unknown, name)
		}
		for _, line := range lines {
			fmt.Fprintf(out, "  %-21s  %s\n", name, line)
		}
	}
	if len(unknown) > 0 {
		fmt.Fprintf(out, "  %-21s  %s\n", "unknown", strings.Join(unknown, ", "))
	}
}
