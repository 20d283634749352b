package telemetry

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/api"
)

// StartSpan starts the client span of a call to a store, if ctx belongs to a recorded request.
// Otherwise it returns a span that records nothing: calls of background loops are not recorded. End
// ends it.
func StartSpan(ctx context.Context, tracer trace.Tracer, name string,
	attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, trace.SpanFromContext(context.Background())
	}
	return tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// End ends a span. If err is not nil, the span has failed. It gets the type of err but not its
// text, which may have values.
func End(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		fail(span, errorType(err))
	}
	span.End()
}

func fail(span trace.Span, errorType string) {
	span.SetStatus(codes.Error, "")
	span.SetAttributes(semconv.ErrorTypeKey.String(errorType))
}

// errorType returns the value of error.type: the SQLSTATE of Postgres, a word for the end of a
// context, or the Go type of the error.
func errorType(err error) string {
	var network net.Error
	var postgres interface{ SQLState() string }
	switch {
	case errors.As(err, &postgres):
		return postgres.SQLState()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	}
	return semconv.ErrorType(err).Value.AsString()
}

// Transport wraps next. It propagates the trace and the request id to the peer, and creates a
// client span for every call that belongs to a traced request. Calls of background loops have none,
// and the peer begins no trace for them: an idle service would otherwise export its own polling.
func (t *Telemetry) Transport(next http.RoundTripper, peer string) http.RoundTripper {
	return transport{t, next, peer}
}

type transport struct {
	telemetry *Telemetry
	next      http.RoundTripper
	peer      string
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, id := r.Context(), RequestID(r.Context())
	if !trace.SpanContextFromContext(ctx).IsValid() &&
		(id == "" || slices.Equal(r.Header[api.RequestIDHeader], []string{id})) {
		return t.next.RoundTrip(r) // of a background loop, or has all headers already
	}
	ctx, span := StartSpan(ctx, t.telemetry.Tracer, method(r.Method)+" "+t.peer)
	defer span.End()
	sent := r.WithContext(ctx) // a RoundTripper must not modify the request
	sent.Header = maps.Clone(r.Header)
	propagator.Inject(ctx, propagation.HeaderCarrier(sent.Header))
	if id != "" {
		sent.Header[api.RequestIDHeader] = []string{id}
	}
	resp, err := t.next.RoundTrip(sent)
	if span.IsRecording() {
		t.describe(span, r, resp, err)
	}
	return resp, err
}

func (t transport) describe(span trace.Span, r *http.Request, resp *http.Response, err error) {
	span.SetAttributes(requestMethod(r), semconv.ServicePeerName(t.peer))
	span.SetAttributes(Server(r.URL)...)
	if err != nil {
		fail(span, errorType(err))
		return
	}
	span.SetAttributes(semconv.HTTPResponseStatusCode(resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
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
