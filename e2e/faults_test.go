package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// campaign is the number of seconds that each fault lasts in `make faults`, which writes the table in docs/operations.md. Otherwise it is
// 0, and a fault lasts for a few calls.
var campaign, _ = strconv.Atoi(os.Getenv("OPPORTUNITY_FAULTS"))

// results are the rows of the table.
var results []string

// report adds a row to the table.
func report(t testing.TB, fault, held, format string, figures ...any) {
	t.Helper()
	results = append(results, fmt.Sprintf("| %s | %s | %s |", fault, held, fmt.Sprintf(format, figures...)))
	t.Log(results[len(results)-1])
}

// duration returns the number of calls that a fault lasts.
func duration() int {
	if campaign > 0 {
		return campaign * rate()
	}
	return 40
}

// rate returns the number of calls per second.
func rate() int {
	if campaign > 0 {
		return 200
	}
	return 60
}

// TestFaults breaks one connection or store after the other under steady traffic. Nothing may answer another status than the one that the
// outage has, and everything must return to normal without help.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := newStack(t, "OPPORTUNITY_TIERS=commercial=10000/1000000/100,free=20/1000000/10", "OPPORTUNITY_SERVICE_CAPACITY=10000000")
	s.fill(t, sample(t))
	readers := s.readers(t)
	for _, key := range readers[0].keys { // from now on each gateway knows the keys
		for _, gateway := range s.gateways {
			require.Equal(t, http.StatusOK, do(t, gateway, call{path: readers[0].path, key: key.Key}).StatusCode)
		}
	}
	t.Run("partitions", func(t *testing.T) { s.partitions(t, readers) })
	t.Run("authquota is slow", func(t *testing.T) { s.slowAuthquota(t, readers) })
	t.Run("stalled posts", func(t *testing.T) { s.stalledPosts(t, readers) })
	t.Run("clock of Redis", func(t *testing.T) { s.movedClock(t, readers) })
	if campaign > 0 && !t.Failed() {
		writeTable(t)
	}
}

// partition describes a connection that fails. Calls of the unavailable kinds get 503 meanwhile, all others 200.
type partition struct {
	from, to    string
	unavailable []string
}

var partitions = []partition{
	{"gateway", "redis", []string{listCall, recordCall, historyCall}},
	{"gateway", "catalog", []string{listCall, recordCall}},
	{"gateway", "history", []string{historyCall}},
	{"gateway", "authquota", []string{pageCall}},
	{"authquota", "redis", nil},
	{"authquota", "postgres", nil},
	{"catalog", "postgres", nil},
	{"history", "postgres", []string{historyCall}},
	{"catalog", "history", nil},
	{"history", "catalog", nil},
}

func (s *stack) partitions(t *testing.T, readers []caller) {
	for _, p := range partitions {
		l := s.link(p.from, p.to)
		ways := []struct {
			name  string
			start func()
		}{{"closed", l.cut}, {"requests lost", l.loseRequests}, {"responses lost", l.loseResponses}}
		if campaign == 0 && p.from == "gateway" && p.to != "redis" {
			ways = ways[:1] // each call of the other ways lasts as long as the gateway's timeout
		}
		for _, way := range ways {
			t.Run(p.from+" to "+p.to+" "+way.name, func(t *testing.T) { s.partition(t, p, way.name, l, way.start, readers) })
		}
	}
}

func (s *stack) partition(t *testing.T, p partition, way string, l *link, fail func(), readers []caller) {
	tr := s.send(t, rate(), readers)
	tr.succeeds()
	begin := time.Now()
	fail()
	tr.next(duration())
	end := time.Now()
	l.repair()
	back := tr.succeeds()
	calls := tr.end()

	var figures []string
	for _, c := range readers {
		got := between(calls, c.kind, begin, end)
		by, want := counts(got), http.StatusOK
		if slices.Contains(p.unavailable, c.kind) {
			want = http.StatusServiceUnavailable
			require.NotZero(t, by[want], "%s: %v", c.kind, by)
			delete(by, http.StatusOK) // of calls on the way, or answered before the fault was noticed
		}
		require.Equal(t, []int{want}, keysOf(by), "%s", c.kind)
		figures = append(figures, fmt.Sprintf("%s %d × %d", c.kind, want, by[want]))
	}
	report(t, p.from+" to "+p.to+": "+way, "only these statuses", "%s; normal %.1f s after the repair", strings.Join(figures, ", "), back.Sub(end).Seconds())
}

