// Package redisdb opens the Redis with the shared counters, for callers that prefer to fail fast.
//
// A command runs once, within Budget, including the time to connect. Without a reply in that time it returns an error. The caller decides
// whether to reject the request or to continue without Redis. Each command connects again if necessary, so service resumes automatically.
package redisdb

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/telemetry"
)

// Budget limits the duration of one command or pipeline, from requesting a connection to the end of the reply.
const Budget = 200 * time.Millisecond

// Config holds the settings of the Redis connection.
type Config struct {
	URL    string        `env:"OPPORTUNITY_REDIS_URL,required,notEmpty" doc:"Secret. Redis 7 with the shared counters: redis://[user:password@]host:port[/number], or rediss:// for TLS."`
	Budget time.Duration `env:"-"` // 0: Budget; tests on a busy machine need more
}

// Validate returns an error if the URL is invalid. The error omits the URL, which may contain a password.
func (c Config) Validate() error {
	_, err := c.options()
	return err
}

func (c Config) options() (*redis.Options, error) {
	o, err := redis.ParseURL(c.URL)
	if err == nil {
		return o, nil
	}
	if quoted := new(url.Error); errors.As(err, &quoted) {
		err = quoted.Err
	}
	return nil, errors.Join(errors.New("OPPORTUNITY_REDIS_URL is not a redis:// URL"), err)
}

// Open creates a client. It does not connect yet, so a service can start before its Redis.
func Open(cfg Config, tel *telemetry.Telemetry) (*redis.Client, error) {
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	// These defaults cost seconds during a Redis outage: up to four attempts per command and five dials per attempt, with their own pauses
	// and timeouts, regardless of the context's deadline.
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	budget := cmp.Or(cfg.Budget, Budget)
	o.DialTimeout, o.PoolTimeout, o.ReadTimeout, o.WriteTimeout = budget, budget, budget, budget
	// Bursts must not queue for connections. Pipelines share the pool.
	o.PoolSize, o.MinIdleConns, o.PipelinePoolSize = 64, 2, -1
	// The embedded server supports neither CLIENT SETINFO nor the maintenance handshake, and they are not needed.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	logging.Disable() // the library would also print the errors that it returns to stderr
	client := redis.NewClient(o)
	client.AddHook(hook{budget, tel.Tracer, newDurations(tel.Registry)})
	return client, nil
}

// hook limits each command to budget, measures its duration, and traces it if it belongs to a recorded request. Spans have the command's
// name, not its arguments. Commands of background loops have no spans, because a trace without a request is of no use.
type hook struct {
	budget    time.Duration
	tracer    trace.Tracer
	durations *prometheus.HistogramVec
}

func newDurations(registry prometheus.Registerer) *prometheus.HistogramVec {
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "redis_command_duration_seconds", Help: "Duration of a Redis command or pipeline, by command and outcome: " +
			"answered, failed (no usable reply within 0.2 s).",
		Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .2},
	}, []string{"command", "outcome"})
	registry.MustRegister(durations)
	return durations
}

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.within(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.within(ctx, "pipeline", func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (h hook) within(ctx context.Context, name string, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, h.budget)
	defer cancel()
	if !trace.SpanFromContext(ctx).IsRecording() {
		return h.timed(ctx, name, run)
	}
	ctx, span := h.tracer.Start(ctx, "redis "+name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", name)))
	defer span.End()
	err := h.timed(ctx, name, run)
	if failed(err) {
		span.SetStatus(codes.Error, "no usable reply")
	}
	return err
}

func (h hook) timed(ctx context.Context, name string, run func(context.Context) error) error {
	start := time.Now()
	err := run(ctx)
	outcome := "answered"
	if failed(err) {
		outcome = "failed"
	}
	h.durations.WithLabelValues(name, outcome).Observe(time.Since(start).Seconds())
	return err
}

// failed reports whether err is a failure. Replies for a missing key or an unloaded script are not.
func failed(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}
