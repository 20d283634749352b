package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/load"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

// side is a system in a comparison, with the processes whose CPU time is measured.
type side struct {
	load.Load

	processes []*process
}

// callsOf returns calls of paths at an address, with 16 connections.
func callsOf(address string, keys []string, processes []*process, paths ...string) side {
	return side{load.Load{Address: address, Keys: keys, Paths: paths, Connections: 16,
		Header: "Accept-Encoding: gzip\r\n"}, processes}
}

// figures are the results of one side, one of each per round.
type figures struct {
	rate, cpu series // calls per second, µs of CPU time per call
	p50, p99  series // ms
	bytes     series // length of a body
}

// rounds runs each side in turn, count calls or those of about a second. It does this seven times,
// so that noise of the machine affects all of them. A first round is not counted.
func rounds(b *testing.B, count int, sides ...side) []figures {
	round(b, make([]figures, len(sides)), count, sides)
	all := make([]figures, len(sides))
	for range 7 {
		round(b, all, count, sides)
	}
	return all
}

// round runs each side once and adds the results to all.
func round(b *testing.B, all []figures, count int, sides []side) {
	for i, s := range sides {
		if s.Count = count; count == 0 {
			s.Count = 32
			s.Count = 16 + int(s.run(b).Rate())
		}
		before := s.cpu(b)
		r := s.run(b)
		f := &all[i]
		f.cpu = append(f.cpu, (s.cpu(b)-before)*1e6/float64(r.Sent))
		f.rate, f.bytes = append(f.rate, r.Rate()), append(f.bytes, float64(r.Bytes)/float64(len(r.Took)))
		f.p50, f.p99 = append(f.p50, r.Quantile(0.5)), append(f.p99, r.Quantile(0.99))
	}
}

// run makes the calls. A busy machine makes a few fail.
func (s side) run(b *testing.B) load.Result {
	r := s.Run(b.Context())
	require.Less(b, r.Failed*100, r.Sent, "%d of %d calls failed at %s: %v", r.Failed, r.Sent, s.Address, r.Failure)
	return r
}

func (s side) cpu(b *testing.B) (sum float64) {
	for _, p := range s.processes {
		sum += cpu(b, p)
	}
	return sum
}

var benchRecord = listPath + "/" + recordID(0)

// through returns calls of paths through the gateway.
func (s *benchmark) through(paths ...string) side {
	return callsOf(s.addresses["gateway"], s.paying, []*process{s.process(s, "gateway")}, paths...)
}

const cpuUnit = "µs of CPU per call"

// BenchmarkGateway compares gateways in front of the same catalog.
func BenchmarkGateway(b *testing.B) {
	write := section(b, "benchmarks.md")
	s := newBenchmark(b, 1000)
	ours, minimal := s.through(benchRecord), s.minimal(unlimited)
	f := rounds(b, 8000, ours, minimal, minimal)
	rows := []row{
		{"noise: the minimal gateway in two places of the same rounds", cpuUnit, f[1].cpu, f[2].cpu, ""},
		{"a record: gateway against the minimal gateway", cpuUnit, f[0].cpu, f[1].cpu, "at most 0.9"},
		{"the same", "calls/s", f[0].rate, f[1].rate, "at least 1.1"},
	}
	read[api.OpportunityDetail](b, s.url, s.smallKey, benchRecord) // the one call of the day
	rejected, rejectedMinimal := ours, s.minimal(1)
	rejected.Keys, rejectedMinimal.Keys = []string{s.smallKey}, s.paying[:1]
	rejected.Status, rejectedMinimal.Status = http.StatusTooManyRequests, http.StatusTooManyRequests
	f = rounds(b, 8000, rejected, ours, rejectedMinimal)
	rows = append(rows,
		row{"a call that is rejected with 429 against one that is admitted, at the gateway", cpuUnit,
			f[0].cpu, f[1].cpu, "at most 0.5"},
		row{"a call that is rejected with 429: gateway against the minimal gateway", cpuUnit, f[0].cpu, f[2].cpu, ""})
	if !hasNginx() {
		write(table(append(rows, row{what: "nginx, which is not installed"})))
		return
	}
	f = rounds(b, 8000, ours, s.nginx(unlimited))
	steady := []side{ours, s.nginx(0), minimal}
	for i := range steady {
		steady[i].Rate, steady[i].Connections = 500, 64
	}
	at500 := rounds(b, 2000, steady...)
	write(table(append(rows,
		row{"a record against nginx with a limit in Lua and Redis", "calls/s", f[0].rate, f[1].rate, "at least 0.6"},
		row{"the same, gateway against nginx", cpuUnit, f[0].cpu, f[1].cpu, ""},
		row{"a record at 500 calls/s against nginx that only forwards: 50th percentile", "ms",
			at500[0].p50, at500[1].p50, "at most 1.35"},
		row{"the same: 99th percentile", "ms", at500[0].p99, at500[1].p99, "at most 1.4"},
		row{"a record at 500 calls/s against the minimal gateway: 50th percentile", "ms", at500[0].p50, at500[2].p50, ""},
		row{"the same: 99th percentile", "ms", at500[0].p99, at500[2].p99, "at most 0.9"})))
}

