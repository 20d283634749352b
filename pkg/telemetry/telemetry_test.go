package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/telemetry"
)

const secret = "oda_live_secretsecretsecret"

func start(t *testing.T, log *bytes.Buffer, level slog.Level) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogLevel: level, LogOutput: log})
	require.NoError(t, err)
	return tel
}

func TestRequestIsLoggedByRouteNotURL(t *testing.T) {
	var log bytes.Buffer
	tel := start(t, &log, slog.LevelInfo)
	h := tel.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		telemetry.SetRoute(r.Context(), "/things/{id}")
		tel.Log.InfoContext(r.Context(), "working")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("body"))
	}))
	req := httptest.NewRequest(http.MethodGet, "/things/"+secret+"?key="+secret, nil)
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set(api.RequestIDHeader, "req-12345678")
	req.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)

	require.Equal(t, "req-12345678", rec.Header().Get(api.RequestIDHeader))
	require.NotContains(t, log.String(), secret)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	for _, line := range lines {
		var got map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &got))
		require.Equal(t, "test", got["service"])
		require.Equal(t, "req-12345678", got["request_id"])
		require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", got["trace_id"])
	}
	require.Contains(t, lines[1], `"route":"/things/{id}","status":418,"bytes":4`)
}

// A service behind the gateway logs failed and slow requests only, unless its level is DEBUG.
func TestInternalHandlerLogsFailedAndSlowRequests(t *testing.T) {
	for name, test := range map[string]struct {
		level  slog.Level
		status int
		took   time.Duration
		waits  bool
		lines  int
	}{
		"fast":          {slog.LevelInfo, 304, 0, false, 0},
		"fast at DEBUG": {slog.LevelDebug, 304, 0, false, 1},
		"rejected":      {slog.LevelInfo, 400, 0, false, 1},
		"failed":        {slog.LevelInfo, 503, 0, false, 1},
		"slow":          {slog.LevelInfo, 200, time.Second, false, 1},
		"long poll":     {slog.LevelInfo, 200, time.Minute, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			tel := start(t, &log, test.level)
			h := tel.InternalHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.waits {
					telemetry.SetWaiting(r.Context())
				}
				time.Sleep(test.took)
				w.WriteHeader(test.status)
			}))
			synctest.Test(t, func(t *testing.T) {
				req := httptest.NewRequest(http.MethodGet, "/", nil)
				req.Header.Set(api.RequestIDHeader, "req-12345678")
				h.ServeHTTP(httptest.NewRecorder(), req)
			})
			require.Equal(t, test.lines, strings.Count(log.String(), `"request_id":"req-12345678"`),
				"lines of the request in %q", log.String())
		})
	}
}

// brokenWriter is a connection whose peer has closed it.
type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// The status of a response that the caller did not get is neither a success nor an error of the
// service.
func TestDisconnectedCallerIsToldApart(t *testing.T) {
	var log bytes.Buffer
	tel := start(t, &log, slog.LevelDebug)
	const logged = `(?s)^[^\n]*"level":"%s"[^\n]*"status":%d[^\n]*\n$`
	for _, status := range []int{http.StatusInternalServerError, http.StatusNotFound, http.StatusOK} {
		ctx, disconnect := context.WithCancel(t.Context())
		send := func(w http.ResponseWriter, before, after func()) {
			log.Reset()
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				before()
				w.WriteHeader(status)
				_, _ = w.Write([]byte("{}"))
				after()
			})
			tel.InternalHandler(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		}
		none, level := func() {}, "INFO"
		if status == http.StatusOK {
			level = "DEBUG"
		}
		send(httptest.NewRecorder(), none, none)
		require.Regexp(t, fmt.Sprintf(logged, level, status), log.String())
		send(brokenWriter{httptest.NewRecorder()}, none, none)
		require.Regexp(t, fmt.Sprintf(logged, "DEBUG", 499), log.String(), "not sent")
		send(httptest.NewRecorder(), none, disconnect)
		require.Regexp(t, fmt.Sprintf(logged, "DEBUG", 499), log.String(), "disconnected before the end")
		send(httptest.NewRecorder(), disconnect, none)
		require.Regexp(t, fmt.Sprintf(logged, "DEBUG", 499), log.String(), "disconnected before the response")
	}
}

func TestInvalidRequestIDIsReplaced(t *testing.T) {
	tel := start(t, new(bytes.Buffer), slog.LevelInfo)
	for _, id := range []string{"", "short", strings.Repeat("x", 65), "has space in it", "line\"break\""} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set(api.RequestIDHeader, id)
		rec := httptest.NewRecorder()
		tel.Handler(http.NotFoundHandler()).ServeHTTP(rec, req)
		require.Len(t, rec.Header().Get(api.RequestIDHeader), 36)
	}
}

// The collector accepts connections and never responds.
func TestSilentCollectorDoesNotDelayShutdown(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+ln.Addr().String())
	tel := start(t, new(bytes.Buffer), slog.LevelInfo)
	_, span := tel.Tracer.Start(t.Context(), "held")
	span.End()
	require.ErrorIs(t, tel.Shutdown(context.Background()), context.DeadlineExceeded)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransportPropagatesTrace(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // any endpoint enables spans
	tel := start(t, new(bytes.Buffer), slog.LevelInfo)
	require.True(t, tel.Tracing())
	var sent http.Header
	client := tel.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r.Header
		return httptest.NewRecorder().Result(), nil
	}), "catalog")
	var inside trace.SpanContext
	h := tel.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside = trace.SpanContextFromContext(r.Context())
		trace.SpanFromContext(r.Context()).SetAttributes(attribute.Bool("seen", true))
		out, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://catalog.example/?key="+secret, nil)
		require.NoError(t, err)
		resp, err := client.RoundTrip(out)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}))
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)

	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", inside.TraceID().String())
	parent := strings.Split(sent.Get("Traceparent"), "-")
	require.Equal(t, inside.TraceID().String(), parent[1])
	require.NotEqual(t, inside.SpanID().String(), parent[2], "the parent is the client span")
	require.Equal(t, rec.Header().Get(api.RequestIDHeader), sent.Get(api.RequestIDHeader))
}

func TestOnlyOTLPOverHTTPIsAccepted(t *testing.T) {
	for _, c := range []struct{ setting, value, fault string }{
		{"OTEL_TRACES_EXPORTER", "console", "OTEL_TRACES_EXPORTER must be otlp or none"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf"},
		{"OTEL_SDK_DISABLED", "true", ""},
		{"OTEL_TRACES_EXPORTER", "none", ""},
	} {
		t.Run(c.setting+" "+c.value, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(c.setting, c.value)
			tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: &bytes.Buffer{}})
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				return
			}
			require.NoError(t, err)
			require.False(t, tel.Tracing())
		})
	}
}
