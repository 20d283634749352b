package edge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/usage"
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
// epoch is not the current one, and any if Redis failed over between the lookup and the reply of
// the new primary, whose charge is refunded.
func TestAdmissionDecisions(t *testing.T) {
	oneAMinute := func(p *api.Principal) { p.Limits.PerMinute = 1 }
	noneToday := func(p *api.Principal) { p.Limits.PerDay = 0 }
	suspend := func(epoch int64) func(*api.Principal) {
		return func(p *api.Principal) { p.Suspended, p.Epoch = true, epoch }
	}
	outdated, current := func(p *api.Principal) { p.Epoch = 0 }, func(*api.Principal) {}
	type changes []func(*api.Principal) // in each lookup, of the principal of epoch 1, the current one
	for name, c := range map[string]struct {
		lookups   changes
		calls     int  // each with another key; 0: one
		stop      bool // Redis is stopped after the start
		failsOver bool // during the first admission
		status    int
		counted   string // decisions
	}{
		"admitted": {lookups: changes{current}, status: 200, counted: "admitted free:1"},
		"minute limit": {lookups: changes{oneAMinute, oneAMinute}, calls: 2, status: 429,
			counted: "admitted free:1 minute_limit_reached free:1"},
		"day limit":            {lookups: changes{noneToday}, status: 429, counted: "daily_limit_reached free:1"},
		"outdated":             {lookups: changes{outdated, current}, status: 200, counted: "admitted free:1 epoch free:1"},
		"failover":             {lookups: changes{current, current}, failsOver: true, status: 200, counted: "admitted free:2"},
		"suspended":            {lookups: changes{suspend(1)}, status: 403, counted: "suspended free:1"},
		"suspended until now":  {lookups: changes{suspend(0), current}, status: 200, counted: "admitted free:1"},
		"undecided":            {lookups: changes{current}, stop: true, status: 503, counted: "undecided free:1"},
		"suspended, undecided": {lookups: changes{suspend(1)}, stop: true, status: 503, counted: "undecided free:1"},
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
			require.Equal(t, "map["+c.counted+"]", fmt.Sprint(series(t, e.Telemetry.Registry, "gateway_admissions_total")))
			require.Equal(t, len(c.lookups), lookups)
			if strings.Contains(c.counted, "admitted") {
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

// panickingBody panics on Read.
type panickingBody struct{}

func (panickingBody) Read([]byte) (int, error) { panic("bug") }

// A client that disconnects while it gets a response is charged, and gets no error of the gateway.
func TestDisconnectDuringTheResponseIsToldApart(t *testing.T) {
	for _, c := range []struct{ method, path, body, operation string }{
		{http.MethodGet, "/api/v1/opportunities", "", "/api/v1/opportunities"}, {http.MethodPost, "/mcp", search,
			"/api/v1/search"},
	} {
		e := newEdge(t)
		log := e.logging(t)
		counters := e.admits(t, principal, nil).Client()
		ctx, disconnect := context.WithCancel(t.Context())
		e.Catalog = behind(t, func(r *http.Request) (*http.Response, error) {
			disconnect()
			return reply(http.StatusOK, canceled{r.Context()}, "Content-Type", jsonType), nil
		})
		h := e.handler(t)
		r := httptest.NewRequestWithContext(ctx, c.method, c.path, strings.NewReader(c.body))
		if c.body == "" {
			r.ContentLength = 0
		}
		r.Header.Set("Content-Type", jsonType)
		r.Header.Set("Authorization", bearer())
		func() {
			defer func() { _ = recover() }() // http.ErrAbortHandler
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		require.NoError(t, e.Telemetry.Shutdown(t.Context()))
		require.Contains(t, log.String(), `"status":499`, c.path)
		require.NotContains(t, log.String(), `"ERROR"`, c.path)
		requests := series(t, e.Telemetry.Registry, "gateway_requests_total")
		require.InDelta(t, 1, requests["refused "+c.operation+" "], 0, c.path)
		for name := range requests {
			require.NotContains(t, name, served)
		}
		day := counters.HGetAll(t.Context(), counter.Day(counter.DayOf(time.Now()))).Val()
		require.Equal(t, "1", day["acc_a"], c.path)
	}
}

// canceled is the body of a response whose reader is gone.
type canceled struct{ ctx context.Context }

func (c canceled) Read([]byte) (int, error) { return 0, context.Cause(c.ctx) }

// A panic after the charge refunds it; a response that can still be written shows the refund. The
// call counts for the day of its charge, by the Redis clock.
func TestPanicRefundsCharge(t *testing.T) {
	e := newEdge(t)
	var err error
	e.Pages, err = newPages() // counts only these calls
	require.NoError(t, err)
	counters := e.admits(t, principal, nil).Client()
	e.Catalog = behind(t, func(*http.Request) (*http.Response, error) { panic("bug") })
	e.History = behind(t, func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, panickingBody{}, "Content-Type", "application/json"), nil
	})
	tomorrow := time.Now().Add(24 * time.Hour)
	e.Now = func() time.Time { return tomorrow }
	recorded, codes := map[string]int{}, map[string]int{}
	e.Usage = usage.New(func(_ context.Context, b api.UsageBatch) error {
		for _, c := range b.Counts {
			recorded[c.Day+" "+string(c.Outcome)] += c.Calls
		}
		for _, r := range b.Requests {
			codes[fmt.Sprint(r.Route, " ", r.Status, r.Code)]++
			require.Positive(t, r.Duration)
			require.True(t, tomorrow.Equal(r.At.Add(r.Duration)), "it has the time of its arrival")
		}
		return nil
	}, e.Telemetry.Log)
	h := e.handler(t)
	gateway := httptest.NewServer(h)
	defer gateway.Close()
	for path, answered := range map[string]bool{"/api/v1/opportunities": true, "/api/v1/opportunities/a/history": false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", bearer())
		resp, err := gateway.Client().Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		if answered {
			require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
			require.Equal(t, "10", resp.Header.Get("X-RateLimit-Remaining"))
		}
		storetest.Eventually(t, "the charge of "+path+" is refunded", func() bool {
			day := counters.HGetAll(context.Background(), counter.Day(counter.DayOf(time.Now()))).Val()
			return day["acc_a"] == "0" && day[counter.ServiceField] == "0"
		})
	}
	storetest.Eventually(t, "both calls are recorded", func() bool { return e.Usage.Pending() == 2 })
	require.NoError(t, e.Usage.Flush(t.Context()))
	require.Equal(t, map[string]int{counter.DayOf(tomorrow.Add(-24*time.Hour)) + " failed": 2}, recorded, "recorded calls")
	require.Equal(t, map[string]int{"/api/v1/opportunities 500internal_error": 1,
		"/api/v1/opportunities/{id}/history 500internal_error": 1}, codes, "logged requests")
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/jobs", nil))
	require.Contains(t, availability(t, e), "0.00% of 2 requests", "a correct rejection counts neither way")
}

// Each call of an existing key is recorded once with its outcome. It is charged if the client got a
// billable response, and refunded once otherwise.
func TestOutcomeAndChargeOfACall(t *testing.T) {
	past := time.Now().Add(-time.Second)
	gone := errors.New("no route")
	for name, c := range map[string]struct {
		method, path, key string // default: GET of the list with a key of acc_a
		body              string
		change            func(*api.Principal)
		status            int // of the response of the service; default: 200
		err               error
		cut               bool // the response of the service ends early
		outcome           api.CallOutcome
		charged           bool
	}{
		"served":       {outcome: api.CallServed, charged: true},
		"HEAD":         {method: http.MethodHead, outcome: api.CallServed, charged: true},
		"not modified": {status: 304, outcome: api.CallServed, charged: true},
		"not found":    {status: 404, outcome: api.CallNotFound, charged: true},
		"invalid":      {status: 400, outcome: api.CallBadRequest},
		"invalid, cut": {status: 400, cut: true, outcome: api.CallFailed},
		"with a body":  {body: "x", outcome: api.CallBadRequest},
		"cursor ended": {status: 410, outcome: api.CallBadRequest},
		"paid":         {status: 402, outcome: api.CallSubscriptionRequired},
		"fault":        {status: 500, outcome: api.CallFailed},
		"unavailable":  {status: 503, outcome: api.CallFailed},
		"redirect":     {status: 302, outcome: api.CallFailed},
		"unreachable":  {err: gone, outcome: api.CallFailed},
		"disconnected": {err: context.Canceled, outcome: api.CallFailed},
		"cut":          {cut: true, outcome: api.CallFailed},
		"expired":      {change: func(p *api.Principal) { p.ExpiresAt = past }, outcome: api.CallExpiredAPIKey},
		"revoked":      {change: func(p *api.Principal) { p.RevokedAt = &past }, outcome: api.CallRevokedAPIKey},
		"suspended":    {change: func(p *api.Principal) { p.Suspended = true }, outcome: api.CallAccountSuspended},
		"minute":       {change: func(p *api.Principal) { p.Limits.PerMinute = 1 }, outcome: api.CallMinuteLimitReached},
		"day":          {change: func(p *api.Principal) { p.Limits.PerDay = 5 }, outcome: api.CallDailyLimitReached},
		"POST":         {method: http.MethodPost}, // not a call, as those below
		"OPTIONS":      {method: http.MethodOptions},
		"no path":      {path: "/nowhere"},
		"malformed":    {key: "Bearer x"},
		"unknown":      {key: "Bearer " + apikey.Generate(apikey.Live).Reveal()},
	} {
		t.Run(name, func(t *testing.T) {
			e, recorded := newEdge(t), map[api.CallOutcome]int{}
			e.Usage = usage.New(func(_ context.Context, b api.UsageBatch) error {
				for _, c := range b.Counts {
					recorded[c.Outcome] += c.Calls
				}
				return nil
			}, e.Telemetry.Log)
			counters := e.admits(t, func() api.Principal {
				p := principal()
				if c.change != nil {
					c.change(&p)
				}
				return p
			}, nil).Client()
			day := counter.Day(counter.DayOf(time.Now()))
			require.NoError(t, counters.HSet(t.Context(), day, counter.ServiceField, 5, "acc_a", 5).Err())
			require.NoError(t, counters.LPush(t.Context(), counter.Window("acc_a"), time.Now().UnixMicro()).Err())
			var answer io.Reader = strings.NewReader("{}")
			if c.cut {
				answer = broken{}
			}
			e.Catalog = behind(t, func(*http.Request) (*http.Response, error) {
				return reply(cmp.Or(c.status, 200), answer, "Content-Type", jsonType), c.err
			})
			call := func() {
				e.send(t, cmp.Or(c.method, http.MethodGet), cmp.Or(c.path, "/api/v1/opportunities"), c.body, "Authorization",
					cmp.Or(c.key, bearer()))
			}
			if c.cut {
				require.PanicsWithValue(t, http.ErrAbortHandler, call)
			} else {
				call()
			}
			want, used := map[api.CallOutcome]int{}, "5"
			if c.outcome != "" {
				want[c.outcome] = 1
			}
			if c.charged {
				used = "6"
			}
			require.NoError(t, e.Usage.Flush(t.Context()))
			require.Equal(t, want, recorded)
			require.Equal(t, used, counters.HGet(t.Context(), day, "acc_a").Val())
		})
	}
}

func TestOutcomeOfARequestIsCounted(t *testing.T) {
	failing := func(err error) roundTrip { return func(*http.Request) (*http.Response, error) { return nil, err } }
	responds := func(status int) roundTrip {
		return func(*http.Request) (*http.Response, error) {
			return reply(status, strings.NewReader(""), "Content-Type", htmlType), nil
		}
	}
	for _, c := range []struct {
		serve   roundTrip
		outcome string
	}{
		{responds(200), served}, {responds(403), rejected}, {responds(500), upstreamFault},
		{failing(errors.New("no route")), upstreamFault}, {failing(context.Canceled), rejected},
		{func(*http.Request) (*http.Response, error) { panic("bug") }, ourFault},
	} {
		e := newEdge(t)
		var err error
		e.Pages, err = newPages() // counts only this request
		require.NoError(t, err)
		e.Account = behind(t, c.serve)
		e.send(t, http.MethodGet, "/account", "")
		require.Equal(t, map[string]float64{c.outcome + " /account " + noTier: 1},
			series(t, e.Telemetry.Registry, "gateway_requests_total"))
		require.Contains(t, availability(t, e), "nothing measured yet", "a page is no call")
	}
}

// availability returns the row of the status page with the share of calls that were served.
func availability(t *testing.T, e Edge) string {
	t.Helper()
	require.NoError(t, e.Pages.ShowHealth(docsite.Health{}))
	w := httptest.NewRecorder()
	require.NoError(t, e.Pages.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/status", nil)))
	_, row, _ := strings.Cut(w.Body.String(), "Availability: ")
	row, _, _ = strings.Cut(row, "</tr>")
	return row
}
