// Package redisdb opens the Redis that holds the shared counters, for callers that would rather fail at once than wait.
//
// A command has Budget, dialling included, and is tried once: no answer within it is an error, and what that means (refuse,
// or carry on without) is the caller's decision. The next command tries anew, so service resumes with Redis by itself.
package redisdb

import (
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

// Budget is how long one command or one pipeline may take, from asking for a connection to the end of the answer.
const Budget = 200 * time.Millisecond

// Config says where Redis is.
type Config struct {
	URL string `env:"OPPORTUNITY_REDIS_URL,required,notEmpty" doc:"Secret. Redis 7 with the shared counters: redis://[user:password@]host:port[/number], or rediss:// for TLS."`
}

// Validate reports whether the URL can be used. The URL may hold a password, so it is not repeated.
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

// Open makes a client. It does not connect yet: a service may start before its Redis.
func Open(cfg Config, tel *telemetry.Telemetry) (*redis.Client, error) {
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	// Each default that is replaced here costs seconds when Redis is gone: commands are sent up to four times, dialled up to five
	// times each, with pauses and timeouts of their own, whatever the deadline of the context says.
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout, o.PoolTimeout, o.ReadTimeout, o.WriteTimeout = Budget, Budget, Budget, Budget
	// A burst must not queue for connections; pipelines share the pool instead of keeping one of their own.
	o.PoolSize, o.MinIdleConns, o.PipelinePoolSize = 64, 2, -1
	// The embedded server knows neither CLIENT SETINFO nor the maintenance handshake, and nobody here needs them.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	logging.Disable() // the library would also print to stderr what it returns as an error
	client := redis.NewClient(o)
	client.AddHook(hook{tel.Tracer, newDurations(tel.Registry)})
	return client, nil
}

// hook holds every command to its budget, times it, and traces those that belong to a recorded request. Spans carry the command's name,
// never its arguments. Background loops make no spans: a trace without a request in it tells nobody anything.
type hook struct {
	tracer    trace.Tracer
	durations *prometheus.HistogramVec
}

func newDurations(registry prometheus.Registerer) *prometheus.HistogramVec {
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "redis_command_duration_seconds", Help: "Time that Redis took for a command or a pipeline, by command and outcome: " +
			"answered, failed (no usable answer within the budget of 0.2 s).",
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
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	if !trace.SpanFromContext(ctx).IsRecording() {
		return h.timed(ctx, name, run)
	}
	ctx, span := h.tracer.Start(ctx, "redis "+name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", name)))
	defer span.End()
	err := h.timed(ctx, name, run)
	if failed(err) {
		span.SetStatus(codes.Error, "no usable answer")
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

// failed tells failures from answers that only look like errors: an absent key, a script that is yet to be sent.
func failed(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}
