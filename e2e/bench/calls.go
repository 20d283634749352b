package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"

	"opportunity.internal/e2e/load"
)

// kinds are the calls of the table of costs.
var kinds = []struct{ name, path string }{
	{"a list of 50 records", "/api/v1/opportunities?limit=50"},
	{"a record", "/api/v1/opportunities/" + recordID(0)},
	{"the history of a record", "/api/v1/opportunities/" + recordID(0) + "/history"},
	{"an account page, not signed in", "/account/sign-in"},
}

var columns = []string{"gateway", "catalog", "history", "authquota", "redis", "postgres"}

// benchCalls measures the CPU time that each process spends on a call of each kind, without what it spends when idle.
func benchCalls(ctx context.Context, b *bench) (string, error) {
	const rate, length = 200, 8 * time.Second
	s, err := b.filled(ctx, 1000)
	if err != nil {
		return "", err
	}
	spent := func(run func() error) (map[string]time.Duration, error) {
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
	idle, err := spent(func() error { time.Sleep(length); return ctx.Err() })
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "| Request | gateway | catalog | history | authquota | Redis | Postgres |\n|---|---|---|---|---|---|---|\n")
	for _, kind := range kinds {
		t := load.Target{Address: s.address["gateway"], Paths: []string{kind.path}, Keys: s.keys, Header: []string{"Accept-Encoding: gzip"}, Status: 200}
		busy, err := spent(func() error { _, err := load.At(t, rate, length); return err })
		if err != nil {
			return "", fmt.Errorf("%s: %w", kind.name, err)
		}
		fmt.Fprintf(&out, "| %s |", kind.name)
		for _, name := range columns {
			cost := (busy[name] - idle[name]).Microseconds() / int64(rate*length.Seconds())
			if cost < 20 { // the resolution of the clock
				fmt.Fprint(&out, " |")
			} else {
				fmt.Fprintf(&out, " %d |", cost/10*10)
			}
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// spent returns the CPU time so far of each process, and of Postgres.
func (s *stack) spent(ctx context.Context) (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for name, p := range s.processes {
		used, err := p.cpu()
		if err != nil {
			return nil, err
		}
		all[name] = used
		_ = os.Truncate(p.log, 0)
	}
	server, err := s.postgresServer(ctx)
	if err != nil {
		return nil, err
	}
	all["postgres"], err = cpuTime(server)
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
