package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/e2e/bench/report"
)

// suite is a run of `go test -bench`.
type suite struct {
	folder, pattern string
	count           int
	args            []string // after the package
}

// figure is a row from a result of a suite.
type figure struct {
	what, name string // name of the benchmark, without "Benchmark"
	metric     string
	unit       string
	scale      float64 // 0: 1
	baseline   string  // name of the benchmark with the same metric to divide by
	aim        string
}

var packageSuites = []suite{
	{"services/gateway/internal/admission", "^BenchmarkAdmit$", 5, nil},
	{"services/gateway", "^BenchmarkGateway$", 5, nil},
	{"services/catalog/internal/snapshot", "^BenchmarkList$/^(1000|1000000)$/^first-page$", 5, nil},
	{"services/catalog/internal/snapshot", "^Benchmark(Held|Resident)$", 1, []string{"-benchtime=1x"}},
	{"services/catalog/internal/store", "^BenchmarkLoad$", 1, []string{"-benchtime=2x"}},
	{"services/authquota", "^BenchmarkPages$", 1, nil},
	{"services/authquota/internal/keyusage", "^BenchmarkTenThousandCalls$", 3, nil},
	{"services/history/internal/store", "^BenchmarkVerify$", 1, []string{"-benchtime=1x", "-verify.listings=10000"}},
}

var packageFigures = []figure{
	{what: "one admission (epoch, minute, day, capacity) against a plain PING, 16 clients of one Redis", name: "Admit", metric: "of/PING", unit: "ratio of rates", aim: "at least 0.5"},
	{what: "a request through the gateway against a tuned httputil.ReverseProxy, with Redis", name: "Gateway", metric: "with-redis/proxy", unit: "ratio of CPU"},
	{what: "the same, without Redis", name: "Gateway", metric: "without-redis/proxy", unit: "ratio of CPU", aim: "at most 1.6"},
	{what: "a list of 100 of 1,000,000 records, without HTTP, against copying its bytes", name: "List/1000000/first-page/answered", metric: "ns/op", unit: "µs", scale: 0.001, baseline: "List/1000000/first-page/written", aim: "at most 4"},
	{what: "the same against a list of 100 of 1,000 records", name: "List/1000000/first-page/answered", metric: "ns/op", unit: "µs", scale: 0.001, baseline: "List/1000/first-page/answered", aim: "at most 1.3"},
	{what: "allocations for those 100 records", name: "List/1000000/first-page/answered", metric: "allocs/op", unit: "allocations", aim: "none per record"},
	{what: "heap for each byte of encoded records", name: "Held", metric: "held/encoded", unit: "ratio", aim: "at most 1.3"},
	{what: "resident memory for each byte of encoded records, after the load", name: "Resident", metric: "loaded/encoded", unit: "ratio", aim: "at most 1.6"},
	{what: "the same, the most during 1,000 changes", name: "Resident", metric: "changed/encoded", unit: "ratio", aim: "at most 1.6"},
	{what: "100,000 records from Postgres to ready", name: "Load/postgres", metric: "s/load", unit: "s", aim: "at most 3"},
	{what: "the same from SQLite", name: "Load/sqlite", metric: "s/load", unit: "s", aim: "at most 3"},
	{what: "first page of an account that had 10,000 keys with 180,000 rows of usage, Postgres", name: "Pages/postgres/account", metric: "s/page", unit: "s", aim: "at most 1"},
	{what: "its usage page, Postgres", name: "Pages/postgres/account/usage", metric: "s/page", unit: "s", aim: "at most 1"},
	{what: "the same over 90 days, Postgres", name: "Pages/postgres/account/usage?days=90", metric: "s/page", unit: "s", aim: "at most 1"},
	{what: "its usage page, SQLite", name: "Pages/sqlite/account/usage", metric: "s/page", unit: "s", aim: "at most 1"},
	{what: "the same over 90 days, SQLite", name: "Pages/sqlite/account/usage?days=90", metric: "s/page", unit: "s", aim: "at most 1"},
	{what: "request log of 10,000 calls, CPU of authquota, Postgres", name: "TenThousandCalls/postgres", metric: "cpu-ms", unit: "s", scale: 0.001, aim: "at most 0.05"},
	{what: "page of an account's 1,000 requests, without HTTP, Postgres", name: "TenThousandCalls/postgres", metric: "page-ms", unit: "ms", aim: "at most 50"},
	{what: "the same, SQLite", name: "TenThousandCalls/sqlite", metric: "page-ms", unit: "ms", aim: "at most 50"},
	{what: "history verify of 1,000,000 events of 10,000 listings, Postgres", name: "Verify/postgres", metric: "us/event", unit: "s", aim: "at most 20"},
	{what: "the same, SQLite", name: "Verify/sqlite", metric: "us/event", unit: "s", aim: "at most 20"},
	{what: "heap during that, Postgres", name: "Verify/postgres", metric: "MiB-heap", unit: "MiB"},
	{what: "heap during that, SQLite", name: "Verify/sqlite", metric: "MiB-heap", unit: "MiB"},
}

