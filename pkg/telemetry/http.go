package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/api"
)

// This file replaces otelhttp, which records URLs: a key pasted into a path or a query would end up
// in a trace. Here requests are recorded by their route only. Otherwise spans follow the semantic
// conventions of OpenTelemetry.

// observed holds data of a request while it is served.
type observed struct {
	id    string
	route string
	waits bool
	recorder
}

type observedKey struct{}

// RequestID returns the id of the request of ctx, or "" outside a request.
func RequestID(ctx context.Context) string {
	if o, ok := ctx.Value(observedKey{}).(*observed); ok {
		return o.id
	}
	return ""
}

// SetRoute sets the route of the request of ctx: a pattern ("/api/v1/opportunities/{id}"), never
// the path.
func SetRoute(ctx context.Context, route string) {
	if o, ok := ctx.Value(observedKey{}).(*observed); ok {
		o.route = route
	}
}

// SetWaiting marks the request of ctx as a long poll: its duration says nothing about the service.
func SetWaiting(ctx context.Context) {
	if o, ok := ctx.Value(observedKey{}).(*observed); ok {
		o.waits = true
	}
}

var propagator = propagation.TraceContext{}

// probePath is the path of readiness. Its requests are not recorded: services and clusters send one
// every few seconds.
const probePath = "/readyz"

// slow is the duration from which on InternalHandler logs a successful request.
const slow = time.Second

// Handler wraps h. It gives every request a request id, a span that continues the caller's trace, a
// log line and a metric. A valid request id from the caller is kept; a server with untrusted
// callers must remove the header first.
func (t *Telemetry) Handler(h http.Handler) http.Handler { return t.handler(h, false) }

// InternalHandler is like Handler for a service behind the gateway, which logs each request under
// the same id. peer.Transport accepts only responses with the id of their request. There is a span
// only if the caller has one. The log line has level DEBUG if the status is below 400, or the caller
// disconnected, and the request took less than a second or was a long poll.
func (t *Telemetry) InternalHandler(h http.Handler) http.Handler { return t.handler(h, true) }

// statusDisconnected is recorded, as nginx does, if the caller disconnected before it had the whole
// response.
const statusDisconnected = 499

func (t *Telemetry) handler(h http.Handler, internal bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		o := &observed{id: requestID(r), route: unmatched, recorder: recorder{ResponseWriter: w}}
		ctx := context.WithValue(r.Context(), observedKey{}, o)
		continued := r.Header["Traceparent"] != nil
		if continued {
			ctx = propagator.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		span := trace.SpanFromContext(ctx) // records nothing
		if t.tracing && (continued || !internal) && r.URL.Path != probePath {
			ctx, span = t.Tracer.Start(ctx, method(r.Method), trace.WithSpanKind(trace.SpanKindServer))
		}
		w.Header()[api.RequestIDHeader] = []string{o.id}
		handled := false
		defer func() {
			status := o.statusOr(http.StatusOK)
			if o.cut || !handled && errors.Is(r.Context().Err(), context.Canceled) {
				status = statusDisconnected
			}
			if span.IsRecording() {
				describe(span, r, o, status)
			}
			took := time.Since(start)
			t.requests.WithLabelValues(o.route, method(r.Method), strconv.Itoa(status)).Observe(took.Seconds())
			level := slog.LevelInfo
			if internal && (status < http.StatusBadRequest || status == statusDisconnected) && (took < slow || o.waits) {
				level = slog.LevelDebug
			}
			if t.Log.Enabled(ctx, level) {
				t.logRequest(ctx, level, o, method(r.Method), status, took)
			}
			span.End()
		}()
		h.ServeHTTP(&o.recorder, r.WithContext(ctx))
		handled = r.Context().Err() == nil // a client may disconnect as soon as it has the response
		o.flush()                          // the client need not wait for the metrics and the log
	})
}

func requestID(r *http.Request) string {
	if sent := r.Header[api.RequestIDHeader]; len(sent) > 0 && validRequestID(sent[0]) {
		return sent[0]
	}
	return uuid.NewString() // the form that the request log of authquota takes
}

func describe(span trace.Span, r *http.Request, o *observed, status int) {
	span.SetAttributes(requestMethod(r), scheme(r), semconv.HTTPResponseStatusCode(status),
		attribute.String("request.id", o.id))
	if o.route != unmatched {
		span.SetName(method(r.Method) + " " + o.route)
		span.SetAttributes(semconv.HTTPRoute(o.route))
	}
	if status >= http.StatusInternalServerError {
		fail(span, strconv.Itoa(status))
	}
}

func requestMethod(r *http.Request) attribute.KeyValue {
	if m := method(r.Method); m != other {
		return semconv.HTTPRequestMethodKey.String(m)
	}
	return semconv.HTTPRequestMethodOther
}

func scheme(r *http.Request) attribute.KeyValue {
	if r.TLS != nil {
		return semconv.URLScheme("https")
	}
	return semconv.URLScheme("http")
}

const (
	other     = "other"     // method that is none of HTTP
	unmatched = "unmatched" // route of a request that no handler has named
)

// method returns m, or other for unusual methods: callers can send any word, and metrics need a
// small number of label values.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete:
		return m
	}
	return other
}

// recorder records the status and the size of a response.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	cut    bool // a write failed: the caller disconnected, or did not read in time
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
	r.cut = r.cut || err != nil && !errors.Is(err, http.ErrBodyNotAllowed)
	return n, err
}

func (r *recorder) flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok && r.bytes > 0 && r.Header()["Content-Length"] != nil {
		f.Flush()
	}
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
