// Package servicetest runs a service in a test as in production, on free loopback ports. It
// captures the log, sets the clock and sends requests as the gateway does. RequireRules compares the
// routes of a service with the rules of its callers.
package servicetest

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

// Main runs the tests of a package and fails if they leave a goroutine, but for those that allowed
// names. Call it from TestMain.
func Main(m goleak.TestingM, allowed ...goleak.Option) { goleak.VerifyTestMain(tests{m}, allowed...) }

type tests struct{ goleak.TestingM }

func (t tests) Run() int {
	defer http.DefaultClient.CloseIdleConnections()
	return t.TestingM.Run()
}

// Service is a running service.
type Service struct {
	URL           string // of the service port, without a trailing slash
	OperationsURL string
	Log           *Log
	Stop          func()   // drains, and fails the test if the service returns an error; called at the end of the test
	Secrets       []string // besides the tokens of services; the test fails if the log contains one

	t    testing.TB
	name string
}

// Start calls run, which runs the service name with these settings until its context ends.
func Start(t testing.TB, name string, run func(context.Context, server.Config, telemetry.Config) error) *Service {
	t.Helper()
	cfg := server.Config{Listener: Listen(t), OperationsListener: Listen(t), Drain: 10 * time.Second}
	s := &Service{URL: "http://" + cfg.Listener.Addr().String(), OperationsURL: "http://" +
		cfg.OperationsListener.Addr().String(), Log: new(Log), t: t, name: name}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, cfg, telemetry.Config{LogOutput: s.Log}) }()
	s.Stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		storetest.AwaitForks() // the next service may listen on the same port
	})
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Log(s.Log.String())
		}
		for _, secret := range append(s.Secrets, allTokens()...) {
			require.NotContains(t, s.Log.String(), secret, "secret in the log")
		}
	})
	return s
}

// WaitReady waits until the service is ready.
func (s *Service) WaitReady() {
	s.t.Helper()
	storetest.Eventually(s.t, "ready", func() bool { return s.operations("/readyz").Status == http.StatusOK })
}

// Metrics returns the text of /metrics.
func (s *Service) Metrics() string {
	s.t.Helper()
	return s.operations("/metrics").Body
}

// HasMetric reports whether /metrics has the line.
func (s *Service) HasMetric(line string) bool {
	s.t.Helper()
	return strings.Contains(s.Metrics(), "\n"+line+"\n")
}

// Series returns the series of a metric by their labels, such as "command=get outcome=failed": the
// values of counters and gauges, and the number of observations of histograms.
func Series(t testing.TB, from prometheus.Gatherer, metric string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, family := range storetest.Must(from.Gather())(t) {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func (s *Service) operations(path string) Response {
	return Send(s.t, http.MethodGet, s.OperationsURL+path, nil, nil)
}

// Listen returns a listener on a free loopback port. It is closed at the end of the test.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln := storetest.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// RequireClosed fails the test unless the listeners are closed.
func RequireClosed(t testing.TB, listeners ...net.Listener) {
	t.Helper()
	for _, ln := range listeners {
		again, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err, "the listener is still open")
		_ = again.Close()
	}
}

// Log is the captured log of a service.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the log so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Stepped returns t, which must be from time.Now, as read after the wall clock was set forward by
// whole seconds, or back if d is negative. Its monotonic reading is that of t.
func Stepped(t time.Time, d time.Duration) time.Time {
	// in the first word of a time with a monotonic reading
	const secondsAt = 30
	*(*int64)(unsafe.Pointer(&t)) += int64(d/time.Second) << secondsAt //nolint:gosec // no other way to have such a time
	return t
}

// Clock is a clock that only the test moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows now.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
