package gateway_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway"
)

func TestMain(m *testing.M) {
	if os.Getenv(otherVariable) != "" {
		other()
	}
	// the clock of the highlighter's regular expressions runs on for seconds after the last one
	servicetest.Main(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}

const (
	annsToken   = "token-of-ann-0123456789-0123456789-01"
	sharedToken = "token-of-all-0123456789-0123456789-01"
	publicURL   = "https://api.opportunity.example"
)

var pepper = bytes.Repeat([]byte{7}, 32)

// environment is the environment of the gateways: a real Redis and fake services.
type environment struct {
	t         testing.TB
	redis     *redistest.Server
	counters  *redis.Client
	authquota *fakeAuthquota
	catalog   *service
	history   *service
	log       *servicetest.Log
}

// newEnvironment starts an environment. The test runs in parallel with others.
func newEnvironment(t testing.TB) *environment {
	t.Helper()
	if test, ok := t.(*testing.T); ok {
		test.Parallel()
	}
	w := &environment{t: t, redis: redistest.Start(t), log: new(servicetest.Log)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.log)
		}
	})
	w.counters = w.redis.Client()
	w.authquota = newAuthquota(t, w.counters)
	w.catalog, w.history = newService(t), newService(t)
	return w
}

// replica is one running gateway.
type replica struct{ url, admin, operations string }

// patience is the time to wait for Redis on a machine that runs many tests at once.
const patience = 5 * time.Second

// awaitLog waits until the log has a text. A request's line is written after its response.
func (w *environment) awaitLog(t testing.TB, text string) {
	t.Helper()
	storetest.Eventually(t, "the log has "+text, func() bool { return strings.Contains(w.log.String(), text) })
}

// start runs a gateway with gateway.Run until the test ends.
func (w *environment) start(adjust ...func(*gateway.Config)) replica {
	w.t.Helper()
	gw, _ := w.startAndStop(adjust...)
	return gw
}

// startAndStop is like start and returns a function that stops the gateway and waits for its end.
func (w *environment) startAndStop(adjust ...func(*gateway.Config)) (gw replica, end func()) {
	w.t.Helper()
	admin := servicetest.Listen(w.t)
	cfg := gateway.Config{
		Redis:     redisdb.Config{URL: w.redis.URL, Budget: patience},
		Tokens:    servicetest.Tokens(peer.Gateway),
		PublicURL: publicURL, CatalogURL: w.catalog.URL, HistoryURL: w.history.URL, AuthquotaURL: w.authquota.URL,
		Peppers:        []string{hex.EncodeToString(pepper)},
		OperatorTokens: []string{"ann:" + annsToken, sharedToken}, ServiceCapacity: api.ServiceCapacity, BaseTierShare: 100,
		AdminListener: admin,
	}
	for _, f := range adjust {
		f(&cfg)
	}
	s := servicetest.Start(w.t, peer.Gateway, func(ctx context.Context, server server.Config,
		telemetry telemetry.Config) error {
		telemetry.LogOutput = w.log
		cfg.Server, cfg.Telemetry = server, telemetry
		return gateway.Run(ctx, cfg)
	})
	return replica{s.URL, "http://" + admin.Addr().String(), s.OperationsURL}, s.Stop
}

// request is a request to a gateway. The defaults are GET of the list without a key.
type request struct {
	method, path string
	key          apikey.Key
	header       http.Header
	body         io.Reader
}

type response struct {
	status int
	header http.Header
	body   string
}

func (a response) code(t testing.TB) string {
	t.Helper()
	var e api.Error
	require.NoError(t, json.Unmarshal([]byte(a.body), &e), "%d %s", a.status, a.body)
	return e.Error.Code
}

var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true, ExpectContinueTimeout: patience},
}

func (r replica) do(t testing.TB, q request) response {
	t.Helper()
	a, err := r.try(q)
	require.NoError(t, err)
	return a
}

func (r replica) try(q request) (response, error) {
	if q.path == "" {
		q.path = "/api/v1/opportunities"
	}
	req, err := http.NewRequest(q.method, r.url+q.path, q.body)
	if err != nil {
		return response{}, err
	}
	if q.header != nil {
		req.Header = q.header.Clone()
	}
	if q.key != "" {
		req.Header.Set("Authorization", "Bearer "+q.key.Reveal())
	}
	resp, err := client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(body)}, err
}

// get requests the list with a key.
func (r replica) get(t testing.TB, key apikey.Key) response {
	t.Helper()
	return r.do(t, request{key: key})
}

// service is a fake service that records requests, apart from those that the gateway makes at
// intervals. By default it responds with 200 and a small body.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	seen     []*http.Request
	handler  http.HandlerFunc
	overview string // of a catalog; empty: 404
	ready    string // body of /readyz
}

func newService(t testing.TB) *service {
	s := &service{}
	mux := http.NewServeMux()
	mux.HandleFunc("/", s.serve)
	mux.Handle(api.MarkPath, http.NotFoundHandler())
	mux.HandleFunc("/internal/v1/overview", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		respond(map[bool]int{true: http.StatusNotFound, false: http.StatusOK}[s.overview == ""], s.overview)(w, r)
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(w, s.ready)
	})
	s.Server = servicetest.NewPeer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.seen = append(s.seen, r)
	handler := s.handler
	s.mu.Unlock()
	if handler == nil {
		handler = respond(http.StatusOK, `{"data":[]}`)
	}
	handler(w, r)
}

// respondWith sets the handler of all later requests and forgets the recorded ones.
func (s *service) respondWith(handler http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler, s.seen = handler, nil
}

func (s *service) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `W/"1"`)
		w.WriteHeader(status)
		if r.Method != http.MethodHead && status != http.StatusNotModified {
			_, _ = io.WriteString(w, body)
		}
	}
}

// truncated responds with the start of a body.
func truncated(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Length", "100000")
	_, _ = io.WriteString(rw, strings.Repeat(" ", 50000))
	panic(http.ErrAbortHandler)
}

var developer = api.Limits{PerMinute: 60, PerDay: 1000, PageSize: 50, History: true}

func startWithKey(t *testing.T) (*environment, replica, apikey.Key) {
	t.Helper()
	w := newEnvironment(t)
	return w, w.start(), w.authquota.issue("acc_a", developer)
}
