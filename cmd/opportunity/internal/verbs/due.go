package verbs

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

func (v *verbs) reviews() *cobra.Command {
	c := &cobra.Command{Use: "reviews", Short: "See what is due for a factual review, and record reviews"}
	c.AddCommand(v.due(), v.record())
	return c
}

func (v *verbs) due() *cobra.Command {
	var within time.Duration
	var output string
	c := &cobra.Command{
		Use:   "due",
		Short: "List published listings that are not verified, and why, oldest first",
		Long: `List published listings that are not verified, or stop being verified within the given
time, with each reason and its date: never reviewed, stale, a review or link check that casts doubt
on the facts, or a change of a reviewed field. The longest due come first.`,
		Example: "  opportunity reviews due --within 7d\n  opportunity reviews due --output csv > due.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if within > 0 {
				query.Set("within", within.String())
			}
			list, raw, err := call(cmd, v, adminapi.ListDue, adminapi.Input{Query: query})
			if err != nil {
				return err
			}
			out := Printable(cmd.OutOrStdout())
			switch output {
			case "json":
				_, err = fmt.Fprintf(out, "%s\n", raw)
			case "csv":
				err = dueCSV(out, list)
			default:
				dueTable(out, list)
			}
			return err
		},
	}
	flags.Duration(c.Flags(), &within, "within", "also list listings that turn stale within this time, such as 7d or 36h")
	flags.Choice(c.Flags(), &output, "output", "table", "output format", "table", "text", "csv", "json")
	return c
}

func dueTable(out io.Writer, list api.DueList) {
	table(out, "DUE\tID\tCATEGORY\tSTATUS\tWHY", func(row func(...any)) {
		for _, r := range list.Records {
			due := "-"
			if !r.DueAt.IsZero() {
				due = formatTime(r.DueAt)
			}
			row(due, r.ID, r.Category, r.Status, reasons(r.Reasons))
		}
	})
	fmt.Fprintf(out, "%d due\n", len(list.Records))
}

func dueCSV(out io.Writer, list api.DueList) error {
	head := []string{"due_at", "id", "company", "category", "status", "last_checked_at", "why"}
	return WriteCSV(out, head, func(row func(...string)) {
		for _, r := range list.Records {
			due := ""
			if !r.DueAt.IsZero() {
				due = rfc3339(&r.DueAt)
			}
			row(due, r.ID, r.Company, string(r.Category), string(r.Status), rfc3339(r.LastCheckedAt), reasons(r.Reasons))
		}
	})
}

func reasons(all []api.DueReason) string {
	words := make([]string, len(all))
	for i, r := range all {
		words[i] = DescribeReason(r, func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") })
	}
	return strings.Join(words, "; ")
}

// DescribeReason describes why a record is due. instant formats its times.
func DescribeReason(r api.DueReason, instant func(time.Time) string) string {
	shown := r.At
	if r.Why == api.DueClosed { // due a while after the review
		shown = shown.Add(-api.FreshnessWindow)
	}
	at := instant(shown)
	text := ""
	switch r.Why {
	case api.DueNeverReviewed:
		if r.At.IsZero() {
			return "never reviewed"
		}
		return "never reviewed, published " + at
	case api.DueStale:
		return "stale after " + at
	case api.DueReview:
		text = fmt.Sprintf("review of %s: %s", at, r.Outcome)
	case api.DueClosed:
		text = "found closed " + at
	case api.DueLinkCheck:
		text = fmt.Sprintf("link check of %s: %s", at, r.Outcome)
	case api.DueEdit:
		text = fmt.Sprintf("changed %s: %s", at, strings.Join(r.Fields, ", "))
		if r.Actor != "" {
			text += " by " + r.Actor
		}
		return text
	default:
		text = r.Why + " " + at
	}
	if r.Note != "" {
		text += " (" + strings.Join(strings.Fields(r.Note), " ") + ")"
	}
	return text
}
