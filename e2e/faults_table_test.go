package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
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
		if campaign > 0 {
			assert.NoError(t, r.write(!t.Failed()))
		}
	})
	return r
}

func (r *result) set(format string, figures ...any) { r.measured = fmt.Sprintf(format, figures...) }

func (r *result) row(held bool) string {
	verdict := "violated"
	if held {
		verdict = "held"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", r.fault, r.invariant, cmp.Or(r.measured, "nothing"), verdict)
}

// pageLock serializes changes of pages, because scenarios may be parallel.
var pageLock sync.Mutex

// rewrite changes the text of a page in docs that a target of make writes.
func rewrite(page, target string, change func(old string) string) error {
	pageLock.Lock()
	defer pageLock.Unlock()
	file := filepath.Join("..", "docs", page)
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin: make "+target+" -->\n", "<!-- end: make "+target+" -->"
	before, rest, begins := strings.Cut(string(content), begin)
	old, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s has no text between %q and %q", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+change(old)+end+after), 0o644) //nolint:gosec // a page
}

// write writes the row into the table of faults, in place of the row of the same fault if there is
// one. A table with another head, of a campaign with other settings, is replaced.
func (r *result) write(held bool) error {
	head := fmt.Sprintf("Each fault lasted %d seconds, at %d calls a second unless the row has another rate, on %d cores.\n\n| Fault | Invariant | Measured | Verdict |\n|---|---|---|---|\n", campaign, rate(), runtime.NumCPU())
	return rewrite("operations.md", "faults", func(table string) string {
		var rows []string
		if old, same := strings.CutPrefix(strings.TrimLeft(table, "\n"), head); same {
			rows = slices.Collect(strings.Lines(strings.TrimRight(old, "\n") + "\n"))
		}
		at := slices.IndexFunc(rows, func(line string) bool { return strings.HasPrefix(line, "| "+r.fault+" | ") })
		if at < 0 {
			at, rows = len(rows), append(rows, "")
		}
		rows[at] = r.row(held)
		return "\n" + head + strings.Join(rows, "") + "\n"
	})
}
