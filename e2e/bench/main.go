// Command bench measures the API against baselines, with the programs that operators run, and writes the results to docs/benchmarks.md.
// See there for what is measured.
//
//	make bench [ONLY=gateway,...]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"opportunity.internal/e2e/bench/report"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is a run.
type bench struct {
	root   string // of the repository
	bin    string // of the programs
	dir    string // for temporary files
	rounds int
	now    time.Time
	commit string // when the run started: results change the documents

	stack   *stack // the one that runs, or nil
	records int    // of that stack
	lists   map[string]*report.Line
}

// part is a part of a run, with a section of its own in a document.
type part struct {
	name  string
	large bool // runs only if it is named
	file  string
	run   func(context.Context, *bench) (string, error)
}

const document = "docs/benchmarks.md"

var parts = []part{
	{"gateway", false, document, table(benchGateway)},
	{"latency", false, document, table(benchLatency)},
	{"calls", false, "docs/operations.md", benchCalls},
	{"lists", false, document, table(benchLists)},
	{"catalog", false, document, table(benchCatalog)},
	{"packages", false, document, table(benchPackages)},
	{"million", true, document, table(benchMillion)},
	{"desk", true, document, table(benchDesk)},
}

// table makes the rows of a part a table.
func table(rows func(context.Context, *bench) ([]report.Row, error)) func(context.Context, *bench) (string, error) {
	return func(ctx context.Context, b *bench) (string, error) {
		all, err := rows(ctx, b)
		return report.Table(all), err
	}
}

func run(ctx context.Context) error {
	b := &bench{now: time.Now().UTC()}
	flag.StringVar(&b.root, "root", ".", "root of the repository")
	flag.StringVar(&b.bin, "bin", "bin", "folder with the programs")
	flag.IntVar(&b.rounds, "rounds", 7, "rounds of each comparison")
	only := flag.String("only", "", "parts to run, comma-separated; empty: all but the large ones")
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	b.dir = dir
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	defer b.close()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the workers of nginx run as another user
		return err
	}
	version, _ := exec.CommandContext(ctx, "git", "-C", b.root, "describe", "--always", "--dirty", "--exclude=*").Output() //nolint:gosec // the root is an argument
	b.commit = "commit " + strings.TrimSpace(string(version))
	var failed []error
	for _, p := range chosen {
		fmt.Fprintf(os.Stderr, "bench: %s\n", p.name)
		if err := b.write(ctx, p); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s failed: %v\n", p.name, err)
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// choose returns the parts with these comma-separated names, or all that are not large.
func choose(names string) (chosen []part, err error) {
	for _, p := range parts {
		if names == "" && !p.large || slices.Contains(strings.Split(names, ","), p.name) {
			chosen = append(chosen, p)
		}
	}
	if names != "" && len(chosen) != strings.Count(names, ",")+1 {
		var known []string
		for _, p := range parts {
			known = append(known, p.name)
		}
		return nil, fmt.Errorf("unknown part in %q: use %s", names, strings.Join(known, ", "))
	}
	return chosen, nil
}

// write runs a part, prints its results and writes them to the document. A part that fails leaves its section as it was.
func (b *bench) write(ctx context.Context, p part) error {
	machine := b.machine()
	text, err := p.run(ctx, b)
	if err != nil {
		return err
	}
	text = "\n" + machine + "\n\n" + text + "\n"
	fmt.Print(text)
	return report.Replace(filepath.Join(b.root, p.file), "make bench ONLY="+p.name, text)
}

// machine describes the commit, the machine and its load at this time.
func (b *bench) machine() string {
	cpu, average := "unknown processor", "unknown"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(value)
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		average, _, _ = strings.Cut(string(text), " ")
	}
	return fmt.Sprintf("Measured at %s on %s UTC, with %s on %d × %s; load average before: %s.", b.commit,
		time.Now().UTC().Format("2 January 2006 15:04"), runtime.Version(), runtime.NumCPU(), cpu, average)
}

// close stops the stack that runs.
func (b *bench) close() {
	if b.stack != nil {
		b.stack.close()
		b.stack = nil
	}
}
