package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"

	"opportunity.internal/e2e/bench/report"
	"opportunity.internal/e2e/load"
)

// kinds are the calls whose costs are measured.
var kinds = []struct {
	name, path string
	pause      bool
}{
	{"a list of 50 records", "/api/v1/opportunities?limit=50", true},
	{"a record", "/api/v1/opportunities/" + recordID(0), true},
	{"a record, without pause", "/api/v1/opportunities/" + recordID(0), false},
	{"the history of a record", "/api/v1/opportunities/" + recordID(0) + "/history", true},
	{"an account page, not signed in", "/account/sign-in", true},
}

var columns = []string{"gateway", "catalog", "history", "authquota", "Redis", "Postgres"}

// benchCalls measures the CPU time that each process spends on a call of each kind, without what it spends when idle.
func benchCalls(ctx context.Context, b *bench) (string, error) {
	const rate, length = 200, 8 * time.Second
	s, err := b.filled(ctx, 1000)
	if err != nil {
		return "", err
	}
	idle, err := s.spentBy(ctx, func() error { time.Sleep(length); return ctx.Err() })
	if err != nil {
		return "", err
	}
	chart := report.Bars{Title: "CPU time of a call", Unit: "µs", Parts: columns, Source: b.source()}
	var out strings.Builder
	fmt.Fprintf(&out, "| Request | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, kind := range kinds {
		t := load.Target{Address: s.address["gateway"], Paths: []string{kind.path}, Keys: s.keys, Header: []string{"Accept-Encoding: gzip"}, Status: 200}
		var result load.Result
		busy, err := s.spentBy(ctx, func() (err error) {
			if kind.pause {
				result, err = load.At(t, rate, length)
			} else {
				result, err = load.Saturate(t, 40_000)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("%s: %w", kind.name, err)
		}
		bar := report.Bar{Name: kind.name}
		fmt.Fprintf(&out, "| %s |", kind.name)
		for _, name := range columns {
			spent := busy[name].Seconds() - idle[name].Seconds()*result.Elapsed.Seconds()/length.Seconds()
			cost := max(0, spent*1e6/float64(result.Calls))
			bar.Parts = append(bar.Parts, cost)
			switch {
			case kind.pause && cost < 20 || cost < 1: // the resolution of the clock
				fmt.Fprint(&out, " |")
			case kind.pause:
				fmt.Fprintf(&out, " %d |", int(cost)/10*10)
			default:
				fmt.Fprintf(&out, " %.0f |", cost)
			}
		}
		chart.Bars = append(chart.Bars, bar)
		out.WriteByte('\n')
	}
	return out.String(), b.draw("benchmarks-calls.svg", chart)
}

// spentBy returns the CPU time that each process spends while run runs, by the name of its column.
func (s *stack) spentBy(ctx context.Context, run func() error) (map[string]time.Duration, error) {
	before, err := s.spent(ctx)
	if err != nil {
		return nil, err
	}
	if err := run(); err != nil {
		return nil, err
	}
	after, err := s.spent(ctx)
	for name := range after {
		after[name] -= before[name]
	}
	return after, err
}

// spent returns the CPU time so far of each process, by the name of its column.
func (s *stack) spent(ctx context.Context) (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for name, p := range s.processes {
		used, err := p.cpu()
		if err != nil {
			return nil, err
		}
		if name == "redis" {
			name = "Redis"
		}
		all[name] = used
		_ = os.Truncate(p.log, 0)
	}
	server, err := s.postgresServer(ctx)
	if err != nil {
		return nil, err
	}
	all["Postgres"], err = cpuTime(server)
	return all, err
}

// postgresServer returns the process id of the Postgres server, the parent of every connection's process.
func (s *stack) postgresServer(ctx context.Context) (int, error) {
	db, err := pgx.Connect(ctx, s.server)
	if err != nil {
		return 0, err
	}
	defer db.Close(ctx) //nolint:errcheck // the query's error counts
	var backend int
	if err := db.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0, err
	}
	p, err := procfs.NewProc(backend)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return stat.PPID, err
}
