package simulation

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/edge"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/usage"
)

// gateway is one process of the gateway service: its real packages, connected as in package
// gateway.
type gateway struct {
	ahead   *atomic.Int64 // of the machine's clock, so it outlives the process
	started time.Time
	dead    atomic.Bool
	decided atomic.Bool // on a call, so it knows the Redis clock
	handler http.Handler
	keys    *authn.Authenticator
	usage   *usage.Recorder
	redis   *redis.Client
	stop    context.CancelFunc
}

var pages = sync.OnceValues(func() (*docsite.Site, error) {
	return docsite.New("https://api.opportunity.example", docsite.Operator{})
})

func startGateway(name string, ahead *atomic.Int64, n *network, s *store, a *authquota) (*gateway, error) {
	ctx, stop := context.WithCancel(context.Background())
	g := &gateway{ahead: ahead, started: time.Now(), stop: stop}
	tel, err := telemetry.Start(ctx, "gateway", telemetry.Config{LogOutput: io.Discard, LogLevel: slog.LevelError + 1})
	if err != nil {
		return nil, err
	}
	changed := func() { g.keys.NewTerm() }
	if s.bug.noTerm {
		changed = nil
	}
	if g.redis, err = s.connect(name, func() bool { return !g.dead.Load() }, changed, tel); err != nil {
		return nil, err
	}
	if s.bug.retries {
		g.redis.Options().MaxRetries = 1
	}
	g.keys = authn.New(peppers, authn.Authority{
		Resolve: func(ctx context.Context, q api.PrincipalQuery) (api.Principal, error) { return a.resolve(ctx, name, q) },
		KeyDigests: func(ctx context.Context, p api.KeyPosition) (api.KeyDigests, error) {
			return a.keyDigests(ctx, name, p)
		},
	}, g.now, tel.Log)
	g.usage = usage.New(func(ctx context.Context, b api.UsageBatch) error { return a.accept(ctx, name, b) }, tel.Log)
	cfg := admission.Config{
		Redis: g.redis, Tracer: tel.Tracer, Log: tel.Log, Capacity: capacity, BaseCap: baseCapacity, Now: g.now,
		Restore: func(ctx context.Context, day string) error { return a.restore(ctx, name, day) },
	}
	if s.bug.ownClock {
		cfg.RedisNow = g.now
	}
	limiter := admission.New(cfg)
	older, err1 := apikey.ParseOlderForm("key-[a-z0-9-]+")
	catalog := proxy.New("catalog", &url.URL{Scheme: "http", Host: "catalog"}, "token", service{n, name})
	site, err2 := pages()
	var err3 error
	g.handler, err3 = edge.Edge{
		Keys: g.keys, Pages: site, OlderKeys: older, Limiter: limiter, Usage: g.usage, Catalog: catalog, History: catalog,
		Account: catalog,
		Errors:  problem.Writer{Log: tel.Log}, Telemetry: tel, Now: g.now,
	}.Handler()
	go func() { _ = g.keys.Run(ctx, tel) }()
	go func() { _ = g.usage.Run(ctx) }()
	go func() {
		for tick := time.NewTicker(3 * admission.OpenInterval); ; {
			_ = limiter.OpenNextDay(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	return g, errors.Join(err1, err2, err3)
}

// kill ends the process. It sends nothing more.
func (g *gateway) kill() {
	g.dead.Store(true)
	g.stop()
	g.keys.Close()
	_ = g.redis.Close()
}

// now returns the time as a process reads it. A step of a clock moves the wall clock and not the
// monotonic clock. No function of package time returns such a time, so this sets the fields that
// the package documents in its source.
func (g *gateway) now() time.Time {
	const hasMonotonic, nanosecondBits = 1 << 63, 30
	wall, since1885 := time.Now().Add(time.Duration(g.ahead.Load())), time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC)
	fields := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{hasMonotonic | uint64(wall.Unix()-since1885.Unix())<<nanosecondBits | uint64(wall.Nanosecond()),
		int64(time.Since(g.started)) + 1, nil}
	return *(*time.Time)(unsafe.Pointer(&fields)) //nolint:gosec // see above
}

// service is a service behind a gateway. The query of a request names the response.
type service struct {
	net     *network
	gateway string
}

func (s service) RoundTrip(r *http.Request) (*http.Response, error) {
	f := s.net.fate(s.gateway+" to service", r.URL.RawQuery)
	time.Sleep(f.request + f.reply)
	if f.lost || f.unanswered {
		return nil, errConnection
	}
	body := io.Reader(strings.NewReader("{}"))
	status, err := strconv.Atoi(r.URL.Query().Get("answer"))
	if err != nil {
		status, body = http.StatusOK, cut{}
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body), ContentLength: -1, Request: r}, nil
}

// cut is a body that ends early.
type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, errConnection }
