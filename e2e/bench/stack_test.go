package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/storetest"
)

// process is a running program that logs to a file.
type process struct {
	log    string // path
	cmd    *exec.Cmd
	exited chan struct{}
}

// start starts a program with these settings and nothing else from the environment but the basics.
func start(b *testing.B, settings []string, path string, args ...string) *process {
	p := &process{log: filepath.Join(b.TempDir(), "log"), exited: make(chan struct{})}
	p.cmd = exec.Command(path, args...)                                        //nolint:gosec,noctx // stopped by stop
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) // it is truncated
	require.NoError(b, err)
	defer log.Close()
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}, settings...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	require.NoError(b, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	b.Cleanup(func() {
		p.stop()
		if text, _ := os.ReadFile(p.log); b.Failed() {
			b.Logf("%s:\n%s", path, text[max(0, len(text)-2000):])
		}
	})
	return p
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.exited
}

// cpu returns the CPU time in seconds of a process and of its children, such as the workers of
// nginx. Its resolution is 10 ms.
func cpu(b *testing.B, pid int) (sum float64) {
	all, err := procfs.AllProcs()
	require.NoError(b, err)
	for _, each := range all {
		stat, err := each.Stat()
		if err != nil || stat.PID != pid && stat.PPID != pid {
			continue
		}
		sum += stat.CPUTime()
		if stat.PID == pid {
			sum += float64(stat.CUTime+stat.CSTime) / 100 // of children that ended
		}
	}
	return sum
}

// memory returns the resident memory of the process in MiB, now and at most so far. It waits until
// the process has not returned memory for two seconds: the collection after a load ends later.
func (p *process) memory(b *testing.B) (now, peak float64) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	require.NoError(b, err)
	for unchanged := 0; unchanged < 20; unchanged++ {
		status, err := proc.NewStatus()
		require.NoError(b, err)
		if float64(status.VmRSS)/mib+1 < now {
			unchanged = 0
		}
		now, peak = float64(status.VmRSS)/mib, float64(status.VmHWM)/mib
		time.Sleep(100 * time.Millisecond)
	}
	return now, peak
}

const mib = 1 << 20

// call makes a request and returns the body of the response. A status beyond 299 is an error.
func call(method, url, token, body string) ([]byte, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body)) //nolint:noctx // on loopback
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: status %d: %s", method, url, resp.StatusCode, reply)
	}
	return reply, err
}

// eventually waits for at most ten minutes until ok returns true.
func eventually(b *testing.B, what string, ok func() bool) {
	for deadline := time.Now().Add(10 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		require.True(b, time.Now().Before(deadline), what)
	}
}

// available waits until GET url succeeds.
func available(b *testing.B, url string) {
	eventually(b, url, func() bool { _, err := call(http.MethodGet, url, "", ""); return err == nil })
}

const (
	operatorToken = "bench-operator-token-0123456789abcdef0123456789"
	unlimited     = 1_000_000_000
)

// stack is the API as in a cluster: one process of each service that a read needs, Redis and
// Postgres.
type stack struct {
	*testing.B

	address    map[string]string // host and port, by service; also "redis" and "admin"
	operations map[string]string // host and port of the operations port, by service
	settings   map[string][]string
	processes  map[string]*process
	header     map[string]string // of requests of the gateway to a service

	keys     []string // of accounts with limits that no run reaches
	smallKey string   // one call per day

	now                time.Time
	imported, appended time.Duration // what filling the stack took
}

// tokenOf returns the token that a service sends to all others.
func tokenOf(service string) string { return "bench-token-of-" + service + "-0123456789abcdef" }

