// Package report writes results into documents: tables between markers, and charts.
package report

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// Series holds one figure per round, in the order of the rounds.
type Series []float64

// Median returns the median, 0 without rounds.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Per divides each figure by that of the same round of the other series.
func (s Series) Per(other Series) Series {
	ratios := make(Series, min(len(s), len(other)))
	for i := range ratios {
		ratios[i] = s[i] / other[i]
	}
	return ratios
}

// String returns the median, with the range if there is more than one round.
func (s Series) String() string {
	if len(s) < 2 {
		return number(s.Median())
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median()), number(slices.Min(s)), number(slices.Max(s)))
}

// number formats v with three significant digits, or with all digits before the decimal point.
func number(v float64) string {
	switch {
	case v >= 100:
		return humanize.Comma(int64(math.Round(v)))
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1 || v == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// Row is a row of a table of results.
type Row struct {
	What     string
	Unit     string
	Ours     Series
	Baseline Series // nil: there is none, and the aim is about Ours
	Aim      string
	Failed   error // in place of figures
}

// Table returns the rows as Markdown.
func Table(rows []Row) string {
	var out strings.Builder
	out.WriteString("| What | Unit | Here | Baseline | Ratio (range) | Aim |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		cells := []string{r.What, r.Unit, number(r.Ours.Median()), "", "", r.Aim}
		switch {
		case r.Failed != nil:
			cells[2] = "not measured: " + strings.Join(strings.Fields(r.Failed.Error()), " ")
		case r.Baseline == nil:
			cells[2] = r.Ours.String()
		default:
			cells[3], cells[4] = number(r.Baseline.Median()), r.Ours.Per(r.Baseline).String()
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	return out.String()
}

// Replace replaces the text between the markers of name in a document.
func Replace(file, name, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin: "+name+" -->\n", "<!-- end: "+name+" -->"
	before, rest, found := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no text between %q and %q", file, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(file, []byte(before+begin+text+end+after), 0o644) //nolint:gosec // a document
}
