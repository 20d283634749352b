package telemetry

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/api"
)

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
