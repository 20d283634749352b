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

// BenchmarkGateway compares the CPU time of one request through the gateway, with everything on but tracing, with that of the
// same request through a tuned httputil.ReverseProxy alone. The service behind them and the callers run in another process, as
// Redis does, so the time is that of the two proxies alone. What the gateway spends on talking to Redis is measured apart, by
// as many admissions without a request around them.
//
// Metrics: CPU µs of the proxy, of the gateway, and of the gateway's admissions; the gateway without and with admissions in
// units of the proxy.
func BenchmarkGateway(b *testing.B) {
	w := newWorld(b)
	other := startOther(b)
	behind, err := url.Parse(other)
	require.NoError(b, err)
	transport := peer.Transport()
	defer transport.CloseIdleConnections()
	alone := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, BufferPool: pool{},
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(behind); p.SetXForwarded() },
	})
	defer alone.Close()
	gw := w.start(func(cfg *gateway.Config) {
		cfg.CatalogURL, cfg.Telemetry.LogOutput, cfg.ServiceCapacity = other, io.Discard, 1<<40
	})
	key := w.authority.issue("acc_a", api.Limits{PerMinute: 1 << 40, PerDay: 1 << 40, PageSize: 100, History: true}).Reveal()

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
	for b.Loop() { // in turn, so that a disturbance of the machine meets both
		theirs += load(alone.URL)
		ours += load(gw.url)
		before := cpu(b)
		admit()
		redis += cpu(b) - before
		n += block
	}
	for name, spent := range map[string]time.Duration{"proxy-µs/req": theirs, "gateway-µs/req": ours, "admission-µs/req": redis} {
		b.ReportMetric(float64(spent.Microseconds())/float64(n), name)
	}
	b.ReportMetric((ours-redis).Seconds()/theirs.Seconds(), "without-redis/proxy")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "with-redis/proxy")
}

// admissions gives a function that makes n admissions as the gateway makes them. Of the gateway's 16 requests some are with the
// service at any time: with 8 callers about as many, three, meet in a batch as there.
func admissions(b *testing.B, w *world, n int) func() {
	ctx := context.Background()
	tel, err := telemetry.Start(ctx, "bench", telemetry.Config{LogOutput: io.Discard})
	require.NoError(b, err)
	counters, err := redisdb.Open(redisdb.Config{URL: w.redis.URL}, tel)
	require.NoError(b, err)
	b.Cleanup(func() { counters.Close() })
	limiter := admission.New(counters, tel.Tracer, 1<<40, func(context.Context, string) (api.DayUsage, error) { return api.DayUsage{}, nil }, nil)
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

// cpu is what this process has used so far.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type pool struct{}

var buffers = sync.Pool{New: func() any { return make([]byte, 32<<10) }}

func (pool) Get() []byte  { return buffers.Get().([]byte) }
func (pool) Put(b []byte) { buffers.Put(b) } //nolint:staticcheck // the interface wants it so

// otherVariable makes the test binary the other process of the benchmark.
const otherVariable = "OPPORTUNITY_TEST_OTHER_PROCESS"

// startOther starts the process that is both the service behind and the callers in front, and gives its URL.
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
		in.Close() // it ends with its input
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(address)
}

// other is the other process. /load makes n requests of a target from 16 connections; anything else answers as a service.
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
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
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