// BenchmarkLatency measures the highest steady rate of a record that each gateway keeps up with.
func BenchmarkLatency(b *testing.B) {
	write := section(b, "benchmarks.md")
	s := newBenchmark(b, 1000)
	var rows []row
	highest := func(name string, l side) {
		l.Count = 4000
		l.run(b) // warm up
		l.Connections = 64
		for l.Rate = 250; l.Rate <= 32_000; l.Rate *= 1.4142 {
			l.Count = int(3 * l.Rate)
			if l.Run(b.Context()).Rate() < 0.95*l.Rate {
				break
			}
		}
		rows = append(rows, row{name + ": highest rate that it kept up with", "calls/s", series{l.Rate / 1.4142}, nil, ""})
	}
	highest("gateway", s.through(benchRecord))
	highest("minimal gateway", s.minimal(unlimited))
	if hasNginx() {
		highest("nginx with a limit", s.nginx(unlimited))
	}
	write(table(rows))
}

// BenchmarkCalls measures the CPU time that each process spends on a call of each kind, without
// what it spends when idle.
func BenchmarkCalls(b *testing.B) {
	write := section(b, "operations.md")
	s := newBenchmark(b, 1000)
	processes := []*process{s.process(b, "gateway"), s.process(b, "catalog"), s.process(b, "history"),
		s.process(b, "authquota"), s.redisProcess(), s.postgresProcess()}
	spent := func(count int, rate float64, path string) (seconds []float64, took time.Duration) {
		l := s.through(path)
		if l.Count, l.Rate = count, rate; rate > 0 {
			l.Connections = 64
		}
		for _, p := range processes {
			seconds = append(seconds, -cpu(b, p))
		}
		took = l.run(b).Elapsed
		for i, p := range processes {
			seconds[i] += cpu(b, p)
		}
		return seconds, took
	}
	idle, length := spent(8, 1, benchRecord)
	out := "| Request | gateway | catalog | history | authquota | Redis | Postgres |\n|---|---|---|---|---|---|---|\n"
	for _, kind := range []struct{ name, path string }{
		{"a list of 50 records", listPath + "?limit=50"},
		{"a record", benchRecord}, {"a record, without pause", benchRecord},
		{"the history of a record", benchRecord + "/history"}, {"an account page, not signed in", "/account/sign-in"},
	} {
		count, rate, resolution, step := 1600, 200.0, 20, 10 // of the clock, in µs per call
		if strings.HasSuffix(kind.name, "without pause") {
			count, rate, resolution, step = 40_000, 0, 1, 1
		}
		busy, took := spent(count, rate, kind.path)
		out += "| " + kind.name + " |"
		for i := range processes {
			cost := int((busy[i] - idle[i]*took.Seconds()/length.Seconds()) * 1e6 / float64(count))
			if cost >= resolution {
				out += fmt.Sprintf(" %d", cost/step*step)
			}
			out += " |"
		}
		out += "\n"
	}
	write(out)
}

// BenchmarkStrangers measures a list of a paying client alone, and beside 32 clients without a key
// that repeat one request without a pause.
func BenchmarkStrangers(b *testing.B) {
	write := section(b, "benchmarks.md")
	s := newBenchmark(b, 1000)
	event := read[api.EventList](b, s.url, s.paying[0], benchRecord+"/history").Data[0]
	paying := s.through(listPath + "?limit=50")
	paying.Connections, paying.Count = 1, 500
	var rows []row
	for _, asked := range []struct{ name, path, body string }{
		{"tools/call at /mcp with 60 KB", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` +
			`{"name":"search_opportunities","arguments":{"q":"` + strings.Repeat("a", 60_000) + `"}}}`},
		{"/docs/search", "/docs/search?q=how+is+my+daily+limit+computed", ""},
		{"/records/{id}", "/records/" + recordID(0), ""},
		{"/log/proof/{id}", "/.well-known/opportunity-history/log/proof/" + event.ID, ""},
	} {
		crowd := load.Load{Address: paying.Address, Keys: []string{""}, Connections: 32, Paths: []string{asked.path},
			Body: asked.body}
		var alone, beside series
		for range 7 {
			alone = append(alone, paying.run(b).Quantile(0.5))
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan load.Result)
			go func() { done <- crowd.Run(ctx) }()
			beside = append(beside, paying.run(b).Quantile(0.5))
			cancel()
			<-done
		}
		what := fmt.Sprintf("a list of 50 beside 32 clients at %s against alone: 50th percentile", asked.name)
		rows = append(rows, row{what, "ms", beside, alone, "at most 5"})
	}
	write(table(rows))
}

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
	without.Header = "Accept-Encoding: identity\r\n"
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
