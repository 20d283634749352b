package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// TestFaultsConnections breaks one connection after the other under steady traffic, and opens posts
// that never end. No request may get another status than the one that the outage has, and
// everything must return to normal without help.
func TestFaultsConnections(t *testing.T) {
	t.Parallel()
	s, readers := newStackWithReaders(t, parts{billing: true})
	for _, p := range partitions {
		s.partition(t, p, readers)
	}
	t.Run("stalled posts", func(t *testing.T) { s.stalledPosts(t, readers) })
}

// partition describes a connection that fails. Calls of the unavailable kinds get 503 meanwhile,
// all others 200.
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
	{"authquota", "postgres", []string{pageCall}},
	{"catalog", "postgres", nil},
	{"history", "postgres", []string{historyCall}},
	{"catalog", "history", nil},
	{"history", "catalog", nil},
	{"gateway", "billing", nil},
	{"authquota", "billing", nil},
	{"billing", "authquota", nil},
	{"billing", "postgres", nil},
}

func (s *stack) partition(t *testing.T, p partition, readers []caller) {
	l := s.link(p.from, p.to)
	ways := []struct {
		name string
		fail func()
	}{{"closed", l.cut}, {"requests lost", l.loseRequests}, {"responses lost", l.loseResponses}}
	if campaign == 0 && p.from == "gateway" && p.to != "redis" {
		ways = ways[:1] // each call of the other ways lasts as long as the gateway's timeout
	}
	for _, way := range ways {
		t.Run(p.from+" to "+p.to+" "+way.name, func(t *testing.T) { s.breakConnection(t, p, way.name, l, way.fail, readers) })
	}
}

func (s *stack) breakConnection(t *testing.T, p partition, way string, l *link, fail func(), readers []caller) {
	row := newResult(t, p.from+" to "+p.to+": "+way, "only these statuses")
	// keys known since an earlier fault may expire: without authquota, gateways use a key for at most
	// five minutes
	if campaign > 0 {
		readers = s.readers(t)
	}
	e := s.during(t, readers, duration(), fail, l.repair)
	if slices.Contains([]string{p.from, p.to}, "billing") { // the connection is necessary for plans alone
		key := s.issue(t, api.Free)
		eventually(t, "the plan is sold", func() bool { return s.buy(t.Context(), key.Account) == nil })
		s.hasPlan(t, key)
	}

	var figures []string
	for _, c := range readers {
		got, want := e.of(c.kind), http.StatusOK
		by := counts(got)
		if slices.Contains(p.unavailable, c.kind) {
			want = http.StatusServiceUnavailable
			require.NotZero(t, by[want], "%s: %v", c.kind, by)
			delete(by, http.StatusOK) // of calls on the way, or answered before the fault was noticed
			require.Equal(t, []int{want}, keysOf(by), "%s", c.kind)
		} else {
			requireServed(t, got, c.kind)
		}
		figures = append(figures, fmt.Sprintf("%s %d × %d", c.kind, want, by[want]))
	}
	row.set("%s; normal %.1f s after the repair", strings.Join(figures, ", "), e.recovery())
}

func keysOf(by map[int]int) (keys []int) {
	for k := range by {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// stalledPosts opens many posts to the public port whose bodies never end.
func (s *stack) stalledPosts(t *testing.T, readers []caller) {
	posts := 100
	if campaign > 0 {
		posts = 2000
	}
	row := newResult(t, fmt.Sprintf("%d stalled posts of 64 kB from one network", posts), "no call fails, below 200 MiB")
	head := "POST /account/sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 65000\r\n\r\nemail="
	memory := 0
	e := s.during(t, readers, duration(), func() {
		for range posts {
			conn := storetest.Must(new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://")))(t)
			t.Cleanup(func() { _ = conn.Close() })
			_, err := io.WriteString(conn, head+strings.Repeat("x", 60000))
			require.NoError(t, err)
		}
	}, func() { memory = s.memory(t, "gateway") })
	require.Less(t, memory, 200<<20)
	for _, c := range readers {
		requireServed(t, e.of(c.kind), c.kind)
	}
	row.set("largest gateway %d MiB", memory>>20)
}

// memory returns the resident memory of the largest process of a service.
func (s *stack) memory(t testing.TB, service string) (most int) {
	t.Helper()
	for _, p := range s.processes {
		if !strings.HasPrefix(p.name, service+" ") {
			continue
		}
		proc := storetest.Must(procfs.NewProc(p.cmd.Process.Pid))(t)
		stat := storetest.Must(proc.Stat())(t)
		most = max(most, stat.ResidentMemory())
	}
	require.NotZero(t, most, "no process of %s", service)
	return most
}