// newStack starts a stack with n reviewed records.
func newStack(b *testing.B, n int) *stack {
	s := &stack{
		B: b, address: map[string]string{}, operations: map[string]string{}, settings: map[string][]string{},
		processes: map[string]*process{}, now: time.Now().UTC(),
	}
	caller, err := json.Marshal(api.Caller{Tier: api.Commercial, PageSize: 100, History: true})
	require.NoError(b, err)
	s.header = map[string]string{"Authorization": "Bearer " + tokenOf(peer.Gateway), api.CallerHeader: string(caller)}
	services := []string{"catalog", "history", "authquota", "gateway"}
	for _, name := range append(services, "redis", "admin") {
		s.address[name], s.operations[name] = storetest.FreeAddress(b), storetest.FreeAddress(b)
	}
	_, port, _ := strings.Cut(s.address["redis"], ":")
	s.processes["redis"] = start(b, nil, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "")
	for _, name := range services {
		var accepted []string
		for _, caller := range peer.CallersOf(name) {
			accepted = append(accepted, caller+":"+tokenOf(caller))
		}
		token := tokenOf(name)
		s.settings[name] = []string{
			"OPPORTUNITY_DATABASE_URL=" + storetest.Postgres(b), "OPPORTUNITY_DATABASE_ALLOW_OWNER=true",
			"OPPORTUNITY_LISTEN=" + s.address[name], "OPPORTUNITY_OPERATIONS_LISTEN=" + s.operations[name],
			"OPPORTUNITY_PEER_TOKENS=catalog:" + token + ",history:" + token + ",authquota:" + token,
			"OPPORTUNITY_CALLER_TOKENS=" + strings.Join(accepted, ","), "OPPORTUNITY_OPERATOR_TOKENS=" + operatorToken,
			"OPPORTUNITY_PUBLIC_URL=http://" + s.address["gateway"], "OPPORTUNITY_ADMIN_LISTEN=" + s.address["admin"],
			"OPPORTUNITY_CATALOG_URL=http://" + s.address["catalog"], "OPPORTUNITY_HISTORY_URL=http://" + s.address["history"],
			"OPPORTUNITY_AUTHQUOTA_URL=http://" + s.address["authquota"], "OPPORTUNITY_REDIS_URL=redis://" + s.address["redis"],
			"OPPORTUNITY_KEY_PEPPERS=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
			"OPPORTUNITY_ENCRYPTION_KEYS=ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
			"OPPORTUNITY_HISTORY_SIGNING_KEY=" + strings.Repeat("0a", 32),
			"OPPORTUNITY_SMTP_URL=file://" + b.TempDir(), "OPPORTUNITY_MAIL_FROM=no-reply@api.example",
			fmt.Sprintf("OPPORTUNITY_SERVICE_CAPACITY=%d", unlimited), // the highest limits that a tier can have:
			fmt.Sprintf("OPPORTUNITY_TIERS=developer=1/1/50,commercial=10000/%d/100", unlimited),
		}
		if name != "gateway" {
			s.tool(name, "migrate")
		}
		s.serve(name)
	}
	available(b, "http://"+s.address["admin"]+"/readyz")
	for range 64 { // enough for 10,000 calls per second with those limits
		s.keys = append(s.keys, s.issue(api.Commercial))
	}
	s.smallKey = s.issue(api.Developer)
	s.imported = s.send(0, n, s.now, listingLine, "listings", "import", "--yes")
	s.appended = s.send(0, n, s.now, reviewLine, "events", "append")
	eventually(b, fmt.Sprintf("the API lists %d reviewed records", n), func() bool {
		var list struct{ Pagination struct{ Total int } }
		body, err := s.get("/api/v1/opportunities?limit=1&checked_after=2000-01-01")
		return err == nil && json.Unmarshal(body, &list) == nil && list.Pagination.Total == n
	})
	return s
}

// tool runs one of the project's programs to its end.
func (s *stack) tool(name string, args ...string) {
	cmd := exec.CommandContext(s.Context(), filepath.Join(root, "bin", name), args...) //nolint:gosec // of the repository
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}, s.settings[name]...)
	out, err := cmd.CombinedOutput()
	require.NoError(s, err, "%s %v: %s", name, args, out)
}

func (s *stack) serve(name string) {
	s.processes[name] = start(s.B, s.settings[name], filepath.Join(root, "bin", name), "serve")
}

// restart restarts a service and returns the time until it is ready.
func (s *stack) restart(name string) time.Duration {
	s.processes[name].stop()
	begun := time.Now()
	s.serve(name)
	available(s.B, "http://"+s.operations[name]+"/readyz")
	took := time.Since(begun)
	available(s.B, "http://"+s.address["admin"]+"/readyz")
	return took
}

// issue issues a key with an account of its own.
func (s *stack) issue(tier api.Tier) string {
	text, err := call(http.MethodPost, "http://"+s.address["admin"]+"/operator/v1/keys", operatorToken,
		fmt.Sprintf(`{"tier":%q,"useCase":"benchmark"}`, tier))
	require.NoError(s, err)
	var issued api.IssuedKey
	require.NoError(s, json.Unmarshal(text, &issued))
	return issued.Key
}

// get returns the body of a response of the gateway.
func (s *stack) get(path string) ([]byte, error) {
	return call(http.MethodGet, "http://"+s.address["gateway"]+path, s.keys[0], "")
}

// send writes lines of records from (inclusive) to (exclusive) to files and passes each to a verb
// of the operator. It returns the time of the verbs.
func (s *stack) send(
	from, to int, now time.Time, line func(i int, now time.Time) any, verb ...string,
) (spent time.Duration) {
	file := filepath.Join(s.TempDir(), "import.jsonl")
	s.settings["opportunity"] = []string{
		"OPPORTUNITY_ADMIN_URL=http://" + s.address["admin"], "OPPORTUNITY_OPERATOR_TOKEN=" + operatorToken,
		"OPPORTUNITY_ACTOR=bench",
	}
	for ; from < to; from += 20_000 { // a file may have 64 MiB
		var out bytes.Buffer
		if verb[0] == "listings" {
			out.WriteString(`{"format":"opportunity-listings","version":1}` + "\n")
		}
		for i := from; i < min(from+20_000, to); i++ {
			require.NoError(s, json.NewEncoder(&out).Encode(line(i, now)))
		}
		require.NoError(s, os.WriteFile(file, out.Bytes(), 0o600))
		begun := time.Now()
		s.tool("opportunity", append(verb, file)...)
		spent += time.Since(begun)
	}
	return spent
}

// encoded returns the size of the encoded records of the catalog in MiB.
func (s *stack) encoded() float64 {
	text, err := call(http.MethodGet, "http://"+s.operations["catalog"]+"/metrics", "", "")
	require.NoError(s, err)
	_, value, _ := strings.Cut(string(text), "\ncatalog_snapshot_bytes ")
	value, _, _ = strings.Cut(value, "\n")
	size, err := strconv.ParseFloat(value, 64)
	require.NoError(s, err)
	return size / mib
}