var deskSuites = []suite{
	{"cmd/opportunity/internal/desk", "^BenchmarkDesk$", 1, []string{"-benchtime=40x"}},
	{"services/catalog/internal/store/desk", "^BenchmarkQueue$", 1, []string{"-benchtime=20x"}},
	{"services/history/internal/store", "^BenchmarkReview$", 1, nil},
}

// benchPackages runs the Go benchmarks of packages that have an aim.
func benchPackages(ctx context.Context, b *bench) ([]report.Row, error) {
	found, err := b.goBenchmarks(ctx, packageSuites)
	var rows []report.Row
	for _, f := range packageFigures {
		rows = append(rows, f.row(found))
	}
	return rows, err
}

func (f figure) row(found results) report.Row {
	r := report.Row{What: f.what, Unit: f.unit, Aim: f.aim, Ours: found.get(f.name, f.metric, f.scale)}
	if f.baseline != "" {
		r.Baseline = found.get(f.baseline, f.metric, f.scale)
	}
	if r.Ours == nil {
		r.Failed = fmt.Errorf("no result of Benchmark%s", f.name)
	}
	return r
}

// benchDesk runs the Go benchmarks of the curation desk, with 1,000,000 events.
func benchDesk(ctx context.Context, b *bench) (rows []report.Row, err error) {
	found, err := b.goBenchmarks(ctx, deskSuites)
	for _, r := range found {
		const milli = 1e-6
		rows = append(rows, report.Row{What: r.name + ", mean", Unit: "ms", Ours: found.get(r.name, "ns/op", milli)})
		if p95 := found.get(r.name, "p95-ms", 1); p95 != nil {
			aim := "at most 200"
			if r.name == "Desk/submit-to-next" {
				aim = "at most 300"
			}
			rows = append(rows, report.Row{What: "the same, 95th percentile", Unit: "ms", Ours: p95, Aim: aim})
		}
	}
	return rows, err
}

// goBenchmarks runs suites one after the other. It returns the results of those that succeed, with the errors of the others, unless none
// succeeds.
func (b *bench) goBenchmarks(ctx context.Context, suites []suite) (found results, err error) {
	var failed []error
	for _, s := range suites {
		args := []string{"test", "-run", "^$", "-bench", s.pattern, "-benchmem", "-count", strconv.Itoa(s.count), "-timeout", "30m", "./" + s.folder}
		cmd := exec.CommandContext(ctx, "go", append(args, s.args...)...) //nolint:gosec // of the tables above
		cmd.Dir, cmd.Stderr = b.root, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s of %s: %v\n%s", s.pattern, s.folder, err, out)
			failed = append(failed, fmt.Errorf("%s: %w", s.folder, err))
		}
		found = append(found, parseBenchmarks(string(out))...)
	}
	if len(found) == 0 {
		return nil, errors.Join(failed...)
	}
	return found, nil
}

// result is a line of the output of `go test -bench`.
type result struct {
	name    string // without "Benchmark" and the number of processors
	metrics map[string]float64
}

type results []result

// get returns the values of a metric, multiplied by scale unless that is 0, and nil if there are none.
func (all results) get(name, metric string, scale float64) (s report.Series) {
	if scale == 0 {
		scale = 1
	}
	for _, r := range all {
		if v, found := r.metrics[metric]; found && r.name == name {
			s = append(s, v*scale)
		}
	}
	return s
}

// parseBenchmarks reads the output of `go test -bench`: lines of a name, the number of iterations, and values with their units.
func parseBenchmarks(out string) (all results) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		r := result{name: strings.TrimPrefix(fields[0], "Benchmark"), metrics: map[string]float64{}}
		if at := strings.LastIndexByte(r.name, '-'); at > 0 {
			r.name = r.name[:at]
		}
		for pair := range slices.Chunk(fields[2:], 2) {
			if v, err := strconv.ParseFloat(pair[0], 64); err == nil && len(pair) == 2 {
				r.metrics[pair[1]] = v
			}
		}
		all = append(all, r)
	}
	return all
}
