package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/load"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// side is a system in a comparison, with the processes whose CPU time is measured.
type side struct {
	load.Load

	processes []*process
}

// callsOf returns calls of paths at an address, with 16 connections.
func callsOf(address string, keys []string, processes []*process, paths ...string) side {
	return side{load.Load{Address: address, Keys: keys, Paths: paths, Connections: 16, Header: gzip}, processes}
}

const (
	gzip     = "Accept-Encoding: gzip\r\n"
	identity = "Accept-Encoding: identity\r\n"
)

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

// cpu returns the CPU time of the side's processes. It also empties their logs, which would fill
// the disk.
func (s side) cpu(b *testing.B) (sum float64) {
	for _, p := range s.processes {
		sum += cpu(b, p.cmd.Process.Pid)
		_ = os.Truncate(string(p.out), 0)
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
	var pids []int
	for _, name := range []string{"gateway", "catalog", "history", "authquota"} {
		pids = append(pids, s.process(b, name).cmd.Process.Pid)
	}
	redis := storetest.Must(strconv.Atoi(s.redis.Client().InfoMap(b.Context(), "server").Item("Server", "process_id")))(b)
	pids = append(pids, redis, postgresServer(b))
	spent := func(count int, rate float64, path string) (spent []float64, seconds float64) {
		for _, p := range s.processes {
			_ = os.Truncate(string(p.out), 0)
		}
		for _, pid := range pids {
			spent = append(spent, -cpu(b, pid))
		}
		l := s.through(path)
		if l.Count, l.Rate = count, rate; rate > 0 {
			l.Connections = 64
		}
		r := l.run(b)
		for i, pid := range pids {
			spent[i] += cpu(b, pid)
		}
		return spent, r.Elapsed.Seconds()
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
		for i := range pids {
			if cost := int((busy[i] - idle[i]*took/length) * 1e6 / float64(count)); cost >= resolution {
				out += fmt.Sprintf(" %d", cost/step*step)
			}
			out += " |"
		}
		out += "\n"
	}
	write(out)
}

// postgresServer returns the process id of the Postgres server, the parent of each connection's
// process.
func postgresServer(b *testing.B) (pid int) {
	db := storetest.Must(pgx.Connect(b.Context(), os.Getenv(storetest.PostgresVariable)))(b)
	defer db.Close(b.Context()) //nolint:errcheck // the query's error counts
	query := "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int"
	require.NoError(b, db.QueryRow(b.Context(), query).Scan(&pid))
	return pid
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
