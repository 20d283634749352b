package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/stretchr/testify/require"
)

// commit is that at the start: results change the documents.
var commit = sync.OnceValue(func() string {
	git := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*") //nolint:noctx // short
	version, _ := git.Output()
	return strings.TrimSpace(string(version))
})

// section returns a function that replaces the text of a section of a page.
func section(b *testing.B, page, name string) (write func(text string)) {
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, cpu, _ := strings.Cut(string(info), "model name\t: ")
	cpu, _, _ = strings.Cut(cpu, "\n")
	average, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(average), " ")
	machine := fmt.Sprintf("Measured at commit %s on %s UTC, with %s on %d × %s; load average before: %s.", commit(),
		time.Now().UTC().Format("2 January 2006 15:04"), runtime.Version(), runtime.NumCPU(), cpu, load)
	return func(text string) {
		text = "\n" + machine + "\n\n" + text + "\n"
		fmt.Print(text)
		file := filepath.Join("..", "docs", page)
		old, err := os.ReadFile(file)
		require.NoError(b, err)
		begin, end := "<!-- begin: make bench ONLY="+name+" -->\n", "<!-- end: make bench ONLY="+name+" -->"
		before, rest, found := strings.Cut(string(old), begin)
		_, after, closed := strings.Cut(rest, end)
		require.True(b, found && closed, "%s has no text between %q and %q", file, begin, end)
		require.NoError(b, os.WriteFile(file, []byte(before+begin+text+end+after), 0o644)) //nolint:gosec // a page
	}
}

// series holds one figure per round, in the order of the rounds.
type series []float64

func (s series) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// per divides each figure by that of the same round of the other series.
func (s series) per(other series) series {
	ratios := make(series, min(len(s), len(other)))
	for i := range ratios {
		ratios[i] = s[i] / other[i]
	}
	return ratios
}

// String returns the median, with the range if there is more than one round.
func (s series) String() string {
	if len(s) < 2 {
		return number(s.median())
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.median()), number(slices.Min(s)), number(slices.Max(s)))
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

// row is a row of a table. Without a baseline, the aim is about ours.
type row struct {
	what, unit     string
	ours, baseline series
	aim            string
}

// table returns the rows as Markdown.
func table(rows []row) string {
	var out strings.Builder
	out.WriteString("| What | Unit | Here | Baseline | Ratio (range) | Aim |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		cells := []string{r.what, r.unit, r.ours.String(), "", "", r.aim}
		switch {
		case r.ours == nil:
			cells[2] = "not measured"
		case r.baseline != nil:
			cells[2], cells[3] = number(r.ours.median()), number(r.baseline.median())
			cells[4] = r.ours.per(r.baseline).String()
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	return out.String()
}

func TestTableComparesRoundByRound(t *testing.T) {
	require.Equal(t, `| What | Unit | Here | Baseline | Ratio (range) | Aim |
|---|---|---|---|---|---|
| list | calls/s | 1,200 | 500 | 2.00 (1.00 to 4.00) | at least 2 |
| load | s | 1.50 (1.00 to 2.00) |  |  |  |
| nginx |  | not measured |  |  |  |
`, table([]row{
		{"list", "calls/s", series{1000, 1200, 2000}, series{500, 1200, 500}, "at least 2"},
		{what: "load", unit: "s", ours: series{2, 1}}, {what: "nginx"},
	}))
}
