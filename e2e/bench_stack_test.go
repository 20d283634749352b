package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
)

const unlimited = 1_000_000_000

// benchmark is a stack with one gateway, no links between its processes, and limits that no run
// reaches.
type benchmark struct {
	*testing.B
	*stack

	paying   []string // keys without limits
	smallKey string   // one call per day

	imported, appended time.Duration // what filling the stack took
}

func newBenchmark(b *testing.B, n int) *benchmark {
	patience = 10 * time.Minute
	redis := redistest.Start(b)
	s := &benchmark{B: b, stack: newStackOn(b, parts{gateways: 1, direct: true, redis: redis.URL},
		"OPPORTUNITY_HISTORY_SIGNING_KEY="+strings.Repeat("0a", 32),
		fmt.Sprintf("OPPORTUNITY_SERVICE_CAPACITY=%d", unlimited), // the highest limits that a tier can have:
		fmt.Sprintf("OPPORTUNITY_TIERS=developer=1/1/50,commercial=10000/%d/100", unlimited))}
	s.redis, s.addresses["redis"], s.addresses["gateway"] = redis, hostOf(b, redis.URL), hostOf(b, s.url)
	for range 64 { // enough for 10,000 calls per second with those limits
		s.paying = append(s.paying, s.issue(b, api.Commercial).Key)
	}
	s.smallKey = s.issue(b, api.Developer).Key
	now := time.Now().UTC()
	s.imported = s.send(0, n, now, listingLine, "listings", "import", "--yes")
	s.appended = s.send(0, n, now, reviewLine, "events", "append")
	eventually(b, fmt.Sprintf("the API lists %d reviewed records", n), func() bool {
		a := get(b, s.url, s.paying[0], listPath+"?limit=1&checked_after=2000-01-01")
		return a.StatusCode == http.StatusOK && decode[api.OpportunityList](b, a).Pagination.Total == n
	})
	return s
}

func (s *benchmark) restarted(service string) time.Duration {
	p := s.process(s, service)
	p.interrupt(s)
	p.wait(s)
	begun := time.Now()
	s.restart(s, service)
	ready(s, s.operationsOf(service)+"/readyz")
	took := time.Since(begun)
	s.ready(s)
	return took
}

