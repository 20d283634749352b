// Package gateway is the public entry point of the API. It authenticates API keys, enforces the
// limits, and forwards requests to the catalog and history services. It also serves the
// documentation, and the operator API on a separate listener. Replicas hold only caches; any number
// of them share their counters in one Redis.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admin"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/agent"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/edge"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/usage"
)

var definition = service.Definition[Config]{
	Name: "gateway", Start: start, Check: check,
	Base: func(c Config) service.Base {
		return service.Base{
			Server: c.Server, Telemetry: c.Telemetry, Peers: c.Peers, Now: c.Now,
			Ports: []server.Port{{Name: adminPort, Setting: "OPPORTUNITY_ADMIN_LISTEN", Address: c.AdminListen,
				Listener: c.AdminListener}},
		}
	},
}

const adminPort = "admin"

// Main runs one command with settings from lookup. "serve" runs until ctx ends, "check" validates
// the settings and connects to Redis and the services, and "ready" probes the process that serves
// on this host.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	return definition.Main(ctx, lookup, args, nil)
}

// gcPercent is the growth of the heap between two collections, in percent. Live memory is about 7
// MB, so by Go's default of 100 percent a loaded gateway would collect ten times a second, for a
// tenth of its CPU.
const gcPercent = 400

// Run serves until ctx ends, and then drains. It starts without Redis and the services and responds
// with 503 while they are unavailable, so consumers get the errors of the API contract and not
// those of a load balancer. It is ready once it has reached Redis, so that a rollout with a wrong
// URL keeps the old replicas, and stays ready when Redis is lost later.
func Run(ctx context.Context, cfg Config) error { return definition.Run(ctx, cfg) }

const finalFlushTimeout = 3 * time.Second

func start(r *service.Runtime, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	published, err := cfg.published()
	if err != nil {
		return err
	}
	pages, err := docsite.New(cfg.PublicURL, published)
	if err != nil {
		return err
	}
	errorWriter := problem.Writer{BaseURL: cfg.PublicURL, Log: r.Log}
	var keys *authn.Authenticator
	cfg.Redis.OnNewPrimary = func() { keys.NewTerm() }
	counters, err := r.Redis(cfg.Redis)
	if err != nil {
		return err
	}
	forwarding := r.NewConnections(api.GatewayTimeout) // for requests of clients; a service has that long to respond
	quick := func(name, base string) *peer.Client {
		return peer.New(base, cfg.Tokens.For(name), r.Transport(forwarding, name))
	}
	authquota := quick(peer.Authquota, cfg.AuthquotaURL)
	keys = newKeys(cfg, authquota, r)
	recorder := newRecorder(authquota, r.Telemetry)
	settings := &shared{cfg: cfg, pages: pages, fetch: fetchSettings(authquota), outdated: keys.NewTerm, now: r.Now}
	limiter := newLimiter(cfg, counters, r)
	agents, err := agent.New(cfg.PublicURL, r.Log)
	if err != nil {
		return err
	}
	behind := func(transport http.RoundTripper, name, base string) *proxy.Service {
		u, _ := url.Parse(base) // checked by Validate
		return proxy.New(name, u, cfg.Tokens.For(name), r.Transport(transport, name))
	}
	services, owners := map[string]*proxy.Service{}, admin.Owners{}
	for name, base := range cfg.services() {
		services[name] = behind(forwarding, name, base)
		owners[name] = behind(r.Connections(), name, base) // no response timeout: operators send whole files
		r.WatchPeer(name, base, cfg.Tokens)
	}
	trusted, _ := config.Prefixes(cfg.TrustedProxies) // checked by Validate, as the next two
	older, _ := apikey.ParseOlderForm(cfg.OlderKeys)
	tokens, _ := admin.ParseTokens(cfg.OperatorTokens)
	public, err := edge.Edge{
		Keys: keys, OlderKeys: older, Limiter: limiter, Usage: recorder, Pages: pages, Agent: agents,
		Catalog: services[peer.Catalog], History: services[peer.History], Account: services[peer.Authquota],
		Billing: services[peer.Billing], Records: quick(peer.Catalog, cfg.CatalogURL), Trusted: trusted,
		HTTPS: strings.HasPrefix(cfg.PublicURL, "https://"), Errors: errorWriter, Telemetry: r.Telemetry, Now: r.Now,
	}.Handler()
	if err != nil {
		return err
	}
	ready := newReady(r, cfg, counters, settings)
	r.Ready.Add("redis", server.Once(func(ctx context.Context) error { return counters.Ping(ctx).Err() }))
	r.Handle(adminPort, r.Handler(admin.Handler(tokens, owners, ready, errorWriter)))
	r.Handle(server.ServicePort, public)
	rememberMarks(r, cfg, counters)
	r.Go("usage batches", recorder.Run)
	r.Go("keys", func(ctx context.Context) error { return keys.Run(ctx, r.Telemetry) })
	r.Every(service.Loop{Name: "next day's counters", Interval: admission.OpenInterval, Do: limiter.OpenNextDay})
	settings.watch(r)
	refreshPages(r, cfg, pages, ready, authquota)
	r.Cleanup(func(ctx context.Context) { // after the drain, to include its requests
		ctx, cancel := context.WithTimeout(ctx, finalFlushTimeout)
		defer cancel()
		recorder.Close(ctx)
	})
	return nil
}

func (c Config) services() map[string]string {
	services := map[string]string{peer.Catalog: c.CatalogURL, peer.History: c.HistoryURL, peer.Authquota: c.AuthquotaURL}
	if c.BillingURL != "" {
		services[peer.Billing] = c.BillingURL
	}
	return services
}

