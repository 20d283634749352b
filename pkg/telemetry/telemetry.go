// Package telemetry provides a service with a logger, a tracer and a metrics registry. It has no
// global state, so several services can run in one process, each with its own name.
//
// Start returns a Telemetry. Its Handler gives each request an id, a span, a log line and a metric;
// its Transport passes the id and the trace on to the next service. Requests are recorded by their
// route only (SetRoute), never by path or query, where a key could be. StartSpan and End record a
// call to a store.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Config holds the settings of the log. The standard OTEL_* variables configure traces.
type Config struct {
	LogLevel slog.Level `env:"OPPORTUNITY_LOG_LEVEL" envDefault:"INFO" doc:"Minimum log level: DEBUG, INFO, WARN, ERROR."`

	LogOutput io.Writer `env:"-"` // nil: standard error, with the lines of requests written in groups
}

// Telemetry is the logger, tracer and metrics registry of one service.
type Telemetry struct {
	Log      *slog.Logger
	Tracer   trace.Tracer
	Registry *prometheus.Registry

	service  string
	lines    *lineWriter
	tracing  bool
	requests *prometheus.HistogramVec
	shutdown func(context.Context) error
}

// Start creates the telemetry of a service. It exports traces only if an OTEL_* variable sets an
// exporter or an endpoint; otherwise no spans are created.
func Start(ctx context.Context, service string, cfg Config) (*Telemetry, error) {
	lines := &lineWriter{out: cfg.LogOutput}
	if cfg.LogOutput == nil {
		lines.out, lines.delay = os.Stderr, true
	}
	t := &Telemetry{
		service: service, lines: lines,
		Log: slog.New(contextual{slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: cfg.LogLevel})}).
			With("service", service),
		Tracer:   noop.NewTracerProvider().Tracer(""),
		Registry: prometheus.NewRegistry(),
		shutdown: func(context.Context) error { return nil },
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_server_request_duration_seconds", Help: "Duration of a request, by route, method and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 30},
		}, []string{"route", "method", "status"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "opportunity_service_info", Help: "Always 1, for each process of a service.",
		ConstLabels: prometheus.Labels{"service": service},
	})
	info.Set(1)
	t.Registry.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), t.requests)
	if tracing, err := tracingConfigured(); err != nil {
		return nil, err
	} else if tracing {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, err
		}
		about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceVersion(ReadBuild().Version)),
			resource.WithFromEnv(),
			resource.WithTelemetrySDK(), resource.WithAttributes(semconv.ServiceName(service),
				semconv.ServiceNamespace("opportunity")))
		if err != nil && !errors.Is(err, resource.ErrPartialResource) {
			return nil, err
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
		t.Tracer, t.tracing, t.shutdown = provider.Tracer("opportunity.internal/pkg/telemetry"), true, provider.Shutdown
	}
	return t, nil
}

// tracingConfigured reports whether traces are to be exported. By default the exporter would send
// to localhost. It returns an error for exporters other than OTLP over HTTP: the libraries of the
// others add 4 MB to each binary.
func tracingConfigured() (bool, error) {
	exporter, set := os.LookupEnv("OTEL_TRACES_EXPORTER")
	endpoint := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"),
		"http/protobuf")
	switch {
	case os.Getenv("OTEL_SDK_DISABLED") == "true", exporter == "none", exporter == "" && (set || endpoint == ""):
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, errors.New("OTEL_TRACES_EXPORTER must be otlp or none")
	case protocol != "http/protobuf":
		return false, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, which collectors accept on port 4318")
	}
	return true, nil
}

// Tracing reports whether spans are exported.
func (t *Telemetry) Tracing() bool { return t.tracing }

// Metrics returns the handler of /metrics.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.Registry, promhttp.HandlerOpts{})
}

// shutdownTime limits the time to export the remaining spans at shutdown.
const shutdownTime = 2 * time.Second

// Shutdown exports the remaining spans and writes the remaining log lines. Spans that the collector
// does not accept in time are dropped.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	defer t.lines.Flush()
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	return t.shutdown(ctx)
}

// contextual adds the request id, trace id and span id of the context to each log record.
type contextual struct{ slog.Handler }

func (h contextual) Handle(ctx context.Context, r slog.Record) error {
	if id := RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h contextual) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextual{h.Handler.WithAttrs(attrs)}
}
func (h contextual) WithGroup(name string) slog.Handler { return contextual{h.Handler.WithGroup(name)} }

// validRequestID reports whether id has only letters, digits and hyphens, so that an id from a
// client cannot forge log fields.
func validRequestID(id string) bool {
	return len(id) >= 8 && len(id) <= 64 &&
		strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}
