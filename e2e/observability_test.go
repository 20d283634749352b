package e2e

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"opportunity.internal/e2e/watch"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// labels lists all metric labels. None identifies a person, an account or a key, and none has
// values that callers choose.
var labels = []string{
	"category", "command", "decision", "feed", "field", "loop", "method", "operation", "outcome", "reason", "result",
	"route", "service", "status",
	"store", "template", "tier", "within", "version",
}

// scrape returns the metrics of all processes, by name. It fails the test if one breaks Prometheus'
// conventions.
func (s *stack) scrape(t testing.TB) map[string]*dto.MetricFamily {
	t.Helper()
	all := map[string]*dto.MetricFamily{}
	for _, operations := range s.operations {
		resp := storetest.Must(http.Get(operations + "/metrics"))(t) //nolint:noctx // ends with the test
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families := storetest.Must(parser.TextToMetricFamilies(resp.Body))(t)
		mistakes := storetest.Must(promlint.NewWithMetricFamilies(slices.Collect(maps.Values(families))).Lint())(t)
		require.Empty(t, mistakes, "by the conventions of Prometheus")
		for name, family := range families {
			if all[name] == nil {
				all[name] = family
				continue
			}
			all[name].Metric = append(all[name].Metric, family.Metric...)
		}
	}
	return all
}

// seriesOf returns the names of the series of a metric in Prometheus.
func seriesOf(family *dto.MetricFamily) []string {
	name := family.GetName()
	switch family.GetType() {
	case dto.MetricType_HISTOGRAM:
		return []string{name + "_bucket", name + "_sum", name + "_count"}
	case dto.MetricType_SUMMARY:
		return []string{name, name + "_sum", name + "_count"}
	default:
		return []string{name}
	}
}

// TestWhatOperatorsWatch checks that every metric in dashboards, rules and docs exists, and that no
// label identifies a caller.
func TestWhatOperatorsWatch(t *testing.T) {
	t.Parallel()
	s := newStack(t, "OPPORTUNITY_HISTORY_SIGNING_KEY="+strings.Repeat("0a", 32))
	s.bill(t)
	initial := s.scrape(t)
	s.verb(t, "", "sample")
	_, errs, code := run(t,
		append(slices.Clone(s.settings["history"]), "OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS=127.0.0.1/32"), "",
		program(t, "history"), "check-links")
	require.Zero(t, code, errs)
	key := s.issue(t, api.Developer)
	eventually(t, "the catalog serves the sample", func() bool { return len(list(t, s.rotate(0), key.Key, listPath)) > 0 })
	s.visit(t, key)
	before := s.scrape(t)

	for selector, where := range watched(t) {
		if !isOurs(selector.Name) {
			continue
		}
		assert.NotEmpty(t, selected(before, selector), "%s uses %s, which no service exports", where, selector)
		// rate() ignores the first increment of a series that did not exist before.
		if isRule := !strings.Contains(where, ".json: ") && !strings.HasPrefix(where, ".."); isRule {
			assert.NotEmpty(t, selected(initial, selector), "%s uses %s, which does not exist from the start", where, selector)
		}
	}
	page := text(t, "../docs/operators/observability.md")
	for name, family := range before {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		require.Contains(t, page, "`"+name+"`", "docs/operators/observability.md does not explain it")
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				require.Contains(t, labels, label.GetName(), name)
				require.NotRegexp(t, "acc_|key_|oda_|no-such-name", label.GetValue(), name)
			}
		}
	}
}

// isOurs reports whether a service exports a metric here. Others are recorded by a rule, those of
// Prometheus and kube-state-metrics, and those of TLS between services, which pkg/service tests.
func isOurs(name string) bool {
	return name != "up" && !strings.Contains(name, ":") && !strings.HasPrefix(name, "kube_") &&
		!strings.HasPrefix(name, "tls_")
}

