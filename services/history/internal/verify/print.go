package verify

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the report as text: the totals, then one line for each finding.
func (r Report) Print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d events of %d listings; ", r.Events, r.Listings)
	if r.Checkpoints == 0 {
		b.WriteString("not covered by a valid checkpoint\n")
	} else {
		fmt.Fprintf(&b, "valid checkpoints: %d, the newest covers the first %d events\n", r.Checkpoints, r.Logged)
	}
	if r.Fits {
		b.WriteString("everything matches\n")
	}
	for i, f := range r.Findings {
		if i == 0 {
			b.WriteString("mismatches in sequence order:\n")
		}
		fmt.Fprintf(&b, "  %s", f.Kind)
		if f.Sequence != 0 {
			fmt.Fprintf(&b, ", sequence %d", f.Sequence)
		}
		if f.Slug != "" {
			fmt.Fprintf(&b, ", listing %s", f.Slug)
		}
		if f.ID != "" {
			fmt.Fprintf(&b, ", event %s", f.ID)
		}
		fmt.Fprintf(&b, ": %s\n", f.Message)
	}
	if r.Omitted > 0 {
		fmt.Fprintf(&b, "  and %d more\n", r.Omitted)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
