package edge

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
)

// list sends a call with a key that is not cached to h.
func list(t *testing.T, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	return serve(h, newRequest(t, http.MethodGet, "/api/v1/opportunities", "", "Authorization", bearer()))
}

// series returns the values of a metric by the values of its labels, without those that are zero.
func series(t *testing.T, metrics prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetCounter().GetValue() != 0 {
				values[labels(m)] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

// labels returns the values of the labels of m, in the order of their names.
func labels(m *dto.Metric) string {
	var values []string
	for _, l := range m.GetLabel() {
		values = append(values, l.GetValue())
	}
	return strings.Join(values, " ")
}

// Each decision is counted. An outdated principal is looked up again, a suspended one too if its
// epoch is not the current one, and any if Redis failed over between the lookup and the reply of the
// new primary, whose charge is refunded.
func TestAdmissionDecisions(t *testing.T) {
	oneAMinute := func(p *api.Principal) { p.Limits.PerMinute = 1 }
	noneToday := func(p *api.Principal) { p.Limits.PerDay = 0 }
	suspend := func(epoch int64) func(*api.Principal) {
		return func(p *api.Principal) { p.Suspended, p.Epoch = true, epoch }
	}
	current := func(*api.Principal) {}
	for name, c := range map[string]struct {
		lookups   []func(*api.Principal) // what each lookup changes in the principal of epoch 1, the current one
		calls     int                    // each with another key; 0: one
		stop      bool                   // Redis is stopped after the start
		failsOver bool                   // during the first admission
		status    int
		counted   map[string]float64
	}{
		"admitted": {lookups: []func(*api.Principal){current}, status: 200, counted: map[string]float64{"admitted free": 1}},
		"minute limit": {lookups: []func(*api.Principal){oneAMinute, oneAMinute}, calls: 2, status: 429,
			counted: map[string]float64{"admitted free": 1, "minute_limit_reached free": 1}},
		"day limit": {lookups: []func(*api.Principal){noneToday}, status: 429,
			counted: map[string]float64{"daily_limit_reached free": 1}},
		"outdated": {lookups: []func(*api.Principal){func(p *api.Principal) { p.Epoch = 0 }, current}, status: 200,
			counted: map[string]float64{"epoch free": 1, "admitted free": 1}},
		"suspended": {lookups: []func(*api.Principal){suspend(1)}, status: 403,
			counted: map[string]float64{"suspended free": 1}},
		"suspended until now": {lookups: []func(*api.Principal){suspend(0), current}, status: 200,
			counted: map[string]float64{"admitted free": 1}},
		"undecided": {lookups: []func(*api.Principal){current}, stop: true, status: 503,
			counted: map[string]float64{"undecided free": 1}},
		"failover": {lookups: []func(*api.Principal){current, current}, failsOver: true, status: 200,
			counted: map[string]float64{"admitted free": 2}},
		"suspended, undecided": {lookups: []func(*api.Principal){suspend(1)}, stop: true, status: 503,
			counted: map[string]float64{"undecided free": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			e, lookups := newEdge(t), 0
			server := e.admits(t, func() api.Principal {
				p := principal()
				p.Tier = api.Free
				c.lookups[lookups](&p)
				lookups++
				return p
			}, func() {
				if c.failsOver {
					e.Keys.NewTerm()
				}
			})
			if c.stop {
				server.Stop()
			}
			e.Catalog = replies(t, http.StatusOK, "{}", "Content-Type", jsonType)
			h := e.handler(t)
			var w *httptest.ResponseRecorder
			for range max(1, c.calls) {
				w = list(t, h)
			}
			require.Equal(t, c.status, w.Code, w.Body)
			require.Equal(t, c.counted, series(t, e.Telemetry.Registry, "gateway_admissions_total"))
			require.Equal(t, len(c.lookups), lookups)
			if c.counted["admitted free"] > 0 {
				require.Equal(t, "1", server.Client().HGet(t.Context(), counter.Day(counter.DayOf(time.Now())), "acc_a").Val())
			}
			require.Equal(t, c.status == 200 || c.status == 429, strings.Contains(fmt.Sprint(w.Header()), "X-RateLimit-Limit"),
				"limits of a known, charged account")
		})
	}
}

// logging lets e log to the buffer that it returns.
func (e *Edge) logging(t *testing.T) *bytes.Buffer {
	t.Helper()
	log := &bytes.Buffer{}
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: log})
	require.NoError(t, err)
	e.Telemetry = tel
	return log
}

func TestFailedRefundIsLogged(t *testing.T) {
	e := newEdge(t)
	log := e.logging(t)
	server := e.admits(t, principal, nil)
	e.Catalog = behind(t, func(*http.Request) (*http.Response, error) {
		server.Stop()
		return reply(http.StatusPaymentRequired, strings.NewReader("{}"), "Content-Type", jsonType), nil
	})
	h := e.handler(t)
	require.Equal(t, http.StatusPaymentRequired, list(t, h).Code)
	require.Contains(t, log.String(), `"msg":"charge refund failed"`)
	require.Contains(t, log.String(), `"account_id":"acc_a"`)
}

func TestRouteOfARequestIsLogged(t *testing.T) {
	for path, want := range map[string]operation{"/api/v1/opportunities": opList, "/account/plan/": opAccount} {
		e := newEdge(t)
		log := e.logging(t)
		e.send(t, http.MethodGet, path, "")
		require.Contains(t, log.String(), fmt.Sprintf(`"route":%q`, want))
	}
}

// A rate over a series ignores its first increment, so each series exists from the start.
func TestSeriesOfAlertsExistFromTheStart(t *testing.T) {
	e := newEdge(t)
	_ = e.handler(t)
	families, err := e.Telemetry.Registry.Gather()
	require.NoError(t, err)
	exist := map[string]bool{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			exist[labels(m)] = true
		}
	}
	for _, want := range []string{
		ourFault + " " + string(opAccount) + " " + noTier,
		upstreamFault + " " + string(opHistory) + " " + string(api.Commercial),
		string(admission.Outdated) + " " + string(api.Free), undecided + " " + string(api.Free),
	} {
		require.True(t, exist[want], "%s in %v", want, exist)
	}
}

// Forms of other pages, and pages that are read, make no call, whatever the service sends.
func TestOnlyExplorerFormsMakeCalls(t *testing.T) {
	for _, c := range []struct{ method, path string }{{http.MethodGet, api.ExplorerPath + "/list"},
		{http.MethodPost, "/account/plan"}} {
		e := newEdge(t)
		e.Account = replies(t, http.StatusOK, "page", "Content-Type", htmlType, api.ExplorerHeader, "{}")
		w := e.send(t, c.method, c.path, "")
		require.Equal(t, []any{http.StatusOK, "page"}, []any{w.Code, w.Body.String()}, c)
	}
}
