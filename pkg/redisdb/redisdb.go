// Package redisdb opens the Redis with the shared counters, for callers that prefer to fail fast.
// It follows the primary of a Redis Sentinel deployment.
//
// A command runs once, within Budget, including the time to connect. Without a reply in that time
// it returns an error. The caller decides whether to reject the request or to continue without
// Redis. Each command connects again if necessary, so service resumes automatically.
package redisdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/telemetry"
)

// Budget limits the duration of one command or pipeline, from requesting a connection to the end of
// the reply.
const Budget = 200 * time.Millisecond

// Config holds the settings of the Redis connection.
type Config struct {
	URL            string `env:"OPPORTUNITY_REDIS_URL,required,notEmpty" doc:"Secret. Redis 7 with the shared counters: redis://[user:password@]host:port[/number]. With Redis Sentinel: redis+sentinel://[user:password@]host:port,host:port,host:port/name[/number], with the addresses of the Sentinels and the name of their primary; for Sentinels with a password of their own, add ?sentinel_password=... and sentinel_username=.... rediss:// and rediss+sentinel:// use TLS."`
	AllowPlaintext bool   `env:"OPPORTUNITY_ALLOW_PLAINTEXT_STORES" envDefault:"false" doc:"Connect to Postgres and Redis on other machines without TLS. For development only: the connections carry passwords and accounts."`

	Budget time.Duration `env:"-"` // 0: Budget; tests on a busy machine need more

	// OnNewPrimary is called when a connection reaches another primary than the latest one did:
	// after a failover, or after a restart, whose data may lack the latest writes. No command is
	// sent on the connection before it returns. Nil: nothing is called.
	OnNewPrimary func() `env:"-"`
}

// Validate returns an error if the URL is invalid, or if it uses other machines without TLS and
// AllowPlaintext is not set. The error omits the URL, which may contain a password.
func (c Config) Validate() error {
	_, err := c.options()
	return err
}

func (c Config) options() (*redis.UniversalOptions, error) {
	o, err := parse(c.URL)
	if err == nil && !c.AllowPlaintext && plaintext(o) {
		err = errors.New("OPPORTUNITY_REDIS_URL is without TLS: use rediss:// or rediss+sentinel://, " +
			"or for development set OPPORTUNITY_ALLOW_PLAINTEXT_STORES=true")
	}
	return o, err
}

// Open creates a client. It does not connect yet, so a service can start before its Redis.
func Open(cfg Config, tel *telemetry.Telemetry) (*redis.Client, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	logging.Disable() // the library would also print the errors that it returns to stderr
	budget := cmp.Or(cfg.Budget, Budget)
	p := newPrimary(cfg.OnNewPrimary, tel)
	client := connect(options, budget, p.connected)
	client.AddHook(hook{budget, func(ctx context.Context, command string) (context.Context, trace.Span) {
		return StartSpan(ctx, tel.Tracer, client, command)
	}, newDurations(tel.Registry)})
	return client, nil
}

// Check returns an error with the addresses of Redis unless it replies to client.
func (c Config) Check(ctx context.Context, client *redis.Client) error {
	err := client.Ping(ctx).Err()
	if err == nil {
		return nil
	}
	o, _ := c.options() // valid: there is a client
	return fmt.Errorf("redis: %s: %w", strings.Join(o.Addrs, ", "), err)
}

// hook limits each command to budget, measures its duration, and traces it if it belongs to a
// recorded request. Spans have the command's name, not its arguments. Commands of background loops
// have no spans, because a trace without a request is of no use.
type hook struct {
	budget    time.Duration
	span      func(ctx context.Context, command string) (context.Context, trace.Span)
	durations *prometheus.HistogramVec
}

// StartSpan starts the span of a command of client, if ctx belongs to a recorded request.
// telemetry.End ends it. The commands of client have spans anyway; this is for a request whose
// command is run together with those of others.
func StartSpan(ctx context.Context, tracer trace.Tracer, client *redis.Client, command string) (context.Context,
	trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return telemetry.StartSpan(ctx, tracer, "")
	}
	name, o := strings.ToUpper(command), client.Options()
	attributes := []attribute.KeyValue{semconv.DBSystemNameRedis, semconv.DBOperationName(name),
		semconv.DBNamespace(strconv.Itoa(o.DB))}
	return telemetry.StartSpan(ctx, tracer, name, append(attributes, telemetry.Server(&url.URL{Host: o.Addr})...)...)
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

func (hook) DialHook(next redis.DialHook) redis.DialHook { return dialed(next) }

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
	if end, limited := ctx.Deadline(); !limited || time.Until(end) > h.budget {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.budget)
		defer cancel()
	}
	// Both exist from the first command on: rate() ignores the first increment of a new series.
	answered, unanswered := h.durations.WithLabelValues(name, "answered"), h.durations.WithLabelValues(name, "failed")
	ctx, span := h.span(ctx, name)
	start := time.Now()
	err := run(ctx)
	if took := time.Since(start).Seconds(); failed(err) {
		unanswered.Observe(took)
		telemetry.End(span, err)
	} else {
		answered.Observe(took)
		span.End()
	}
	return err
}

// failed reports whether err is a failure. Replies for a missing key or an unloaded script are not.
func failed(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}

// dialed returns a connection for each failed dial, whose use fails with the error of the dial. The
// library counts failed dials. After poolSize of them it fails all commands and dials once a
// second, so that an outage of seconds would last up to a second longer.
func dialed(dial redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return failedConn{err}, nil
		}
		return conn, nil
	}
}

// failedConn is a connection that fails with the same error in every use.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)         { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)        { return 0, c.err }
func (failedConn) Close() error                       { return nil }
func (failedConn) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (c failedConn) SetDeadline(time.Time) error      { return c.err }
func (c failedConn) SetReadDeadline(time.Time) error  { return c.err }
func (c failedConn) SetWriteDeadline(time.Time) error { return c.err }
