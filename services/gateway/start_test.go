package gateway_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway"
)

func TestMain(m *testing.M) {
	if os.Getenv(otherVariable) != "" {
		other()
	}
	goleak.VerifyTestMain(m)
}

const (
	internalToken = "internal-token-of-the-tests-0123456789"
	annsToken     = "token-of-ann-0123456789-0123456789-01"
	sharedToken   = "token-of-all-0123456789-0123456789-01"
	publicURL     = "https://api.opportunity.example"
)

var pepper = bytes.Repeat([]byte{7}, 32)

// environment is the environment of the gateways: a real Redis and fake services.
type environment struct {
	t         testing.TB
	redis     *storetest.RedisServer
	counters  *redis.Client
	authquota *fakeAuthquota
	catalog   *service
	history   *service
	log       *logBuffer
}

func newEnvironment(t testing.TB) *environment {
	t.Helper()
	w := &environment{t: t, redis: storetest.Redis(t), log: new(logBuffer)}
	w.counters = w.redis.Client()
	w.authquota = newAuthquota(t, w.counters)
	w.catalog, w.history = newService(t), newService(t)
	return w
}

// replica is one running gateway.
type replica struct{ url, admin, operations string }

// start runs a gateway with gateway.Run until the test ends.
func (w *environment) start(adjust ...func(*gateway.Config)) replica {
	w.t.Helper()
	gw, _ := w.startAndStop(adjust...)
	return gw
}

