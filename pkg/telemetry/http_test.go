package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"opportunity.internal/pkg/api"
)

func recorded(t *testing.T) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	tel, err := Start(t.Context(), "test", Config{LogOutput: new(bytes.Buffer)})
	require.NoError(t, err)
	spans := tracetest.NewSpanRecorder()
	tel.Tracer, tel.tracing = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"), true
	return tel, spans
}

// attributesOf returns the attributes of a span as text, with its name and status.
func attributesOf(span sdktrace.ReadOnlySpan) map[attribute.Key]string {
	all := map[attribute.Key]string{"name": span.Name(), "status": span.Status().Code.String()}
	for _, a := range span.Attributes() {
		all[a.Key] = a.Value.String()
	}
	return all
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func responding(status int) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		rec := httptest.NewRecorder()
		rec.Code = status
		return rec.Result(), nil
	}
}

func TestSpansOfRequests(t *testing.T) {
	tel, spans := recorded(t)
	for _, c := range []struct {
		method, route string
		status        int
	}{
		{http.MethodGet, "/things/{id}", http.StatusNotFound},
		{"GUESS", "", http.StatusServiceUnavailable},
	} {
		r := httptest.NewRequest(c.method, "https://api.example/things/secret?key=secret", nil)
		r.Header.Set(api.RequestIDHeader, "req-12345678")
		tel.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.route != "" {
				SetRoute(r.Context(), c.route)
			}
			w.WriteHeader(c.status)
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
	ended := spans.Ended()
	require.Len(t, ended, 2)
	require.Equal(t, map[attribute.Key]string{
		"name": "GET /things/{id}", "status": "Unset", "http.request.method": "GET", "http.route": "/things/{id}",
		"url.scheme":                "https",
		"http.response.status_code": "404", "request.id": "req-12345678",
	}, attributesOf(ended[0]))
	require.Equal(t, map[attribute.Key]string{
		"name": "other", "status": "Error", "http.request.method": "_OTHER", "url.scheme": "https", "error.type": "503",
		"http.response.status_code": "503", "request.id": "req-12345678",
	}, attributesOf(ended[1]))
}

func TestSpansOfCalls(t *testing.T) {
	tel, spans := recorded(t)
	ctx, request := tel.Tracer.Start(t.Context(), "request")
	outage := errors.New("secret")
	for _, next := range []roundTrip{responding(http.StatusOK), responding(http.StatusConflict),
		func(*http.Request) (*http.Response, error) { return nil, outage }} {
		_, err := tel.Transport(next, "catalog").RoundTrip(httptest.NewRequest(http.MethodGet,
			"http://10.0.0.7:8080/things/secret", nil).WithContext(ctx))
		require.True(t, err == nil || errors.Is(err, outage))
	}
	request.End()
	ended := spans.Ended()
	require.Len(t, ended, 4)
	base := map[attribute.Key]string{
		"name": "GET catalog", "status": "Unset", "http.request.method": "GET", "service.peer.name": "catalog",
		"server.address": "10.0.0.7",
		"server.port":    "8080", "http.response.status_code": "200",
	}
	require.Equal(t, base, attributesOf(ended[0]))
	base["status"], base["http.response.status_code"], base["error.type"] = "Error", "409", "409"
	require.Equal(t, base, attributesOf(ended[1]))
	delete(base, "http.response.status_code")
	base["error.type"] = "*errors.errorString"
	require.Equal(t, base, attributesOf(ended[2]))
	require.Equal(t, request.SpanContext().SpanID(), ended[2].Parent().SpanID())
}

// An idle service exports no spans of its polling, and neither does its peer.
func TestCallsOfLoopsAreNotRecorded(t *testing.T) {
	tel, spans := recorded(t)
	called := tel.InternalHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, span := StartSpan(r.Context(), tel.Tracer, "SELECT")
		End(span, nil)
	}))
	transport := tel.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
		rec := httptest.NewRecorder()
		called.ServeHTTP(rec, r)
		return rec.Result(), nil
	}), "catalog")
	call := func(ctx context.Context) {
		_, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		require.NoError(t, err)
	}
	call(t.Context())
	tel.Handler(called).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/readyz?caller=history", nil))
	require.Empty(t, spans.Ended())
	ctx, request := tel.Tracer.Start(t.Context(), "request")
	call(ctx)
	request.End()
	require.Len(t, spans.Ended(), 4)
}

func TestErrorTypes(t *testing.T) {
	for want, err := range map[string]error{
		"timeout": context.DeadlineExceeded, "canceled": errors.Join(context.Canceled),
		"*errors.errorString": errors.New("secret"),
	} {
		tel, spans := recorded(t)
		_, span := tel.Tracer.Start(t.Context(), "x")
		End(span, err)
		require.Equal(t, want, attributesOf(spans.Ended()[0])["error.type"])
	}
}

func TestRequestLineIsThatOfTheLogger(t *testing.T) {
	traced := trace.ContextWithSpanContext(t.Context(),
		trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	for _, ctx := range []context.Context{t.Context(), traced} {
		var out bytes.Buffer
		tel, err := Start(t.Context(), "test", Config{LogOutput: &out})
		require.NoError(t, err)
		o := &observed{id: "req-12345678", route: "/things/{id}", recorder: recorder{bytes: 7}}
		ctx = context.WithValue(ctx, observedKey{}, o)
		tel.logRequest(ctx, slog.LevelInfo, o, "GET", 404, 1500*time.Millisecond)
		tel.Log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", "GET"), slog.String("route", o.route),
			slog.Int("status", 404), slog.Int64("bytes", 7), slog.Duration("took", 1500*time.Millisecond))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2)
		var at struct{ Time time.Time }
		for i, line := range lines {
			require.NoError(t, json.Unmarshal([]byte(line), &at))
			_, lines[i], _ = strings.Cut(line, `,"level"`)
		}
		require.Equal(t, lines[1], lines[0])
	}
}

// writes records the text of each Write.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(b))
	return len(b), errors.New("disk full")
}

func (w *writes) texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func TestLinesAreWrittenInOrderAndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(writes)
		w := &lineWriter{out: out, delay: true}
		later := func(lines ...string) {
			for _, line := range lines {
				w.Later([]byte(line))
			}
		}
		later("1", "2")
		require.Empty(t, out.texts())
		time.Sleep(flushInterval)
		synctest.Wait()
		require.Equal(t, []string{"12"}, out.texts())

		later("3")
		n, err := w.Write([]byte("error"))
		require.Equal(t, 5, n)
		require.Error(t, err)
		_, _ = w.Write([]byte("error"))
		require.Equal(t, []string{"12", "3error", "error"}, out.texts())

		later("4")
		w.Flush()
		w.Flush()
		long := strings.Repeat("5", flushSize)
		later(long)
		require.Equal(t, []string{"12", "3error", "error", "4", long}, out.texts())
		time.Sleep(flushInterval)
		later("6")
		time.Sleep(flushInterval)
		synctest.Wait()
		require.Equal(t, "6", out.texts()[5])
	})
}
