package telemetry

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/api"
)

// The wrappers of this file take the place of otelhttp and otelgin because those record addresses: a key that someone pastes
// into a path or a query would end up in a trace. Here a request is known by its route alone.

// observed is what is known of one request while it is served.
type observed struct {
	id    string
	route string
}

type observedKey struct{}

// RequestID is the id of the request that ctx belongs to; empty outside a request.
func RequestID(ctx context.Context) string {
	if o, ok := ctx.Value(observedKey{}).(*observed); ok {
		return o.id
	}
	return ""
}

// SetRoute names the route that the request of ctx took, as a pattern ("/api/v1/opportunities/{id}"), never as its path.
func SetRoute(ctx context.Context, route string) {
	if o, ok := ctx.Value(observedKey{}).(*observed); ok {
		o.route = route
	}
}

var propagator = propagation.TraceContext{}

// Handler observes every request of h: a request id, a span that continues the caller's trace, one log line, one metric.
// A request id that a caller sends is kept where it is well formed; an edge that does not trust its callers drops it first.
func (t *Telemetry) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		o := &observed{id: r.Header.Get(api.RequestIDHeader), route: "unmatched"}
		if !validRequestID(o.id) {
			o.id = uuid.NewString()
		}
		ctx := propagator.Extract(context.WithValue(r.Context(), observedKey{}, o), propagation.HeaderCarrier(r.Header))
		ctx, span := t.span(ctx, trace.SpanKindServer, r.Method, "")
		w.Header().Set(api.RequestIDHeader, o.id)
		rec := &recorder{ResponseWriter: w}
		defer func() {
			status := rec.statusOr(http.StatusOK)
			if span.IsRecording() {
				span.SetName(r.Method + " " + o.route)
				span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", o.route),
					attribute.Int("http.response.status_code", status), attribute.String("request.id", o.id))
				if status >= http.StatusInternalServerError {
					span.SetStatus(codes.Error, http.StatusText(status))
				}
			}
			took := time.Since(start)
			t.requests.WithLabelValues(o.route, method(r.Method), strconv.Itoa(status)).Observe(took.Seconds())
			t.Log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", method(r.Method)), slog.String("route", o.route),
				slog.Int("status", status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took))
			span.End()
		}()
		h.ServeHTTP(rec, r.WithContext(ctx))
	})
}

// span begins a span named after two words. Where nothing is traced it costs nothing: the span is the caller's, which records
// nothing here.
func (t *Telemetry) span(ctx context.Context, kind trace.SpanKind, verb, object string) (context.Context, trace.Span) {
	if !t.tracing {
		return ctx, trace.SpanFromContext(ctx)
	}
	return t.Tracer.Start(ctx, strings.TrimSpace(verb+" "+object), trace.WithSpanKind(kind))
}

// method keeps the number of different log and metric values small: a caller may send any word as a method.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return m
	}
	return "other"
}

// recorder remembers the status and the size of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) statusOr(unset int) int {
	if r.status == 0 {
		return unset
	}
	return r.status
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Transport makes a client span for every request sent to the peer and hands the trace and the request id on.
func (t *Telemetry) Transport(next http.RoundTripper, peer string) http.RoundTripper {
	return transport{t, next, peer}
}

type transport struct {
	telemetry *Telemetry
	next      http.RoundTripper
	peer      string
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := t.telemetry.span(r.Context(), trace.SpanKindClient, r.Method, t.peer)
	defer span.End()
	header := maps.Clone(r.Header) // the request of the caller must stay as it is
	r = r.WithContext(ctx)
	r.Header = header
	propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	if id := RequestID(ctx); id != "" {
		r.Header.Set(api.RequestIDHeader, id)
	}
	resp, err := t.next.RoundTrip(r)
	if !span.IsRecording() {
		return resp, err
	}
	span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("peer.service", t.peer))
	if err != nil {
		span.SetStatus(codes.Error, "no answer")
	} else {
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	}
	return resp, err
}