// startAndStop is like start and returns a function that stops the gateway and waits for its end.
func (w *environment) startAndStop(adjust ...func(*gateway.Config)) (gw replica, end func()) {
	w.t.Helper()
	public, admin, operations := listen(w.t), listen(w.t), listen(w.t)
	cfg := gateway.Config{
		Server:    server.Config{Listener: public, OperationsListener: operations, Drain: 5 * time.Second},
		Telemetry: telemetry.Config{LogOutput: w.log},
		Redis:     redisdb.Config{URL: w.redis.URL},
		Tokens:    peer.Tokens{Values: []string{internalToken}},
		PublicURL: publicURL, CatalogURL: w.catalog.URL, HistoryURL: w.history.URL, AuthquotaURL: w.authquota.URL,
		Peppers:        []string{hex.EncodeToString(pepper)},
		OperatorTokens: []string{"ann:" + annsToken, sharedToken}, ServiceCapacity: api.ServiceCapacity, AdminListener: admin,
	}
	for _, f := range adjust {
		f(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- gateway.Run(ctx, cfg) }()
	end = sync.OnceFunc(func() {
		stop()
		require.NoError(w.t, <-ended)
	})
	w.t.Cleanup(end)
	at := func(ln net.Listener) string { return "http://" + ln.Addr().String() }
	return replica{at(public), at(admin), at(operations)}, end
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

// charged returns the calls charged today to the account and to all accounts.
func (w *environment) charged(account string) (calls, all int) {
	w.t.Helper()
	day := w.counters.HGetAll(context.Background(), counter.Day(counter.DayOf(time.Now()))).Val()
	_, _ = fmt.Sscan(day[account], &calls)
	_, _ = fmt.Sscan(day[counter.ServiceField], &all)
	return calls, all
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
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
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

// authquota is a fake authquota. It follows the epoch protocol: a principal carries the epoch that was read before it.
type fakeAuthquota struct {
	*httptest.Server
	t        testing.TB
	counters *redis.Client

	mu           sync.Mutex
	byDigest     map[string]*api.Principal
	digests      []string // keys of byDigest in the order of addition
	unlisted     bool     // the list of digests is unavailable, as in an older release
	ledger       api.DayUsage
	lookups      int
	pages        []*http.Request // received page requests
	forms        []string        // bodies of pages
	page         http.HandlerFunc
	usage        map[usageKey]int // received calls
	batches      map[string]int   // received copies of each batch, by id
	tiers        []api.TierLimits
	logged       []api.LoggedRequest
	losesReplies bool // accepts usage batches without a reply
	down         bool
}

type usageKey struct {
	day, key string
	outcome  api.CallOutcome
}

func newAuthquota(t testing.TB, counters *redis.Client) *fakeAuthquota {
	a := &fakeAuthquota{t: t, counters: counters, tiers: api.DefaultLimits(), byDigest: map[string]*api.Principal{}, usage: map[usageKey]int{}, batches: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /internal/v1/principals", a.principal)
	mux.HandleFunc("GET /internal/v1/key-digests", a.keyDigests)
	mux.HandleFunc("GET /internal/v1/usage/{day}", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.down {
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(a.ledger)
	})
	mux.HandleFunc("GET /internal/v1/tiers", a.tierTable)
	mux.HandleFunc("POST /internal/v1/tallies", a.acceptUsage)
	mux.HandleFunc("POST /internal/v1/request-log", a.acceptRequests)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/operator/v1/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "uri": r.RequestURI, "header": r.Header, "body": string(body)})
	})
	mux.HandleFunc("/account", a.account)
	mux.HandleFunc("/account/", a.account)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func (a *fakeAuthquota) principal(w http.ResponseWriter, r *http.Request) {
	var q api.PrincipalQuery
	if r.Header.Get("Authorization") != "Bearer "+internalToken || json.NewDecoder(r.Body).Decode(&q) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lookups++
	if a.down {
		panic(http.ErrAbortHandler)
	}
	for _, digest := range q.Digests {
		if p, ok := a.byDigest[digest]; ok {
			ctx := context.Background()
			a.counters.HSetNX(ctx, counter.Epochs, p.Account, time.Now().UnixMicro())
			epoch, err := a.counters.HGet(ctx, counter.Epochs, p.Account).Int64()
			if err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			a.counters.Expire(ctx, counter.Epochs, counter.EpochsTTL)
			found := *p
			found.Epoch = epoch
			_ = json.NewEncoder(w).Encode(found)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (a *fakeAuthquota) keyDigests(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down || a.unlisted {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	digests := a.digests[after:]
	page := api.KeyDigests{After: api.KeyPosition{Sequence: int64(after), Digest: r.URL.Query().Get("digest")}, Digests: digests}
	page.Last = page.After
	if len(digests) > 0 {
		page.Last = api.KeyPosition{Sequence: int64(len(a.digests)), Digest: digests[len(digests)-1]}
	}
	_ = json.NewEncoder(w).Encode(page)
}

func (a *fakeAuthquota) tierTable(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down || r.Header.Get("Authorization") != "Bearer "+internalToken {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(a.tiers)
}

// receive decodes a batch. It reports false for a batch without the internal token, and drops the connection while authquota is down.
func (a *fakeAuthquota) receive(w http.ResponseWriter, r *http.Request, batch any) bool {
	if a.down {
		panic(http.ErrAbortHandler)
	}
	if r.Header.Get("Authorization") != "Bearer "+internalToken || json.NewDecoder(r.Body).Decode(batch) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	return true
}

func (a *fakeAuthquota) acceptRequests(w http.ResponseWriter, r *http.Request) {
	var batch api.RequestLogBatch
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.receive(w, r, &batch) {
		return
	}
	a.logged = append(a.logged, batch.Requests...)
	w.WriteHeader(http.StatusNoContent)
}

func (a *fakeAuthquota) acceptUsage(w http.ResponseWriter, r *http.Request) {
	var batch api.UsageBatch
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.receive(w, r, &batch) {
		return
	}
	a.batches[batch.ID]++
	if a.batches[batch.ID] == 1 {
		for _, t := range batch.Counts {
			a.usage[usageKey{t.Day, t.Key, t.Outcome}] += t.Calls
		}
	}
	if a.losesReplies {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

// usageOf returns the received calls of a key by outcome, over all days.
func (a *fakeAuthquota) usageOf(key string) map[api.CallOutcome]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[api.CallOutcome]int{}
	for k, calls := range a.usage {
		if k.key == key {
			out[k.outcome] += calls
		}
	}
	return out
}

// loggedOf returns the number of logged requests of a key by status and error code.
func (a *fakeAuthquota) loggedOf(key string) map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]int{}
	for _, r := range a.logged {
		if r.Key == key {
			out[fmt.Sprint(r.Status, " ", r.Code)]++
		}
	}
	return out
}

func (a *fakeAuthquota) account(w http.ResponseWriter, r *http.Request) {
	form, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.pages, a.forms = append(a.pages, r), append(a.forms, string(form))
	page, down := a.page, a.down
	a.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	if page != nil {
		page(w, r)
	}
}

// takePages returns the page requests and their bodies since the last call.
func (a *fakeAuthquota) takePages() (pages []*http.Request, forms []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pages, forms = a.pages, a.forms
	a.pages, a.forms = nil, nil
	return pages, forms
}

// issue creates a key of an account with limits.
func (a *fakeAuthquota) issue(account string, limits api.Limits, adjust ...func(*api.Principal)) apikey.Key {
	key := apikey.Generate(apikey.Test)
	p := &api.Principal{
		Key: "key_" + account, Account: account, Tier: api.Developer, Limits: limits, ExpiresAt: time.Now().Add(24 * time.Hour),
	}
	for _, f := range adjust {
		f(p)
	}
	a.add(key.Digests([][]byte{pepper})[0], p)
	return key
}

func (a *fakeAuthquota) add(digest string, p *api.Principal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byDigest[digest] = p
	a.digests = append(a.digests, digest[:api.KeyDigestLength])
}

// change changes the principal of a key and increments the epoch of its account.
func (a *fakeAuthquota) change(key apikey.Key, f func(*api.Principal)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byDigest[key.Digests([][]byte{pepper})[0]]
	f(p)
	require.NoError(a.t, a.counters.HIncrBy(context.Background(), counter.Epochs, p.Account, 1).Err())
}

func (a *fakeAuthquota) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *fakeAuthquota) lookupCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lookups
}

// service is a fake catalog or history service that records requests. By default it responds with 200 and a small body.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	seen     []*http.Request
	handler  http.HandlerFunc
	overview http.HandlerFunc
	tokens   peer.Tokens // for /readyz
}

func newService(t testing.TB) *service {
	s := &service{tokens: peer.Tokens{Values: []string{internalToken}}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tokens.Readiness(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/internal/v1/overview" { // for the front page, at intervals
			s.serveOverview(w, r)
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, r)
		handler := s.handler
		s.mu.Unlock()
		if handler == nil {
			handler = respond(http.StatusOK, `{"data":[]}`)
		}
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// rejectToken gives the service another internal token.
func (s *service) rejectToken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = peer.Tokens{Values: []string{strings.Repeat("x", 32)}}
}

// serveOverview serves the overview of a catalog. Without one it responds with 404, as an older release does.
func (s *service) serveOverview(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	handler := s.overview
	s.mu.Unlock()
	if handler == nil {
		handler = http.NotFound
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

// logBuffer collects the logs of the gateways.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var developer = api.Limits{PerMinute: 60, PerDay: 1000, PageSize: 50, History: true}

func startWithKey(t *testing.T) (*environment, replica, apikey.Key) {
	t.Helper()
	w := newEnvironment(t)
	return w, w.start(), w.authquota.issue("acc_a", developer)
}
