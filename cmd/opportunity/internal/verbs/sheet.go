package verbs

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
)

// lastEvents bounds the events on a review sheet.
const lastEvents = 5

// showSheet prints the facts, sources, changes and latest events of a listing for the reviewer.
func showSheet(out io.Writer, s api.ReviewSheet) {
	r := s.Record
	fmt.Fprintf(out, "%s: %s, %s, %s, %s\n", r.ID, r.Company.Name, r.Category, s.Visibility, s.Status)
	fmt.Fprintf(out, "  %s\n  apply at %s\n", r.Company.Website, r.ApplicationURL)
	for _, why := range s.Reasons {
		fmt.Fprintf(out, "  due: %s\n", DescribeReason(why))
	}
	fmt.Fprintln(out, "\nFacts, as consumers see them")
	writeFacts(out, &r.Facts)
	fmt.Fprintln(out, "\nSources")
	if len(r.Sources) == 0 {
		fmt.Fprintln(out, "  none")
	}
	for _, source := range r.Sources {
		checked := ""
		if source.CheckedAt != nil {
			checked = ", checked " + string(*source.CheckedAt)
		}
		fmt.Fprintf(out, "  %s%s\n", source.URL, checked)
	}
	fmt.Fprintln(out, "\nChanged since the latest review")
	for _, e := range s.Edits {
		fmt.Fprintf(out, "  %s by %s: %s\n", formatTime(e.At), e.Actor, strings.Join(e.Fields, ", "))
	}
	differ := false
	if s.ReviewedFacts != nil && s.OwnFacts != nil {
		differ = showDifferences(out, *s.ReviewedFacts, *s.OwnFacts)
	}
	if len(s.Edits) == 0 && !differ {
		fmt.Fprintln(out, "  nothing")
	}
	fmt.Fprintln(out, "\nLatest events, newest check first")
	if len(s.Events) == 0 {
		fmt.Fprintln(out, "  none")
	}
	for _, e := range s.Events[:min(len(s.Events), lastEvents)] {
		fmt.Fprintf(out, "  %s  %s: %s, by %s", formatTime(e.CheckedAt), e.CheckType, e.Outcome, e.Actor)
		if e.Note != "" {
			fmt.Fprintf(out, " (%s)", strings.Join(strings.Fields(e.Note), " "))
		}
		fmt.Fprintln(out)
	}
}

// showDifferences prints the facts in which the listing differs from its latest review. It reports whether there are any.
func showDifferences(out io.Writer, reviewed, own api.Facts) bool {
	a, b, differ := factsByName(reviewed), factsByName(own), false
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if string(a[name]) != string(b[name]) {
			fmt.Fprintf(out, "  %s: reviewed %s, listing %s\n", name, compact(a[name]), compact(b[name]))
			differ = true
		}
	}
	return differ
}

func factsByName(f api.Facts) (p map[string]json.RawMessage) {
	f.Complete()
	text, _ := json.Marshal(f) // facts always encode
	_ = json.Unmarshal(text, &p)
	return p
}
