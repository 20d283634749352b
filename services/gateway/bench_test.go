package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway"
	"opportunity.internal/services/gateway/internal/admission"
)

// BenchmarkGateway compares the CPU time of a request through the gateway, without tracing, and
// through a tuned httputil.ReverseProxy. The service and the clients run in another process, as
// does Redis, so only the two proxies are measured. The cost of the Redis client is measured
// separately, with the same number of admissions outside of requests.
//
// Metrics: CPU µs of the proxy, of the gateway, and of the gateway's admissions; the gateway
// without and with admissions in units of the proxy.
func BenchmarkGateway(b *testing.B) {
	w := newEnvironment(b)
	other := startOther(b)
	behind, err := url.Parse(other)
	require.NoError(b, err)
	transport := peer.NewTransport(nil, 0)
	defer transport.CloseIdleConnections()
	alone := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, BufferPool: pool{},
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(behind); p.SetXForwarded() },
	})
	defer alone.Close()
	gw := w.start(func(cfg *gateway.Config) {
		cfg.CatalogURL, cfg.Telemetry.LogOutput, cfg.ServiceCapacity = other, io.Discard, 1<<40
	})
	key := w.authquota.issue("acc_a", api.Limits{PerMinute: 1 << 40, PerDay: 1 << 40, PageSize: 100,
		History: true}).Reveal()

	const block = 4000
	load := func(target string) time.Duration {
		before := cpu(b)
		resp, err := client.Get(fmt.Sprintf("%s/load?n=%d&target=%s&key=%s", other, block, url.QueryEscape(target), key))
		require.NoError(b, err)
		defer resp.Body.Close()
		verdict, err := io.ReadAll(resp.Body)
		require.NoError(b, err)
		require.Equal(b, "ok", string(verdict))
		return cpu(b) - before
	}
	admit := admissions(b, w, block)
	load(alone.URL)
	load(gw.url)
	admit()
	var ours, theirs, redis time.Duration
	n := 0
	for b.Loop() { // alternate, so that noise of the machine affects both
		theirs += load(alone.URL)
		ours += load(gw.url)
		before := cpu(b)
		admit()
		redis += cpu(b) - before
		n += block
	}
	for name, spent := range map[string]time.Duration{"proxy-µs/req": theirs, "gateway-µs/req": ours,
		"admission-µs/req": redis} {
		b.ReportMetric(float64(spent.Microseconds())/float64(n), name)
	}
	b.ReportMetric((ours-redis).Seconds()/theirs.Seconds(), "without-redis/proxy")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "with-redis/proxy")
}

// admissions returns a function that makes n admissions like the gateway. Some of the gateway's 16
// concurrent requests are always with the service; 8 callers give batches of about the same size,
// three.
func admissions(b *testing.B, w *environment, n int) func() {
	ctx := context.Background()
	tel, err := telemetry.Start(ctx, "bench", telemetry.Config{LogOutput: io.Discard})
	require.NoError(b, err)
	counters, err := redisdb.Open(redisdb.Config{URL: w.redis.URL}, tel)
	require.NoError(b, err)
	b.Cleanup(func() { counters.Close() })
	limiter := admission.New(admission.Config{
		Redis: counters, Tracer: tel.Tracer, Log: tel.Log, Capacity: 1 << 40, Now: time.Now,
		Restore: func(ctx context.Context, day string) error {
			return counters.HSetNX(ctx, counter.Day(day), counter.ServiceField, 0).Err()
		},
	})
	p := api.Principal{Account: "acc_admissions", Epoch: 1, Limits: api.Limits{PerMinute: 1 << 40, PerDay: 1 << 40}}
	require.NoError(b, w.counters.HSet(ctx, counter.Epochs, p.Account, p.Epoch).Err())
	return func() {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range n / 8 {
					if d, err := limiter.Admit(ctx, p); err != nil || d.Verdict != admission.Admitted {
						b.Error(d.Verdict, err)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// cpu returns the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type pool struct{}

var buffers = sync.Pool{New: func() any { return make([]byte, 32<<10) }}

func (pool) Get() []byte  { return buffers.Get().([]byte) }
func (pool) Put(b []byte) { buffers.Put(b) } //nolint:staticcheck // the interface wants it so

// otherVariable, if set, makes the test binary run as the other process of the benchmark.
const otherVariable = "OPPORTUNITY_TEST_OTHER_PROCESS"

// startOther starts the process that is both the service and the clients. It returns its URL.
func startOther(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		in.Close() // ends the process
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(address)
}

// other runs the other process. /load sends n requests to a target over 16 connections; any other
// path responds as a service.
func other() {
	page := []byte(`{"data":"` + strings.Repeat("x", 2300) + `"}`)
	callers := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	mux := http.NewServeMux()
	mux.HandleFunc("/load", func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscan(r.FormValue("n"), &n)
		var all sync.WaitGroup
		var once sync.Once
		verdict := "ok"
		for range 16 {
			all.Go(func() {
				for range n / 16 {
					if err := fetch(r.Context(), callers, r.FormValue("target"), r.FormValue("key")); err != nil {
						once.Do(func() { verdict = err.Error() })
						return
					}
				}
			})
		}
		all.Wait()
		_, _ = io.WriteString(w, verdict)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h[api.RequestIDHeader] = r.Header[api.RequestIDHeader]
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", fmt.Sprint(len(page)))
		h.Set("ETag", `W/"0123456789abcdef"`)
		h.Set("Cache-Control", "private, no-cache")
		h.Set("Vary", "Authorization")
		_, _ = w.Write(page)
	})
	s := httptest.NewServer(mux)
	fmt.Println(s.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func fetch(ctx context.Context, callers *http.Client, target, key string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target+"/api/v1/opportunities?country=CA", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := callers.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n < 2300) {
		err = fmt.Errorf("status %d with %d bytes", resp.StatusCode, n)
	}
	return err
}
