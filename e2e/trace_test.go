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
	all []received
}

type received struct {
	service string
	*trace.Span
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
		about := map[string]string{}
		for _, a := range resource.Resource.Attributes {
			about[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.all = append(s.all, received{about["service.name"], span})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// of returns the spans of one trace as sorted "service name" strings, with "failed" after those
// that failed, and their full text.
func (s *spans) of(id string) (names []string, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		if hex.EncodeToString(span.TraceId) == id {
			name := span.service + " " + span.Name
			if span.Status.GetCode() == trace.Status_STATUS_CODE_ERROR {
				name += " failed"
			}
			names = append(names, name)
			text += protojson.Format(span.Span)
		}
	}
	slices.Sort(names)
	return names, text
}

// roots returns the spans without a parent that are not requests of a caller of the gateway, and
// have not failed.
func (s *spans) roots() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		request := span.service == "gateway" && span.Kind == trace.Span_SPAN_KIND_SERVER
		if len(span.ParentSpanId) == 0 && !request && span.Status.GetCode() != trace.Status_STATUS_CODE_ERROR {
			names = append(names, span.service+" "+span.Name)
		}
	}
	return names
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
	// has waits until a span of this service with this name has arrived, for each in want. It
	// returns the text of the trace.
	has := func(id string, want ...string) (text string) {
		t.Helper()
		var names []string
		eventually(t, "the trace has arrived", func() bool {
			names, text = received.of(id)
			return !slices.ContainsFunc(want, func(w string) bool {
				return !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, w) })
			})
		})
		return text
	}
	const list, history, outage = "0af7651916cd43dd8448eb211c80319c", "1bf7651916cd43dd8448eb211c80319d",
		"2cf7651916cd43dd8448eb211c80319e"
	request := get(listPath+"?country=CA", list, http.StatusOK).Header.Get(api.RequestIDHeader)
	text := has(list, "gateway GET /api/v1/opportunities", "gateway EVALSHA", "gateway POST authquota",
		"authquota POST /internal/v1/principals",
		"authquota SELECT ", "catalog GET /api/v1/opportunities")
	_ = get(historyPath, history, http.StatusNotFound)
	text += has(history, "gateway GET /api/v1/opportunities/{id}/history", "gateway EVALSHA", "history GET",
		"history SELECT")
	require.Empty(t, received.roots(), "background loops are not traced")

	s.redis.Stop()
	_ = get(listPath, outage, http.StatusServiceUnavailable)
	text += has(outage, "gateway EVALSHA failed", "gateway GET /api/v1/opportunities failed")

	secret := strings.Split(key, "_")[2]
	require.NotContains(t, text, secret)
	for _, service := range []string{"gateway", "authquota"} {
		log := s.process(t, service).out.String()
		require.NotContains(t, log, secret)
		require.True(t, slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
			return strings.Contains(line, list) && strings.Contains(line, request)
		}), "%s logs the call with its trace and request id", service)
	}
}
