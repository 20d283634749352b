package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"opportunity.internal/pkg/api"
)

// spans receives traces as a collector does.
type spans struct {
	mu  sync.Mutex
	all []string // trace id, service, name, "failed" if it failed, and the whole span
	// without a parent that are not requests of a caller of the gateway, and have not failed
	roots []string
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var export collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &export) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range export.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				name, request := service+" "+span.Name, service == "gateway" && span.Kind == trace.Span_SPAN_KIND_SERVER
				if span.Status.GetCode() == trace.Status_STATUS_CODE_ERROR {
					name += " failed"
				} else if len(span.ParentSpanId) == 0 && !request {
					s.roots = append(s.roots, name)
				}
				s.all = append(s.all, hex.EncodeToString(span.TraceId)+" "+name+" "+protojson.Format(span))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// await waits until the spans of a trace with these services and names have arrived.
func (s *spans) await(t *testing.T, id string, want ...string) {
	t.Helper()
	eventually(t, "the trace has arrived", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !slices.ContainsFunc(want, func(name string) bool {
			return !slices.ContainsFunc(s.all, func(span string) bool { return strings.HasPrefix(span, id+" "+name) })
		})
	})
}

// TestOneTrace checks that a request is one trace through all its services, databases and Redis,
// that log lines have the trace id, and that the key is in neither. Services that only poll each
// other export no spans.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	received := new(spans)
	receiver := httptest.NewServer(received)
	defer receiver.Close()
	s := newStack(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_BSP_SCHEDULE_DELAY=50",
		"OPPORTUNITY_LOG_LEVEL=DEBUG",             // so that the services behind the gateway log requests that succeed
		"OPPORTUNITY_TRUSTED_PROXIES=127.0.0.0/8") // so that the gateway continues the trace of the test
	key := s.issue(t, api.Developer).Key // not cached by the gateway yet
	get := func(path, id string, status int) response {
		t.Helper()
		a := do(t, s.url, call{path: path, key: key, header: map[string]string{"traceparent": "00-" + id +
			"-b7ad6b7169203331-01"}})
		require.Equal(t, status, a.StatusCode)
		return a
	}
	const list, history, outage = "0af7651916cd43dd8448eb211c80319c", "1bf7651916cd43dd8448eb211c80319d",
		"2cf7651916cd43dd8448eb211c80319e"
	request := get(listPath+"?country=CA", list, http.StatusOK).Header.Get(api.RequestIDHeader)
	received.await(t, list, "gateway GET /api/v1/opportunities", "gateway EVALSHA", "gateway POST authquota",
		"authquota POST /internal/v1/principals",
		"authquota SELECT ", "catalog GET /api/v1/opportunities")
	_ = get(historyPath, history, http.StatusNotFound)
	received.await(t, history, "gateway GET /api/v1/opportunities/{id}/history", "gateway EVALSHA", "history GET",
		"history SELECT")

	s.redis.Stop()
	_ = get(listPath, outage, http.StatusServiceUnavailable)
	received.await(t, outage, "gateway EVALSHA failed", "gateway GET /api/v1/opportunities failed")

	secret := strings.Split(key, "_")[2]
	received.mu.Lock()
	defer received.mu.Unlock()
	require.Empty(t, received.roots, "background loops are not traced")
	require.NotContains(t, strings.Join(received.all, ""), secret)
	for _, service := range []string{"gateway", "authquota"} {
		log := s.process(t, service).out.String()
		require.NotContains(t, log, secret)
		require.True(t, slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
			return strings.Contains(line, list) && strings.Contains(line, request)
		}), "%s logs the call with its trace and request id", service)
	}
}
