package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.all = append(s.all, received{service, span})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// of returns the spans of one trace as sorted "service name" strings, and their full text.
func (s *spans) of(id string) (names []string, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		if hex.EncodeToString(span.TraceId) == id {
			names = append(names, span.service+" "+span.Name)
			text += protojson.Format(span.Span)
		}
	}
	slices.Sort(names)
	return names, text
}

// TestOneTrace checks that a request is one trace through all its services, databases and Redis, that log lines have the trace id, and
// that the key is in neither.
func TestOneTrace(t *testing.T) {
	received := new(spans)
	receiver := httptest.NewServer(received)
	defer receiver.Close()
	u := up(t, filepath.Join(t.TempDir(), "data"),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=50",
		"OPPORTUNITY_LOG_LEVEL=DEBUG",             // so that the services behind the gateway log requests that succeed
		"OPPORTUNITY_TRUSTED_PROXIES=127.0.0.0/8") // so that the gateway continues the trace of the test

	for _, c := range []struct {
		name, path, id string
		has            []string // a span of this service with this in its name
	}{
		{"list", "/api/v1/opportunities?country=CA", "0af7651916cd43dd8448eb211c80319c",
			[]string{"gateway GET /api/v1/opportunities", "gateway redis", "authquota POST", "authquota redis", "authquota sqlite",
				"catalog GET /api/v1/opportunities"}},
		{"history", "/api/v1/opportunities/maple-scribe/history", "1bf7651916cd43dd8448eb211c80319d",
			[]string{"gateway GET /api/v1/opportunities/{id}/history", "gateway redis", "authquota POST", "authquota sqlite", "history GET",
				"history sqlite"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := u.issue(t, api.Developer).Key // new, so not cached by the gateway
			a := do(t, u.url, call{path: c.path, key: key, header: map[string]string{"traceparent": "00-" + c.id + "-b7ad6b7169203331-01"}})
			require.Equal(t, http.StatusOK, a.StatusCode)
			var names []string
			var text string
			eventually(t, "the trace has arrived", func() bool {
				names, text = received.of(c.id)
				for _, want := range c.has {
					if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, want) }) {
						return false
					}
				}
				return true
			})
			secret := strings.Split(key, "_")[2]
			require.NotContains(t, text, secret)
			log := u.logged(t)
			require.NotContains(t, log, secret)
			request := a.Header.Get(api.RequestIDHeader)
			for _, service := range []string{"gateway", "authquota"} {
				require.True(t, slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
					return strings.Contains(line, `"service":"`+service+`"`) && strings.Contains(line, c.id) && strings.Contains(line, request)
				}), "%s logs the call with its trace and request id", service)
			}
		})
	}
}
