package verbs

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/pkg/api"
)

func (v *verbs) history() *cobra.Command {
	c := &cobra.Command{Use: "history", Short: "Show what was known about a listing, and prove that nobody changed it"}
	var at string
	show := &cobra.Command{
		Use:   "show ID",
		Short: "Show facts, status and evidence of a listing at a given time, private listings included",
		Long: `Show facts, status and evidence of a listing as they were known at a given time.

Only events that had been recorded by then count, whatever time they were checked at. The status is derived from events alone: edits
of the listing, which also put a review in doubt, are not part of the history. --at takes a UTC day, which means its end, or a time.
The default is now.`,
		Example: "  opportunity history show maple-scribe --at 2026-11-20\n  opportunity history show maple-scribe --at 2026-11-20T09:30:00Z --output json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			then, raw, err := c.Known(cmd.Context(), args[0], at)
			if err != nil {
				return err
			}
			v.print(cmd.OutOrStdout(), raw, func(out io.Writer) { describe(out, then) })
			return nil
		},
	}
	show.Flags().StringVar(&at, "at", "", "UTC day such as 2026-11-20, or time such as 2026-11-20T09:30:00Z (default now)")
	c.AddCommand(show, v.verify(), v.exportHistory())
	return c
}

// describe prints the status, the facts and the evidence as text.
func describe(out io.Writer, then api.HistorySnapshot) {
	minute := func(t *time.Time) string {
		if t == nil {
			return "never"
		}
		return t.UTC().Format("2006-01-02 15:04 UTC")
	}
	s := then.Verification
	fmt.Fprintf(out, "%s, as known at %s\n\n", then.Slug, then.At.Format(time.RFC3339))
	fmt.Fprintf(out, "status         %s\n", s.Status)
	fmt.Fprintf(out, "last reviewed  %s\n", minute(s.LastCheckedAt))
	if s.FreshUntil != nil {
		fmt.Fprintf(out, "fresh until    %s\n", minute(s.FreshUntil))
	}
	fmt.Fprintf(out, "reviews        %d, of which %d changed facts\n", s.ReviewCount, s.ChangeCount)
	if l := s.ApplicationLink; l != nil {
		fmt.Fprintf(out, "link           %s, %s\n", l.Outcome, minute(&l.CheckedAt))
	}
	fmt.Fprintln(out, "\nFacts")
	writeFacts(out, then.Facts)
	fmt.Fprintln(out, "\nEvidence, newest check first")
	if len(then.Events) == 0 {
		fmt.Fprintln(out, "  none had been recorded")
	}
	for _, e := range then.Events {
		fmt.Fprintf(out, "  %s  %s: %s\n", minute(&e.CheckedAt), e.CheckType, e.Outcome)
		fmt.Fprintf(out, "    recorded %s by %s, event %s\n", minute(&e.RecordedAt), e.Actor, e.ID)
		for _, u := range e.SourceURLs {
			fmt.Fprintf(out, "    %s\n", u)
		}
		if e.Note != "" {
			fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(e.Note, "\n", "\n    "))
		}
	}
}

// writeFacts prints each known fact on a line, then the names of the unknown ones.
func writeFacts(out io.Writer, f *api.Facts) {
	if f == nil {
		fmt.Fprintln(out, "  no review had recorded any")
		return
	}
	var unknown []string
	known := func(name, value string) {
		if value == "" {
			unknown = append(unknown, name)
			return
		}
		fmt.Fprintf(out, "  %-19s %s\n", name, value)
	}
	for _, c := range f.CountryEligibility {
		known("eligibility "+c.Country, eligibility(c))
	}
	if len(f.CountryEligibility) == 0 {
		known("eligibility", "")
	}
	for _, b := range api.BoolFacts {
		known(strings.ToLower(b.Label), yesNo(*b.Value(f)))
	}
	pay := ""
	if f.Pay != nil {
		pay = fmt.Sprintf("%v to %v %s per %s", f.Pay.Minimum, f.Pay.Maximum, f.Pay.Currency, f.Pay.Unit)
	}
	known("pay", pay)
	known("languages", strings.Join(f.Languages, ", "))
	status := string(f.ApplicationStatus)
	if f.ApplicationStatus == api.ApplicationUnknown {
		status = ""
	}
	known("applications", status)
	if f.ApplicationURL != nil {
		known("apply at", *f.ApplicationURL)
	}
	for _, r := range f.Requirements {
		known("requirement", r)
	}
	for _, r := range f.RiskIndicators {
		known("risk indicator", strings.TrimSpace(r.Code+" "+r.Note))
	}
	if len(unknown) > 0 {
		fmt.Fprintf(out, "  %-19s %s\n", "unknown", strings.Join(unknown, ", "))
	}
}

func eligibility(c api.CountryEligibility) string {
	parts := []string{cmp.Or(string(c.Status), string(api.EligibilityUnknown))}
	if c.AllRegions != nil && *c.AllRegions {
		parts = append(parts, "all regions")
	}
	if len(c.IncludedRegions) > 0 {
		parts = append(parts, "in "+strings.Join(c.IncludedRegions, " "))
	}
	if len(c.ExcludedRegions) > 0 {
		parts = append(parts, "not in "+strings.Join(c.ExcludedRegions, " "))
	}
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	return strings.Join(parts, ", ")
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return "yes"
	}
	return "no"
}