// send writes lines of records from (inclusive) to (exclusive) to files and passes each to a verb
// of the operator. It returns the time of the verbs.
func (s *benchmark) send(
	from, to int, now time.Time, line func(i int, at time.Time) string, verb ...string,
) (spent time.Duration) {
	file := filepath.Join(s.TempDir(), "import.jsonl")
	for ; from < to; from += 20_000 { // a file may have 64 MiB
		var lines []string
		if verb[0] == "listings" {
			lines = append(lines, `{"format":"opportunity-listings","version":1}`)
		}
		for i := from; i < min(from+20_000, to); i++ {
			lines = append(lines, line(i, timeOf(i, now)))
		}
		require.NoError(s, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
		begun := time.Now()
		s.verb(s, "", append(verb, file)...)
		spent += time.Since(begun)
	}
	return spent
}

// timeOf returns the time of the i-th record. They are a second apart, back from now.
func timeOf(i int, now time.Time) time.Time {
	return now.UTC().Add(-time.Duration(i+1) * time.Second).Truncate(time.Second)
}

const mib = 1 << 20

// metric returns the value of a metric without labels of a service.
func (s *benchmark) metric(service, name string) float64 {
	_, value, _ := strings.Cut(string(get(s, s.operationsOf(service), "", "/metrics").body), "\n"+name+" ")
	value, _, _ = strings.Cut(value, "\n")
	v, err := strconv.ParseFloat(value, 64)
	require.NoError(s, err, "%s of %s", name, service)
	return v
}

// encoded returns the size of the encoded records of the catalog in MiB.
func (s *benchmark) encoded() float64 { return s.metric("catalog", "catalog_snapshot_bytes") / mib }

// redisProcess returns the process of Redis, for its CPU time.
func (s *benchmark) redisProcess() *process {
	info := s.redis.Client().InfoMap(s.Context(), "server")
	return processOf(storetest.Must(strconv.Atoi(info.Item("Server", "process_id")))(s))
}

// postgresProcess returns the process of the Postgres server, whose children serve connections.
func (s *benchmark) postgresProcess() *process {
	db := storetest.Must(pgx.Connect(s.Context(), os.Getenv(storetest.PostgresVariable)))(s)
	defer db.Close(s.Context()) //nolint:errcheck // the query's error counts
	var pid int
	query := "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int"
	require.NoError(s, db.QueryRow(s.Context(), query).Scan(&pid))
	return processOf(pid)
}

func processOf(pid int) *process { return &process{cmd: &exec.Cmd{Process: &os.Process{Pid: pid}}} }

// cpu returns the CPU time in seconds of a process and of its children, such as the workers of
// nginx. Its resolution is 10 ms. It also empties the log of the process, which would fill the disk.
func cpu(b *testing.B, p *process) (sum float64) {
	_ = os.Truncate(string(p.out), 0)
	for _, each := range storetest.Must(procfs.AllProcs())(b) {
		stat, err := each.Stat()
		if err != nil || stat.PID != p.cmd.Process.Pid && stat.PPID != p.cmd.Process.Pid {
			continue
		}
		sum += stat.CPUTime()
		if stat.PID == p.cmd.Process.Pid {
			sum += float64(stat.CUTime+stat.CSTime) / 100 // of children that ended
		}
	}
	return sum
}

// memory returns the resident memory of a service in MiB, without the idle heap, which Go returns
// to the system later. It waits for two garbage collections: one that runs already keeps what was
// in use when it began, and pools lose their buffers in the second. Polling allocates, so they come
// soon; Go starts one after two minutes at most.
func (s *benchmark) memory(service string) float64 {
	const collections = "go_gc_duration_seconds_count"
	before := s.metric(service, collections)
	eventually(s, service+" has collected garbage", func() bool { return s.metric(service, collections) >= before+2 })
	idle := s.metric(service, "go_memstats_heap_idle_bytes") - s.metric(service, "go_memstats_heap_released_bytes")
	return (s.metric(service, "process_resident_memory_bytes") - idle) / mib
}

// peak returns the highest resident memory of a service so far in MiB.
func (s *benchmark) peak(service string) float64 {
	proc := storetest.Must(procfs.NewProc(s.process(s, service).cmd.Process.Pid))(s)
	status := storetest.Must(proc.NewStatus())(s)
	return float64(status.VmHWM) / mib
}

func recordID(i int) string { return fmt.Sprintf("platform-%07d", i) }

// listingLine returns the i-th invented listing as a line for import. It is a record of about 2.7
// KB.
func listingLine(i int, published time.Time) string {
	random := rand.New(rand.NewPCG(uint64(i), 1)) //nolint:gosec // i is not negative
	line := apitest.Lines(recordID(i))[0]
	line.Visibility, line.PublishedAt, line.Facts = listingfile.Published, &published, factsOf(i)
	line.Company.Name, line.Category = "Platform "+sentence(random, 2), api.Categories[i%len(api.Categories)]
	line.Summary, line.Overview = sentence(random, 12), sentence(random, 300)
	line.StartingCost, line.WorkModel = "None", "Independent contractor"
	text, _ := json.Marshal(line)
	return string(text)
}

func reviewLine(i int, checked time.Time) string {
	review := apitest.Verified(recordID(i), checked)
	review.Facts = factsOf(i)
	return apitest.Line(review)
}

// factsOf returns the facts of the i-th record: every second one is remote.
func factsOf(i int) *api.Facts {
	f := api.UnknownFacts()
	f.Remote, f.DegreeRequired, f.Languages = new(i%2 == 0), new(i%3 == 0), []string{"English"}
	f.ApplicationStatus = api.ApplicationOpen
	f.Requirements = []string{"A computer with a microphone", "A bank account"}
	return &f
}

// sentence returns n words of 3,000. Some are much more frequent than others, as in a language.
func sentence(random *rand.Rand, n int) string {
	chosen := make([]string, n)
	for i := range chosen {
		chosen[i] = strconv.FormatInt(46_656+int64(3000*random.Float64()*random.Float64()*random.Float64()), 36)
	}
	return strings.Join(chosen, " ")
}
