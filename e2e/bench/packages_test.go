package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/bench/report"
)

func TestBenchmarkOutputBecomesRows(t *testing.T) {
	found := parseBenchmarks(`goos: linux
BenchmarkList/1000/first-page/answered-2         	  111195	     10000 ns/op	28196.77 MB/s	     528 B/op	       5 allocs/op
BenchmarkList/1000/first-page/answered-2         	  111195	     12000 ns/op	28196.77 MB/s	     528 B/op	       5 allocs/op
BenchmarkList/1000/first-page/written-2          	  169440	      5000 ns/op	41197.23 MB/s	       0 B/op	       0 allocs/op
BenchmarkLoad/postgres-2         	       1	1790450319 ns/op	         2.426 cpu-s/load	         1.790 s/load
PASS
`)
	require.Equal(t, report.Row{What: "list", Unit: "µs", Ours: report.Series{10, 12}, Baseline: report.Series{5}},
		figure{what: "list", name: "List/1000/first-page/answered", metric: "ns/op", unit: "µs", scale: 0.001, baseline: "List/1000/first-page/written"}.row(found))
	require.Equal(t, report.Series{1.79}, figure{name: "Load/postgres", metric: "s/load"}.row(found).Ours)
	require.ErrorContains(t, figure{name: "Load/sqlite", metric: "s/load"}.row(found).Failed, "no result of BenchmarkLoad/sqlite")
}
