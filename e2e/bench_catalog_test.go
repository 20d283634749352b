package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

const listOf100 = listPath + "?limit=100"

// pages returns the paths of all lists of 100 of n records.
func pages(n int) (paths []string) {
	for page := range (n + 99) / 100 {
		paths = append(paths, fmt.Sprintf("%s&page=%d", listOf100, page+1))
	}
	return paths
}

// atCatalog returns calls of the catalog as the gateway makes them.
func (s *benchmark) atCatalog(path string) side {
	l := callsOf(s.addresses["catalog"], []string{tokenBetween(peer.Gateway, peer.Catalog)}, nil, path)
	l.Header += api.CallerHeader + ": " + paidCaller + "\r\n"
	return l
}

// listRate returns the calls per second of lists of 100 at the catalog and at its baseline.
func listRate(b *testing.B, n int) (s *benchmark, ours, theirs series) {
	s = newBenchmark(b, n)
	f := rounds(b, 0, s.atCatalog(listOf100), s.baselineOfRecords(n, "/list"))
	return s, f[0].rate, f[1].rate
}

// BenchmarkLists measures lists against the number of records, and imports.
func BenchmarkLists(b *testing.B) {
	write := section(b, "benchmarks.md")
	var rows []row
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s, ours, theirs := listRate(b, n)
			what := fmt.Sprintf("a list of 100 of %s records at the catalog against net/http and pgx", number(float64(n)))
			rows = append(rows, row{what, "calls/s", ours, theirs, ""})
			if n == 100_000 {
				rows = append(rows,
					row{"the same against the same list of 1,000 records", "calls/s", ours, rows[0].ours, ""},
					row{"import of 100,000 listings", "s", series{s.imported.Seconds()}, nil, "at most 12"},
					row{"append of a review of each", "s", series{s.appended.Seconds()}, nil, "at most 12"})
			}
		})
	}
	if !b.Failed() {
		write(table(rows))
	}
}

// BenchmarkMillion measures 1,000,000 records.
func BenchmarkMillion(b *testing.B) {
	write := section(b, "benchmarks.md")
	var small series
	b.Run("1000", func(b *testing.B) { _, small, _ = listRate(b, 1000) })
	s, ours, _ := listRate(b, 1_000_000)
	var visible series
	for i := range 5 {
		visible = append(visible, s.changeVisible(i, i+1).Seconds())
	}
	restart := s.restarted("catalog")
	const gib = 1024
	encoded := series{s.encoded() / gib}
	write(table([]row{
		{"a list of 100 of 1,000,000 records against one of 1,000", "calls/s", ours, small, "about 1"},
		{"one recorded review until the API shows it", "s", visible, nil, "at most 1"},
		{"restart of the catalog until it is ready", "s", series{restart.Seconds()}, nil, "at most 15"},
		{"resident memory against encoded records", "GiB", series{s.memory("catalog") / gib}, encoded, ""},
		{"the same, the most during the load", "GiB", series{s.peak("catalog") / gib}, encoded, "at most 3.6 GB"},
		{"import of the listings", "s", series{s.imported.Seconds()}, nil, ""},
		{"append of a review of each", "s", series{s.appended.Seconds()}, nil, ""},
	}))
}

// changeVisible records a review of the listings from (inclusive) to (exclusive), and returns the
// time until the API shows the last of them.
func (s *benchmark) changeVisible(from, to int) time.Duration {
	now := time.Now().Add(time.Duration(from) * time.Second) // so the first is a second ago
	want := []byte(`"lastCheckedAt":"` + timeOf(to-1, now).Format(time.RFC3339) + `"`)
	s.send(from, to, now, reviewLine, "events", "append")
	begun := time.Now()
	eventually(s.B, "the review shows", func() bool {
		return bytes.Contains(get(s, s.url, s.paying[0], listPath+"/"+recordID(to-1)).body, want)
	})
	return time.Since(begun)
}

