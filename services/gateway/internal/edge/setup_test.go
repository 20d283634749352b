package edge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/agent"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/usage"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// behind returns a service behind the gateway.
func behind(t testing.TB, serve roundTrip) *proxy.Service {
	t.Helper()
	return proxy.New("service", &url.URL{Scheme: "http", Host: "service.test"}, "token", serve)
}

// replies returns a service that always sends this response, with headers given as pairs.
func replies(t testing.TB, status int, body string, headers ...string) *proxy.Service {
	t.Helper()
	return behind(t, func(*http.Request) (*http.Response, error) {
		return reply(status, strings.NewReader(body), headers...), nil
	})
}

func reply(status int, body io.Reader, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(body), ContentLength: -1}
}

// broken is a body that ends early.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection lost") }

const (
	publicURL = "https://api.opportunity.example"
	jsonType  = "application/json"
	htmlType  = "text/html; charset=utf-8"
)

func newPages() (*docsite.Site, error) { return docsite.New(publicURL, docsite.Operator{}) }

// pages are shared, because rendering them takes longer than most tests.
var pages = sync.OnceValues(newPages)

var agents = sync.OnceValues(func() (*agent.Server, error) {
	return agent.New(publicURL, slog.New(slog.DiscardHandler))
})

// newEdge returns an Edge without keys, a limiter and services. Its recorder sends nothing.
func newEdge(t testing.TB) Edge {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	site, err := pages()
	require.NoError(t, err)
	server, err := agents()
	require.NoError(t, err)
	return Edge{
		Agent: server,
		Usage: usage.New(func(context.Context, api.UsageBatch) error { return nil }, tel.Log),
		Pages: site, Telemetry: tel, Errors: problem.Writer{BaseURL: publicURL, Log: tel.Log}, Now: time.Now,
	}
}

// principal returns the principal of account acc_a.
func principal() api.Principal {
	return api.Principal{Key: "key_a", Account: "acc_a", Epoch: 1, Limits: api.Limits{PerMinute: 10, PerDay: 10},
		ExpiresAt: time.Now().Add(time.Hour)}
}

// issued are the keys that authquota lists.
var issued = sync.OnceValue(func() (keys [100]apikey.Key) {
	for i := range keys {
		keys[i] = apikey.Generate(apikey.Live)
	}
	return keys
})

var requests atomic.Uint32

// bearer returns the Authorization header of a key that no Edge has cached.
func bearer() string {
	return "Bearer " + issued()[requests.Add(1)%uint32(len(issued()))].Reveal()
}

// admits lets e resolve each key with resolve and admit calls of account acc_a. onRestore, if not
// nil, runs when the counters of the day are created. It returns the Redis that has the counters.
func (e *Edge) admits(t testing.TB, resolve func() api.Principal, onRestore func()) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	counters := server.Client()
	require.NoError(t, counters.HSet(t.Context(), counter.Epochs, "acc_a", 1).Err())
	pepper := [][]byte{make([]byte, 32)}
	e.Keys = authn.New(pepper, authn.Authority{
		Resolve: func(context.Context, api.PrincipalQuery) (api.Principal, error) { return resolve(), nil },
		KeyDigests: func(context.Context, api.KeyPosition) (page api.KeyDigests, err error) {
			for _, key := range issued() {
				page.Digests = append(page.Digests, key.Digests(pepper)[0][:api.KeyDigestLength])
			}
			return page, nil
		},
	}, time.Now, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Keys.Run(ctx, e.Telemetry) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		e.Keys.Close()
	})
	e.Limiter = admission.New(admission.Config{
		Redis: counters, Budget: 5 * time.Second, Tracer: e.Telemetry.Tracer, Log: e.Telemetry.Log, Capacity: 10,
		Now: time.Now,
		Restore: func(ctx context.Context, day string) error {
			if onRestore != nil {
				onRestore()
			}
			return counters.HSetNX(ctx, counter.Day(day), counter.ServiceField, 0).Err()
		},
	})
	return server
}

func (e Edge) handler(t testing.TB) http.Handler {
	t.Helper()
	h, err := e.Handler()
	require.NoError(t, err)
	return h
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// newRequest returns a request with headers given as pairs.
func newRequest(t testing.TB, method, path, body string, headers ...string) *http.Request {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, in)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// send serves one request with headers given as pairs.
func (e Edge) send(t testing.TB, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return serve(e.handler(t), newRequest(t, method, path, body, headers...))
}
