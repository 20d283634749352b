package report_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/bench/report"
)

func TestTableShowsMediansRangesAndFailures(t *testing.T) {
	require.Equal(t, `| What | Unit | Here | Baseline | Ratio (range) | Aim |
|---|---|---|---|---|---|
| record | calls/s | 5,000 | 10,000 | 0.40 (0.20 to 0.50) | at least 0.5 |
| load | s | 1.50 (1.00 to 2.00) |  |  | at most 3 |
| proxy | ms | not measured: no nginx |  |  |  |
`, report.Table([]report.Row{
		{What: "record", Unit: "calls/s", Ours: report.Series{2000, 5000, 6000}, Baseline: report.Series{10000, 10000, 15000}, Aim: "at least 0.5"},
		{What: "load", Unit: "s", Ours: report.Series{2, 1}, Aim: "at most 3"},
		{What: "proxy", Unit: "ms", Failed: errors.New("no\nnginx")},
	}))
}

func TestReplaceChangesOnlyTheTextBetweenTheMarkers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(file, []byte("before\n<!-- begin: a -->\nold\n<!-- end: a -->\nafter\n"), 0o600))
	require.NoError(t, report.Replace(file, "a", "new\n"))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before\n<!-- begin: a -->\nnew\n<!-- end: a -->\nafter\n", string(text))
	require.ErrorContains(t, report.Replace(file, "b", "new\n"), "has no text between")
}
