package e2e

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// campaign is the number of seconds that each fault lasts in `make faults`, which writes the table
// in docs/operations.md. Otherwise it is 0, and a fault lasts for a few calls.
var campaign, _ = strconv.Atoi(os.Getenv("OPPORTUNITY_FAULTS"))

// rate returns the number of calls per second.
func rate() int {
	if campaign > 0 {
		return 200
	}
	return 60
}

// duration returns the number of calls that a fault lasts.
func duration() int {
	return cmp.Or(campaign*rate(), 40)
}

// result is a row of the table: a fault, what must hold meanwhile, and what was measured.
type result struct {
	fault, invariant, measured string
}

// newResult begins a row of the table, which is written when the test ends: with the verdict
// "violated" if the test has failed by then.
func newResult(t testing.TB, fault, invariant string) *result {
	t.Helper()
	r := &result{fault: fault, invariant: invariant}
	t.Cleanup(func() {
		t.Log(r.row(!t.Failed()))
		if campaign > 0 && r.write(!t.Failed()) != nil {
			t.Errorf("the table in %s cannot be written", tableFile)
		}
	})
	return r
}

// set sets the figures of the row.
func (r *result) set(format string, figures ...any) { r.measured = fmt.Sprintf(format, figures...) }

// row returns the row in Markdown.
func (r *result) row(held bool) string {
	verdict := "violated"
	if held {
		verdict = "held"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", r.fault, r.invariant, cmp.Or(r.measured, "nothing"), verdict)
}

const (
	tableFile  = "../docs/operations.md"
	tableBegin = "<!-- begin: make faults -->\n"
	tableEnd   = "<!-- end: make faults -->"
)

// tableLock serializes writes of the table, because scenarios may be parallel.
var tableLock sync.Mutex

func (r *result) write(held bool) error {
	tableLock.Lock()
	defer tableLock.Unlock()
	page, err := os.ReadFile(tableFile)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("Each fault lasted %d seconds, at %d calls a second unless the row has another rate, on %d cores.\n\n| Fault | Invariant | Measured | Verdict |\n|---|---|---|---|\n", campaign, rate(), runtime.NumCPU())
	text, err := withRow(string(page), head, r.row(held))
	if err != nil {
		return err
	}
	return os.WriteFile(tableFile, []byte(text), 0o644) //nolint:gosec // a page
}

// withRow returns a page with a row in the table of faults, in place of the row of the same fault
// if there is one. A table with another head, of a campaign with other settings, is replaced.
func withRow(page, head, row string) (string, error) {
	before, rest, begins := strings.Cut(page, tableBegin)
	table, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return "", fmt.Errorf("the page lacks the line %s or %s", strings.TrimSpace(tableBegin), tableEnd)
	}
	var rows []string
	if old, same := strings.CutPrefix(strings.TrimLeft(table, "\n"), head); same {
		rows = slices.Collect(strings.Lines(strings.TrimRight(old, "\n") + "\n"))
	}
	fault, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
	at := slices.IndexFunc(rows, func(line string) bool { return strings.HasPrefix(line, "| "+fault+" | ") })
	if at < 0 {
		rows = append(rows, row)
	} else {
		rows[at] = row
	}
	return before + tableBegin + "\n" + head + strings.Join(rows, "") + "\n" + tableEnd + after, nil
}
