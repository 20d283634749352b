package telemetry

import (
	"context"
	"errors"
	"net"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
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