// encodings returns lists through gateway and catalog, compressed and not.
func (s *benchmark) encodings(paths ...string) []side {
	with := s.through(paths...)
	with.processes = append(with.processes, s.process(s, "catalog"))
	without := with
	without.Header = identity
	return []side{with, without}
}

// BenchmarkCatalog measures compressed lists, a record against Postgres, and memory, with
// 100,000 records.
func BenchmarkCatalog(b *testing.B) {
	write := section(b, "benchmarks.md")
	const n = 100_000
	s, walk := newBenchmark(b, n), pages(n)
	var rows []row
	add := func(what, aim string, f []figures) {
		rows = append(rows,
			row{what, "µs of CPU per call, gateway and catalog", f[0].cpu, f[1].cpu, aim},
			row{"the same", "calls/s", f[0].rate, f[1].rate, ""},
			row{"the same", "bytes of a body", f[0].bytes, f[1].bytes, ""})
	}
	add("a list of 100 records, the same one each time, gzip against identity", "at most 1.1",
		rounds(b, 1000, s.encodings(listOf100)...))
	add("a walk of all 1,000 pages, each for the second time or more", "",
		rounds(b, len(walk), s.encodings(walk...)...))
	first := make([]figures, 2)
	for range 3 {
		s.restarted("catalog")
		round(b, first, len(walk), s.encodings(walk...))
	}
	add("the same walk, each page for the first time", "at most 2", first)
	id := recordID(n / 2)
	f := rounds(b, 8000, s.atCatalog(listPath+"/"+id), s.baselineOfRecords(n, "/record/"+id))
	rows = append(rows, row{"a record by id at the catalog against net/http and pgx by primary key", "calls/s",
		f[0].rate, f[1].rate, "at least 2.5"})

	// Memory after the load and a walk of all pages, which the catalog keeps compressed, and after
	// changes of as many records as change on a busy day, in twenty batches.
	s.restarted("catalog")
	round(b, make([]figures, 2), len(walk), s.encodings(walk...))
	encoded, loaded := series{s.encoded()}, s.memory("catalog")
	for batch := range 20 {
		s.changeVisible(batch*500, batch*500+500)
	}
	write(table(append(rows,
		row{"resident memory of the catalog against 100,000 encoded records, after the load", "MiB",
			series{loaded}, encoded, "at most 1.6"},
		row{"the same, after 10,000 changed records", "MiB", series{s.memory("catalog")}, encoded, "at most 1.6"},
		row{"the same, the most so far", "MiB", series{s.peak("catalog")}, encoded, ""})))
}

// BenchmarkSizing measures the memory, the start and the database of each service that a read needs
// with 60,000 and 600,000 reviewed records. GOMEMLIMIT is not set, so memory is what a service
// takes if it has enough.
func BenchmarkSizing(b *testing.B) {
	write := section(b, "operations.md")
	out := "| Records | Service | Memory after a start | most at a start | most under load | most at import and reviews " +
		"| Ready after | Database |\n|---|---|---|---|---|---|---|---|\n"
	for _, n := range []int{60_000, 600_000} {
		b.Run(number(float64(n)), func(b *testing.B) {
			s := newBenchmark(b, n)
			paths := append(pages(n), "/docs", "/account/sign-in")
			for i := range n / 100 {
				paths = append(paths, listPath+"/"+recordID(i*100)+"/history")
			}
			reads := s.through(paths...)
			reads.Count = 2 * len(paths)
			for _, name := range []string{"gateway", "catalog", "history", "authquota"} {
				filling := s.peak(name)
				took := s.restarted(name)
				idle, start := s.memory(name), s.peak(name)
				reads.run(b)
				loaded := s.peak(name)
				database := ""
				if name != "gateway" {
					database = s.query(s, name, "SELECT pg_database_size(current_database()) / 1048576 || ' MiB'")
				}
				out += fmt.Sprintf("| %s | %s | %s MiB | %s MiB | %s MiB | %s MiB | %s s | %s |\n", number(float64(n)), name,
					number(idle), number(start), number(loaded), number(filling), number(took.Seconds()), database)
			}
		})
	}
	if !b.Failed() {
		write(out)
	}
}
