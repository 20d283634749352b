// Package gateway is the service that consumers meet: it knows them by their keys, admits their calls within their limits, and
// hands these on to the catalog and the history. It also serves the documentation, and operators on a listener of their own.
// It keeps nothing but caches, and any number of replicas on one Redis act as one.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/edge"
	"opportunity.internal/services/gateway/internal/operator"
	"opportunity.internal/services/gateway/internal/proxy"
)

// Main runs one verb with settings from the environment. serve answers until ctx ends; check tells whether the settings are
// right, and Redis and the services behind answer.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	verbs := map[string]func(context.Context, Config) error{"serve": Run, "check": check}
	if len(args) != 1 || verbs[args[0]] == nil {
		return errors.New("usage: gateway serve | check")
	}
	cfg, err := config.Load[Config](lookup)
	if err != nil {
		return err
	}
	return verbs[args[0]](ctx, cfg)
}

// answerWithin is how long a service may take to begin its answer.
const answerWithin = 10 * time.Second

// Run serves until ctx ends, and then drains. It needs neither Redis nor a service to start: what it cannot ask it answers
// with 503, so that consumers meet the specification's errors and not those of whatever stands in front.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, "gateway", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	counters, err := redisdb.Open(cfg.Redis, tel)
	if err != nil {
		return err
	}
	defer counters.Close()
	pages, err := docs.New(cfg.PublicURL)
	if err != nil {
		return err
	}
	transport, patient := peer.Transport(), peer.Transport() // the second for operators: a whole file takes its time
	transport.ResponseHeaderTimeout = answerWithin
	defer transport.CloseIdleConnections()
	defer patient.CloseIdleConnections()

	refusals := problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}
	authquota := peer.New(cfg.AuthquotaURL, cfg.Tokens, tel.Transport(transport, "authquota"))
	keys := newKeys(cfg, authquota, tel)
	defer keys.Close()
	catalog, err1 := proxy.New(cfg.CatalogURL, cfg.Tokens.Values[0], tel.Transport(transport, "catalog"))
	history, err2 := proxy.New(cfg.HistoryURL, cfg.Tokens.Values[0], tel.Transport(transport, "history"))
	account, err3 := proxy.New(cfg.AuthquotaURL, cfg.Tokens.Values[0], tel.Transport(transport, "authquota"))
	trusted, err4 := prefixes(cfg.TrustedProxies)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	public, err := edge.Edge{
		Keys: keys, Catalog: catalog, History: history, Account: account, Pages: pages, Trusted: trusted, Errors: refusals, Telemetry: tel,
		HTTPS: strings.HasPrefix(cfg.PublicURL, "https://"),
		Limiter: admission.New(counters, tel.Tracer, cfg.ServiceCapacity, func(ctx context.Context, day string) (usage api.DayUsage, err error) {
			err = authquota.Get(ctx, "/internal/v1/usage/"+day, &usage)
			return usage, err
		}, cfg.Now),
	}.Handler()
	if err != nil {
		return err
	}
	whole := new(server.Ready)
	whole.Add("redis", func(ctx context.Context) error { return counters.Ping(ctx).Err() })
	for name, base := range cfg.services() {
		whole.Add(name, func(ctx context.Context) error { return peer.Answers(ctx, base) })
	}
	if cfg.Filled != nil {
		whole.Add("first start", func(context.Context) error { return cfg.Filled() })
	}
	admin, err := newAdmin(cfg, tel.Transport(patient, "operator"), whole, refusals)
	if err != nil {
		return err
	}

	service, operations, err := cfg.Server.Open(ctx)
	if err != nil {
		return err
	}
	adminListener, err := server.Listen(ctx, cfg.AdminListen, cfg.AdminListener)
	if err != nil {
		return errors.Join(err, service.Close(), operations.Close())
	}
	ready := new(server.Ready) // only of itself: without Redis it still has answers to give
	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("admin", adminListener, tel.Handler(admin))
	group.HTTP("public", service, public)
	return group.Wait()
}

func (c Config) services() map[string]string {
	return map[string]string{"catalog": c.CatalogURL, "history": c.HistoryURL, "authquota": c.AuthquotaURL}
}

func newKeys(cfg Config, authquota *peer.Client, tel *telemetry.Telemetry) *authn.Authenticator {
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	peppers, _ := apikey.Peppers(cfg.Peppers) // Validate saw to it
	return authn.New(peppers, func(ctx context.Context, q api.PrincipalQuery) (p api.Principal, err error) {
		err = authquota.Post(ctx, "/internal/v1/principals", q, &p)
		return p, err
	}, now, tel.Log)
}

func newAdmin(cfg Config, transport http.RoundTripper, ready http.Handler, refusals problem.Writer) (http.Handler, error) {
	tokens, err := operator.ParseTokens(cfg.OperatorTokens)
	owners := operator.Owners{}
	for verb, base := range map[string]string{
		"listings": cfg.CatalogURL, "events": cfg.HistoryURL, "keys": cfg.AuthquotaURL, "accounts": cfg.AuthquotaURL,
	} {
		u, wrong := url.Parse(base)
		err = errors.Join(err, wrong)
		owners[verb] = u
	}
	return operator.Handler(tokens, owners, cfg.Tokens.Values[0], transport, ready, refusals), err
}

// check reports everything that would keep the service from doing its work.
func check(ctx context.Context, cfg Config) error {
	tel, err := telemetry.Start(ctx, "gateway", cfg.Telemetry)
	if err != nil {
		return err
	}
	counters, err := redisdb.Open(cfg.Redis, tel)
	if err != nil {
		return err
	}
	defer counters.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var errs []error
	if err := counters.Ping(ctx).Err(); err != nil {
		errs = append(errs, fmt.Errorf("redis: %w", err))
	}
	for name, base := range cfg.services() {
		if err := peer.Answers(ctx, base); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
