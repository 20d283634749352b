package telemetry

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/api"
)

// Transport wraps next. It propagates the trace and the request id to the peer, and creates a
// client span for every call that belongs to a request. A call of a background loop is recorded
// only if it fails, and the peer does not record it: an idle service would otherwise export its own
// polling.
func (t *Telemetry) Transport(next http.RoundTripper, peer string) http.RoundTripper {
	return transport{t, next, peer}
}

type transport struct {
	telemetry *Telemetry
	next      http.RoundTripper
	peer      string
}

// complete reports whether a request has all headers that RoundTrip would add without tracing.
func (t transport) complete(r *http.Request) bool {
	id, sent := RequestID(r.Context()), r.Header[api.RequestIDHeader]
	return (id == "" || len(sent) == 1 && sent[0] == id) && !trace.SpanContextFromContext(r.Context()).IsValid()
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	tel := t.telemetry
	if !tel.tracing && t.complete(r) {
		return t.next.RoundTrip(r)
	}
	ctx, began, name := r.Context(), time.Now(), method(r.Method)+" "+t.peer
	background := tel.tracing && !trace.SpanContextFromContext(ctx).IsValid()
	if background {
		ctx = trace.ContextWithSpanContext(ctx, unsampled())
	}
	ctx, span := tel.span(ctx, trace.SpanKindClient, name)
	defer func() { span.End() }()
	sent := r.WithContext(ctx) // a RoundTripper must not modify the request
	sent.Header = maps.Clone(r.Header)
	propagator.Inject(ctx, propagation.HeaderCarrier(sent.Header))
	if id := RequestID(ctx); id != "" {
		sent.Header[api.RequestIDHeader] = []string{id}
	}
	resp, err := t.next.RoundTrip(sent)
	if background && failed(resp, err) && !span.IsRecording() {
		_, span = tel.Tracer.Start(r.Context(), name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(began))
	}
	if span.IsRecording() {
		t.describe(span, r, resp, err)
	}
	return resp, err
}

// failed reports whether a call failed. One that its caller ended has not, such as a long poll when
// the service stops.
func failed(resp *http.Response, err error) bool {
	if err != nil {
		return !errors.Is(err, context.Canceled)
	}
	return resp.StatusCode >= http.StatusBadRequest
}

func (t transport) describe(span trace.Span, r *http.Request, resp *http.Response, err error) {
	span.SetAttributes(requestMethod(r), semconv.ServicePeerName(t.peer))
	span.SetAttributes(Server(r.URL)...)
	if err != nil {
		fail(span, errorType(err))
		return
	}
	span.SetAttributes(semconv.HTTPResponseStatusCode(resp.StatusCode))
	if failed(resp, nil) {
		fail(span, strconv.Itoa(resp.StatusCode))
	}
}

// Server returns the attributes of a span for the address and port of u, if it has one server.
func Server(u *url.URL) (all []attribute.KeyValue) {
	port, err := strconv.Atoi(u.Port())
	if err == nil {
		all = append(all, semconv.ServerPort(port))
	}
	if host := u.Hostname(); host != "" && (err == nil || u.Port() == "") {
		all = append(all, semconv.ServerAddress(host))
	}
	return all
}

// unsampled returns the parent of a call that is not to be recorded.
func unsampled() trace.SpanContext {
	var c trace.SpanContextConfig
	for i := range c.TraceID {
		c.TraceID[i] = byte(rand.Uint32()) //nolint:gosec // any byte
	}
	copy(c.SpanID[:], c.TraceID[:])
	return trace.NewSpanContext(c)
}