func keysOf(by map[int]int) (keys []int) {
	for k := range by {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// slowAuthquota delays every response of authquota by three seconds. Calls with known keys do not notice.
func (s *stack) slowAuthquota(t *testing.T, readers []caller) {
	l, known := s.link("gateway", "authquota"), readers[:3]
	tr := s.send(t, rate(), known)
	tr.succeeds()
	start := time.Now()
	tr.next(duration())
	begin := time.Now()
	l.delay(3 * time.Second)
	tr.next(duration())
	end := time.Now()
	l.repair()
	calls := tr.end()
	require.Equal(t, []int{http.StatusOK}, keysOf(counts(calls)))
	p99 := func(from, to time.Time) (all []time.Duration) {
		for _, kind := range []string{listCall, recordCall, historyCall} {
			for _, c := range between(calls, kind, from, to) {
				all = append(all, c.to.Sub(c.from))
			}
		}
		slices.Sort(all)
		return all[len(all)*99/100:][:1]
	}
	report(t, "authquota answers 3 s late", "every call with a known key succeeds", "p99 %v before, %v during it",
		p99(start, begin)[0].Round(100*time.Microsecond), p99(begin, end)[0].Round(100*time.Microsecond))
}

// movedClock moves the clock of Redis while an account calls as often as it can.
func (s *stack) movedClock(t *testing.T, readers []caller) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			greedy := []caller{{kind: listCall, path: "/api/v1/opportunities", keys: []issued{s.issue(t, api.Free)}}}
			flood, honest := s.send(t, rate(), greedy), s.send(t, rate(), readers)
			honest.succeeds()
			begin := time.Now()
			s.moveRedisClock(t, by)
			honest.next(duration())
			end := time.Now()
			s.moveRedisClock(t, 0)
			back := honest.succeeds()
			honest.next(duration())
			calls, all := honest.end(), flood.end()
			require.LessOrEqual(t, mostIn(all, time.Minute), 20)
			var wrong int
			for _, c := range readers {
				by := counts(between(calls, c.kind, begin, back))
				wrong += by[http.StatusServiceUnavailable] + by[http.StatusTooManyRequests]
				delete(by, http.StatusServiceUnavailable)
				require.Equal(t, []int{http.StatusOK}, keysOf(by))
			}
			report(t, fmt.Sprintf("the clock of Redis moves by %v and back", by), "at most 20 calls of an account with a limit of 20 within any 60 s",
				"%d; %d calls of others answered 503 or 429, the last %.1f s after the clock was right again", mostIn(all, time.Minute), wrong, back.Sub(end).Seconds())
		})
	}
}

// stalledPosts opens many posts to the public port whose bodies never end.
func (s *stack) stalledPosts(t *testing.T, readers []caller) {
	posts := 100
	if campaign > 0 {
		posts = 2000
	}
	tr := s.send(t, rate(), readers)
	tr.succeeds()
	begin := time.Now()
	head := "POST /account/sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 65000\r\n\r\nemail="
	for range posts {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, head+strings.Repeat("x", 60000))
		require.NoError(t, err)
	}
	tr.next(duration())
	memory := s.memory(t, "gateway")
	end := time.Now()
	calls := tr.end()
	require.Less(t, memory, 200<<20)
	for _, c := range readers {
		require.Equal(t, []int{http.StatusOK}, keysOf(counts(between(calls, c.kind, begin, end))), c.kind)
	}
	report(t, fmt.Sprintf("%d stalled posts of 64 kB from one network", posts), "no call fails, below 200 MiB", "largest gateway %d MiB", memory>>20)
}

// memory returns the resident memory of the largest process of a service.
func (s *stack) memory(t testing.TB, service string) (most int) {
	t.Helper()
	for _, p := range s.processes {
		if !strings.HasPrefix(p.name, service+" ") {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
		require.NoError(t, err)
		pages, err := strconv.Atoi(strings.Fields(string(text))[1])
		require.NoError(t, err)
		most = max(most, pages*os.Getpagesize())
	}
	require.NotZero(t, most, "no process of %s", service)
	return most
}

// moveRedisClock sets the difference between the clock of Redis and the right one.
func (s *stack) moveRedisClock(t testing.TB, by time.Duration) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.clock, []byte(strconv.Itoa(int(by.Seconds()))), 0o600))
	require.InDelta(t, by.Minutes(), time.Until(s.redis.Client().Time(t.Context()).Val()).Minutes(), 1)
}

// clockLibrary builds the library that moves the clock of a program.
func clockLibrary(t testing.TB) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "clock.so")
	out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-O2", "-o", library, "clock/clock.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return library
}

// writeTable replaces the table of the last campaign in docs/operations.md.
func writeTable(t *testing.T) {
	t.Helper()
	const file, begin, end = "../docs/operations.md", "<!-- begin: make faults -->\n", "<!-- end: make faults -->"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "%s has no %s", file, begin)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no %s", file, end)
	table := fmt.Sprintf("Each fault lasted %d seconds, at %d calls a second.\n\n", campaign, rate()) + "| Fault | Held | Measured |\n|---|---|---|\n" + strings.Join(results, "\n") + "\n\n"
	require.NoError(t, os.WriteFile(file, []byte(before+begin+"\n"+table+end+after), 0o644)) //nolint:gosec // a page
}
