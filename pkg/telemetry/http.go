package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
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
// only if the caller has one. The log line has level DEBUG if the status is below 400, or the
// caller disconnected, and the request took less than a second or was a long poll.
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

// Request lines are buffered for at most flushInterval, and up to flushSize bytes.
const (
	flushInterval = 100 * time.Millisecond
	flushSize     = 32 << 10
)

// lineWriter writes log lines. A line passed to Write is written at once, after those passed to
// Later.
type lineWriter struct {
	out   io.Writer
	delay bool // keep the lines passed to Later for a while, to write many at once

	mu    sync.Mutex
	lines []byte
	timer *time.Timer // nil until the first line of Later
}

// Write implements io.Writer.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 0 {
		return w.out.Write(line)
	}
	w.lines = append(w.lines, line...)
	return len(line), w.flush()
}

// Later writes line within flushInterval. The process loses it if it is killed before that.
func (w *lineWriter) Later(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line...)
	switch {
	case !w.delay || len(w.lines) >= flushSize:
		_ = w.flush()
	case len(w.lines) > len(line):
	case w.timer == nil:
		w.timer = time.AfterFunc(flushInterval, w.Flush)
	default:
		w.timer.Reset(flushInterval)
	}
}

// Flush writes all lines.
func (w *lineWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.flush()
}

func (w *lineWriter) flush() error {
	if len(w.lines) == 0 {
		return nil
	}
	_, err := w.out.Write(w.lines)
	w.lines = w.lines[:0]
	return err
}

// logRequest writes the log line of a request: the one that t.Log would write, for a third of its
// CPU time. All of its text is safe in JSON without quoting: routes are constants, and request ids
// are validated.
func (t *Telemetry) logRequest(ctx context.Context, level slog.Level, o *observed, method string, status int,
	took time.Duration) {
	space := lineBuffers.Get().(*[]byte)
	line := append((*space)[:0], `{"time":"`...)
	line = time.Now().AppendFormat(line, time.RFC3339Nano)
	line = append(append(line, `","level":"`...), level.String()...)
	line = append(append(line, `","msg":"request","service":"`...), t.service...)
	line = append(append(line, `","method":"`...), method...)
	line = append(append(line, `","route":"`...), o.route...)
	line = strconv.AppendInt(append(line, `","status":`...), int64(status), 10)
	line = strconv.AppendInt(append(line, `,"bytes":`...), o.bytes, 10)
	line = strconv.AppendInt(append(line, `,"took":`...), int64(took), 10)
	line = append(append(append(line, `,"request_id":"`...), o.id...), '"')
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		line = append(append(line, `,"trace_id":"`...), sc.TraceID().String()...)
		line = append(append(append(line, `","span_id":"`...), sc.SpanID().String()...), '"')
	}
	line = append(line, "}\n"...)
	if status >= http.StatusInternalServerError {
		_, _ = t.lines.Write(line)
	} else {
		t.lines.Later(line)
	}
	*space = line
	lineBuffers.Put(space)
}

var lineBuffers = sync.Pool{New: func() any { return new([]byte) }}