// selected returns the metrics that a selector selects, by the labels that processes set.
func selected(all map[string]*dto.MetricFamily, by *parser.VectorSelector) (found []*dto.Metric) {
	for _, family := range all {
		if !slices.Contains(seriesOf(family), by.Name) {
			continue
		}
		for _, m := range family.GetMetric() {
			if !slices.ContainsFunc(by.LabelMatchers, func(matcher *promlabels.Matcher) bool {
				if slices.Contains([]string{model.MetricNameLabel, "job", "namespace", "le"}, matcher.Name) {
					return false
				}
				at := slices.IndexFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == matcher.Name })
				return at < 0 || !matcher.Matches(m.GetLabel()[at].GetValue())
			}) {
				found = append(found, m)
			}
		}
	}
	return found
}

// watched returns the selectors of dashboards, rules and docs, each with its user.
func watched(t *testing.T) map[*parser.VectorSelector]string {
	t.Helper()
	found := map[*parser.VectorSelector]string{}
	ask := func(where, expr string) {
		selectors, err := watch.Selectors(expr)
		require.NoError(t, err, where)
		for _, s := range selectors {
			found[s] = where
		}
	}
	rules := storetest.Must(watch.Rules("../charts/opportunity/rules"))(t)
	for _, r := range rules {
		ask(r.Alert+r.Record, r.Expr)
	}
	dashboards := storetest.Must(watch.Dashboards("../charts/opportunity/dashboards"))(t)
	for file, d := range dashboards {
		for _, p := range d.All() {
			for _, target := range p.Targets {
				ask(file+": "+p.Title, watch.Expr(target.Expr))
			}
		}
	}
	files := storetest.Must(filepath.Glob("../docs/*/*.md"))(t)
	for _, file := range files {
		for _, query := range watch.Queries(text(t, file)) {
			ask(file, query)
		}
	}
	return found
}

// bill starts billing for the stack, with an unreachable payment processor, and sends it a webhook
// event without a valid signature.
func (s *stack) bill(t *testing.T) {
	t.Helper()
	address, operations := storetest.FreeAddress(t), storetest.FreeAddress(t)
	env := append(slices.Concat(s.settings["history"], tokens("billing", first, first)),
		"OPPORTUNITY_DATABASE_URL="+storetest.Postgres(t), "OPPORTUNITY_DATABASE_ALLOW_OWNER=true",
		"OPPORTUNITY_LISTEN="+address, "OPPORTUNITY_OPERATIONS_LISTEN="+operations,
		"OPPORTUNITY_STRIPE_API_KEY=sk_test_0123456789abcdef",
		"OPPORTUNITY_STRIPE_WEBHOOK_SECRETS=whsec_0123456789abcdef", "OPPORTUNITY_STRIPE_PRICE=price_0123456789",
		"OPPORTUNITY_STRIPE_API_BASE=http://"+storetest.FreeAddress(t))
	_, errs, code := run(t, env, "", program(t, "billing"), "migrate")
	require.Zero(t, code, "billing migrate: %s", errs)
	process := start(t, env, program(t, "billing"), "serve")
	ready(t, "http://"+operations+"/livez", process)
	s.operations = append(s.operations, "http://"+operations)
	resp, err := http.Post("http://"+address+"/billing/stripe/webhook", "application/json", strings.NewReader("{}")) //nolint:noctx // ends with the test
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	eventually(t, "billing has called the processor",
		func() bool { return s.scrape(t)["billing_processor_seconds"] != nil })
	require.Contains(t, fmt.Sprint(s.scrape(t)["billing_webhooks_total"]), `value:"bad_signature"`)
}

// visit sends requests with one key: some succeed, some fail.
func (s *stack) visit(t *testing.T, key issued) {
	t.Helper()
	for _, gateway := range s.gateways {
		for path, status := range map[string]int{
			listPath: 200, "/api/jobs": 200, listPath + "/no-such-name": 404,
			listPath + "?no-such-name=1":       400,
			listPath + "/no-such-name/history": 404, "/no-such-name": 404, "/docs": 200, "/account/no-such-name": 404,
		} {
			require.Equal(t, status, get(t, gateway, key.Key, path).StatusCode, path)
		}
	}
}

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
