package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// section returns a function that replaces the text of the benchmark's section of a page.
func section(b *testing.B, page string) (write func(text string)) {
	proc := storetest.Must(procfs.NewDefaultFS())(b)
	cpus, load := storetest.Must(proc.CPUInfo())(b), storetest.Must(proc.LoadAvg())(b)
	machine := fmt.Sprintf("Measured at commit %s on %s UTC, with %s on %d × %s; load average before: %.2f.",
		os.Getenv("BENCH_COMMIT"), time.Now().UTC().Format("2 January 2006 15:04"), runtime.Version(), len(cpus),
		cpus[0].ModelName, load.Load1)
	return func(text string) {
		text = "\n" + machine + "\n\n" + text + "\n"
		fmt.Print(text)
		target := "bench ONLY=" + strings.ToLower(strings.TrimPrefix(b.Name(), "Benchmark"))
		require.NoError(b, rewrite(page, target, func(string) string { return text }))
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

// suite is a run of Go benchmarks of a package, with flags of `go test`.
type suite struct {
	folder, flags string
	figures       []figure
}

// figure is a row from a metric of a benchmark, such as "Held held/encoded", against the same
// metric of the baseline unless that is empty.
type figure struct{ what, metric, baseline, aim string }

// BenchmarkPackages runs the Go benchmarks of packages that have an aim.
func BenchmarkPackages(b *testing.B) {
	const million = "List/1000000/first-page/answered"
	benchSuites(b, []suite{{"services/gateway/internal/admission", "-bench=^BenchmarkAdmit$ -count=5", []figure{
		{"one admission (epoch, minute, day, capacity) against a plain PING, 16 clients of one Redis",
			"Admit of/PING", "", "at least 0.5"},
	}}, {"services/gateway", "-bench=^BenchmarkGateway$ -count=5", []figure{
		{"a request through the gateway against a tuned httputil.ReverseProxy, with Redis",
			"Gateway with-redis/proxy", "", ""},
		{"the same, without Redis", "Gateway without-redis/proxy", "", "at most 1.6"},
	}}, {"services/catalog/internal/snapshot", "-bench=^BenchmarkList$/^(1000|1000000)$/^first-page$ -count=5", []figure{
		{"a list of 100 of 1,000,000 records, without HTTP, against copying its bytes",
			million + " ns/op", "List/1000000/first-page/written", "at most 4"},
		{"the same against a list of 100 of 1,000 records",
			million + " ns/op", "List/1000/first-page/answered", "at most 1.3"},
		{"allocations for those 100 records", million + " allocs/op", "", "none per record"},
	}}, {"services/catalog/internal/snapshot", "-bench=^Benchmark(Held|Resident)$ -benchtime=1x", []figure{
		{"heap for each byte of encoded records", "Held held/encoded", "", "at most 1.3"},
		{"resident memory for each byte of encoded records, after the load", "Resident loaded/encoded", "", "at most 1.6"},
		{"the same, the most during 1,000 changes", "Resident changed/encoded", "", "at most 1.6"},
	}}, {"services/catalog/internal/store", "-bench=^BenchmarkLoad$ -benchtime=2x", []figure{
		{"100,000 records from Postgres to ready", "Load/postgres s/load", "", "at most 3"},
		{"the same from SQLite", "Load/sqlite s/load", "", "at most 3"},
	}}, {"services/authquota", "-bench=^BenchmarkPages$", []figure{
		{"first page of an account that had 10,000 keys with 180,000 rows of usage, Postgres",
			"Pages/postgres/account s/page", "", "at most 1"},
		{"its usage page, Postgres", "Pages/postgres/account/usage s/page", "", "at most 1"},
		{"the same over 90 days, Postgres", "Pages/postgres/account/usage?days=90 s/page", "", "at most 1"},
		{"its usage page, SQLite", "Pages/sqlite/account/usage s/page", "", "at most 1"},
		{"the same over 90 days, SQLite", "Pages/sqlite/account/usage?days=90 s/page", "", "at most 1"},
	}}, {"services/authquota/internal/keyusage", "-bench=^BenchmarkTenThousandCalls$ -count=3", []figure{
		{"request log of 10,000 calls, CPU of authquota, Postgres", "TenThousandCalls/postgres cpu-ms", "", "at most 0.05"},
		{"page of an account's 1,000 requests, without HTTP, Postgres",
			"TenThousandCalls/postgres page-ms", "", "at most 50"},
		{"the same, SQLite", "TenThousandCalls/sqlite page-ms", "", "at most 50"},
	}}, {"services/history/internal/store", "-bench=^BenchmarkVerify$ -benchtime=1x -verify.listings=10000", []figure{
		{"history verify of 1,000,000 events of 10,000 listings, Postgres", "Verify/postgres us/event", "", "at most 20"},
		{"the same, SQLite", "Verify/sqlite us/event", "", "at most 20"},
		{"heap during that, Postgres", "Verify/postgres MiB-heap", "", ""},
		{"heap during that, SQLite", "Verify/sqlite MiB-heap", "", ""},
	}}})
}

// BenchmarkSearch runs the Go benchmark of the search. No result is cached.
func BenchmarkSearch(b *testing.B) {
	benchSuites(b, []suite{{"services/catalog/internal/snapshot", "-bench=^BenchmarkSearch$ -count=5", []figure{
		{"a search for a word of 100 in 100,000 records, without HTTP, against the first page of the list",
			"Search/100000/selective ns/op", "Search/100000/list", "at most 3"},
		{"the same in 1,000,000 records", "Search/1000000/selective ns/op", "", "at most 20"},
		{"a search for the first letter of words, which half of 1,000,000 records have",
			"Search/1000000/letter ns/op", "", "at most 20"},
		{"a search for a frequent word in them", "Search/1000000/frequent ns/op", "", "at most 20"},
		{"a search for all 26 letters in them", "Search/1000000/alphabet ns/op", "", "at most 20"},
		{"a search with conditions of all kinds in them", "Search/1000000/all ns/op", "", "at most 20"},
	}}})
}

// BenchmarkDesk runs the Go benchmark of the curation desk.
func BenchmarkDesk(b *testing.B) {
	benchSuites(b, []suite{{"services/catalog/internal/store/curation", "-bench=^BenchmarkQueue$ -benchtime=20x", nil}})
}

// units are the units of metrics in tables, and the factors to them.
var units = map[string]struct {
	name   string
	factor float64
}{
	"of/PING": {"ratio of rates", 1}, "with-redis/proxy": {"ratio of CPU", 1}, "without-redis/proxy": {"ratio of CPU", 1},
	"held/encoded": {"ratio", 1}, "loaded/encoded": {"ratio", 1}, "changed/encoded": {"ratio", 1},
	"ns/op": {"ms", 1e-6}, "page-ms": {"ms", 1}, "cpu-ms": {"s", 1e-3}, "s/load": {"s", 1}, "s/page": {"s", 1},
	"us/event": {"s", 1}, // of a million
	"MiB-heap": {"MiB", 1}, "allocs/op": {"allocations", 1},
}

// benchSuites runs suites one after the other. The rows of a suite that fails say so. A suite
// without figures has a row for the mean time of each of its benchmarks.
func benchSuites(b *testing.B, suites []suite) {
	b.Helper()
	write := section(b, "benchmarks.md")
	var rows []row
	for _, s := range suites {
		args := append([]string{"test", "-run=^$", "-benchmem", "-timeout=30m", "./" + s.folder}, strings.Fields(s.flags)...)
		cmd := exec.CommandContext(b.Context(), "go", args...) //nolint:gosec // of the tables above
		cmd.Dir, cmd.Stderr = "..", os.Stderr
		out, err := cmd.Output()
		if err != nil {
			b.Errorf("%s of %s: %v\n%s", s.flags, s.folder, err, out)
		}
		names, found := parseBenchmarks(string(out))
		if s.figures == nil {
			for _, name := range names {
				s.figures = append(s.figures, figure{name + ", mean", name + " ns/op", "", "at most 200"})
			}
		}
		for _, f := range s.figures {
			_, metric, _ := strings.Cut(f.metric, " ")
			rows = append(rows, row{f.what, units[metric].name, found[f.metric], found[f.baseline+" "+metric], f.aim})
		}
	}
	require.NotEmpty(b, rows)
	write(table(rows))
}

// resultLine matches a result in the output of `go test -bench`: the name, the number of
// iterations, and values with their units.
var resultLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)

// parseBenchmarks returns the names of the benchmarks in the output of `go test -bench`, and their
// figures by name and metric, in the units of tables.
func parseBenchmarks(out string) (names []string, found map[string]series) {
	found = map[string]series{}
	for _, line := range resultLine.FindAllStringSubmatch(out, -1) {
		names = append(names, line[1])
		for pair := range slices.Chunk(strings.Fields(line[2]), 2) {
			value, _ := strconv.ParseFloat(pair[0], 64)
			metric := line[1] + " " + pair[1]
			found[metric] = append(found[metric], value*units[pair[1]].factor)
		}
	}
	return names, found
}

func TestTableComparesRoundByRound(t *testing.T) {
	names, found := parseBenchmarks(`goos: linux
BenchmarkList/first-page-2         	  111195	 2000000 ns/op	28196.77 MB/s	       5 allocs/op
BenchmarkList/first-page-2         	  111195	 1500000 ns/op	28196.77 MB/s	       5 allocs/op
PASS
`)
	require.Equal(t, []string{"List/first-page", "List/first-page"}, names)
	require.Equal(t, `| What | Unit | Here | Baseline | Ratio (range) | Aim |
|---|---|---|---|---|---|
| list | calls/s | 1,200 | 500 | 2.00 (1.00 to 4.00) | at least 2 |
| first page | ms | 1.75 (1.50 to 2.00) |  |  |  |
| nginx |  | not measured |  |  |  |
`, table([]row{
		{"list", "calls/s", series{1000, 1200, 2000}, series{500, 1200, 500}, "at least 2"},
		{what: "first page", unit: "ms", ours: found["List/first-page ns/op"]}, {what: "nginx", ours: found["Nginx ns/op"]},
	}))
}