func newReady(r *service.Runtime, cfg Config, counters *redis.Client, settings *shared) *server.Ready {
	ready := new(server.Ready)
	ready.Add("redis", func(ctx context.Context) error { return counters.Ping(ctx).Err() })
	for name, base := range cfg.services() {
		ready.Add(name, func(ctx context.Context) error {
			err := r.CheckPeer(ctx, name, base, cfg.Tokens)
			fault, waiting := new(peer.FaultError), new(peer.NotReadyError)
			switch {
			case errors.As(err, new(peer.SettingsError)):
				return server.Detail(err.Error())
			case errors.As(err, &fault):
				return server.Fault(fault.Error())
			case errors.As(err, &waiting) && len(waiting.Missing) > 0:
				return server.Detail(strings.Join(waiting.Missing, ", "))
			}
			return err
		})
	}
	for _, note := range cfg.Notes {
		ready.Note(note)
	}
	ready.Add("settings", settings.equal)
	ready.Add("documentation", settings.documented)
	if cfg.Filled != nil {
		ready.Add("first start", func(context.Context) error { return cfg.Filled() })
	}
	return ready
}

func fetchSettings(authquota *peer.Client) func(context.Context) (api.SharedSettings, error) {
	return func(ctx context.Context) (s api.SharedSettings, err error) {
		err = authquota.Get(ctx, "/internal/v1/settings", &s)
		return s, err
	}
}

func newRecorder(authquota *peer.Client, tel *telemetry.Telemetry) *usage.Recorder {
	recorder := usage.New(func(ctx context.Context, batch api.UsageBatch) error {
		return authquota.Post(ctx, "/internal/v1/usage-batches", batch, nil)
	}, tel.Log)
	counted := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	tel.Registry.MustRegister(
		gauge("gateway_usage_requests_pending",
			"Requests not yet reported to authquota for the usage charts and the request logs.",
			func() float64 { return float64(recorder.Pending()) }),
		counted("gateway_usage_requests_lost_total",
			"Requests permanently missing from the usage charts; the limits counted them.", recorder.Lost),
		counted("gateway_logged_requests_lost_total", "Requests permanently missing from the request logs of accounts.",
			recorder.Unlogged))
	return recorder
}

func newLimiter(cfg Config, counters *redis.Client, r *service.Runtime) *admission.Limiter {
	patient := r.Peer("authquota", cfg.AuthquotaURL, cfg.Tokens) // has no response timeout: a restore takes seconds
	limiter := admission.New(admission.Config{
		Redis: counters, Budget: cfg.Redis.Budget, Tracer: r.Tracer, Log: r.Log, Capacity: cfg.ServiceCapacity,
		BaseCap: cfg.baseCapacity(), Now: r.Now, RedisNow: cfg.RedisNow,
		Restore: func(ctx context.Context, day string) error {
			return patient.Post(ctx, "/internal/v1/usage/"+day+"/restore", nil, nil)
		},
	})
	r.Registry.MustRegister(
		gauge("gateway_service_capacity_requests",
			"Capacity of the service: requests of all accounts together per UTC day.",
			func() float64 { return float64(cfg.ServiceCapacity) }),
		gauge("gateway_service_capacity_used_ratio",
			"Used share of today's capacity (UTC), as of this replica's latest decision. Take the maximum of all replicas.",
			limiter.Used),
		gauge("gateway_base_tier_capacity_requests",
			"Part of the capacity that all accounts of the free tier together may use per UTC day.",
			func() float64 { return float64(cfg.baseCapacity()) }),
		gauge("gateway_base_tier_capacity_used_ratio", "Used share of the free tier's part of today's capacity (UTC), "+
			"as of this replica's latest decision. Take the maximum of all replicas.", limiter.UsedByBase),
		gauge("gateway_redis_clock_offset_seconds", "Redis clock minus the clock of this replica, as of its latest call. "+
			"Alert on more than a few seconds either way.", limiter.ClockOffset))
	return limiter
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

func newKeys(cfg Config, authquota *peer.Client, r *service.Runtime) *authn.Authenticator {
	peppers, _ := apikey.Peppers(cfg.Peppers) // checked by Validate
	keys := authn.New(peppers, authn.Authority{
		Resolve: func(ctx context.Context, q api.PrincipalQuery) (p api.Principal, err error) {
			err = authquota.Post(ctx, "/internal/v1/principals", q, &p)
			return p, err
		},
		KeyDigests: func(ctx context.Context, after api.KeyPosition) (page api.KeyDigests, err error) {
			query := ""
			if after.Sequence > 0 {
				query = fmt.Sprintf("?after=%d&digest=%s", after.Sequence, after.Digest)
			}
			err = authquota.Get(ctx, "/internal/v1/key-digests"+query, &page)
			return page, err
		},
	}, r.Now, r.Log)
	r.Cleanup(func(context.Context) { keys.Close() })
	r.Registry.MustRegister(keys.Collectors()...)
	return keys
}

func check(ctx context.Context, r *service.Runtime, cfg Config) error {
	counters, err := r.Redis(cfg.Redis)
	if err != nil {
		return err
	}
	errs := []error{cfg.Redis.Check(ctx, counters)}
	for name, base := range cfg.services() {
		err := r.CheckPeer(ctx, name, base, cfg.Tokens)
		if err == nil && name == peer.Authquota {
			err = checkSettings(ctx, r, cfg)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func checkSettings(ctx context.Context, r *service.Runtime, cfg Config) error {
	theirs, err := fetchSettings(r.Peer(peer.Authquota, cfg.AuthquotaURL, cfg.Tokens))(ctx)
	if err != nil {
		return err
	}
	if fault, _ := cfg.compare(theirs); fault != "" {
		return errors.New(fault)
	}
	return nil
}
