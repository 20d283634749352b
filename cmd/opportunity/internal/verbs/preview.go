package verbs

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// showPreview prints what an import would do: a line for each listing and each of its changed
// fields, then the totals.
func showPreview(out io.Writer, p api.ImportReport) {
	for _, c := range p.Changes {
		sign := "~"
		if c.Change == api.ListingCreated {
			sign = "+"
		}
		fmt.Fprintf(out, "%s %s", sign, c.ID)
		if c.Published {
			fmt.Fprint(out, "  published")
		}
		if c.Withdrawn {
			fmt.Fprint(out, "  withdrawn")
		}
		if c.NeedsReview {
			fmt.Fprint(out, "  turns needs-review")
		}
		fmt.Fprintln(out)
		for _, f := range c.Fields {
			fmt.Fprintf(out, "    %s: %s -> %s\n", f.Field, compact(f.Old), compact(f.New))
		}
	}
	if p.Unlisted > 0 {
		fmt.Fprintf(out, "and %d more listings\n", p.Unlisted)
	}
	fmt.Fprintf(out, "would create %d, update %d, leave %d unchanged; publish %d; turn %d needs-review\n",
		p.Created, p.Updated, p.Unchanged, p.Published, p.NeedsReview)
	if p.Published > 0 {
		fmt.Fprintf(out, "of those to publish, %d never reviewed\n", p.NeverReviewed)
	}
	if p.Withdrawn > 0 {
		fmt.Fprintf(out, "would withdraw %d\n", p.Withdrawn)
	}
	if text := stillWithdrawn(p.KeptWithdrawn); text != "" {
		fmt.Fprintln(out, strings.TrimPrefix(text, "\n"))
	}
	fmt.Fprintln(out, "nothing was changed")
}

// maxValue bounds the characters of a value in text output; --output json has them all.
const maxValue = 70

func compact(value []byte) string {
	text := string(value)
	if utf8.RuneCountInString(text) <= maxValue {
		return text
	}
	return string([]rune(text)[:maxValue-3]) + "..."
}
