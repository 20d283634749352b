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

// world is everything around the gateways: a real Redis, and services that do as they are told.
type world struct {
	t         testing.TB
	redis     *storetest.RedisServer
	counters  *redis.Client
	authority *authority
	catalog   *service
	history   *service
	log       *logBuffer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, redis: storetest.Redis(t), log: new(logBuffer)}
	w.counters = w.redis.Client()
	w.authority = newAuthority(t, w.counters)
	w.catalog, w.history = newService(t), newService(t)
	return w
}

// replica is one running gateway.
type replica struct{ url, admin string }

// start runs a gateway through the production entry until the test ends.
func (w *world) start(adjust ...func(*gateway.Config)) replica {
	w.t.Helper()
	gw, _ := w.startAndStop(adjust...)
	return gw
}

// startAndStop gives the means to stop it earlier, which waits for its end.
func (w *world) startAndStop(adjust ...func(*gateway.Config)) (gw replica, end func()) {
	w.t.Helper()
	public, admin, operations := listen(w.t), listen(w.t), listen(w.t)
	cfg := gateway.Config{
		Server:    server.Config{Listener: public, OperationsListener: operations, Drain: 5 * time.Second},
		Telemetry: telemetry.Config{LogOutput: w.log},
		Redis:     redisdb.Config{URL: w.redis.URL},
		Tokens:    peer.Tokens{Values: []string{internalToken}},
		PublicURL: publicURL, CatalogURL: w.catalog.URL, HistoryURL: w.history.URL, AuthquotaURL: w.authority.URL,
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
	return replica{"http://" + public.Addr().String(), "http://" + admin.Addr().String()}, end
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

// used is what is charged to an account today, and to all together.
func (w *world) used(account string) (calls, all int) {
	w.t.Helper()
	day := w.counters.HGetAll(context.Background(), counter.Day(counter.DayOf(time.Now()))).Val()
	_, _ = fmt.Sscan(day[account], &calls)
	_, _ = fmt.Sscan(day[counter.ServiceField], &all)
	return calls, all
}

// request is one request to a gateway; empty fields have their usual value.
type request struct {
	method, path string
	key          apikey.Key
	header       http.Header
	body         io.Reader
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) code(t testing.TB) string {
	t.Helper()
	var e api.Error
	require.NoError(t, json.Unmarshal([]byte(a.body), &e), "%d %s", a.status, a.body)
	return e.Error.Code
}

var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
}

func (r replica) do(t testing.TB, q request) answer {
	t.Helper()
	a, err := r.try(q)
	require.NoError(t, err)
	return a
}

func (r replica) try(q request) (answer, error) {
	if q.path == "" {
		q.path = "/api/v1/opportunities"
	}
	req, err := http.NewRequest(q.method, r.url+q.path, q.body)
	if err != nil {
		return answer{}, err
	}
	if q.header != nil {
		req.Header = q.header.Clone()
	}
	if q.key != "" {
		req.Header.Set("Authorization", "Bearer "+q.key.Reveal())
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

// get asks for the list with a key.
func (r replica) get(t testing.TB, key apikey.Key) answer {
	t.Helper()
	return r.do(t, request{key: key})
}

// authority is authquota as the gateway sees it. It keeps the epoch protocol: an answer carries the epoch that was read before it.
type authority struct {
	*httptest.Server
	t        testing.TB
	counters *redis.Client

	mu       sync.Mutex
	byDigest map[string]*api.Principal
	digests  []string // the keys of byDigest, in the order in which they were added
	unlisted bool     // authquota of a release without the list of digests
	usage    api.DayUsage
	lookups  int
	pages    []*http.Request // that were asked for
	forms    []string        // their bodies
	page     http.HandlerFunc
	tallied  map[tallied]int // calls that it was told of
	batches  map[string]int  // how often each came
	tiers    []api.TierLimits
	deaf     bool // takes a batch and answers nothing
	down     bool
}

// tallied is what calls are counted by.
type tallied struct {
	day, key string
	outcome  api.CallOutcome
}

func newAuthority(t testing.TB, counters *redis.Client) *authority {
	a := &authority{t: t, counters: counters, tiers: api.Tiers, byDigest: map[string]*api.Principal{}, tallied: map[tallied]int{}, batches: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /internal/v1/principals", a.principal)
	mux.HandleFunc("GET /internal/v1/key-digests", a.keyDigests)
	mux.HandleFunc("GET /internal/v1/usage/{day}", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.down {
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(a.usage)
	})
	mux.HandleFunc("GET /internal/v1/tiers", a.table)
	mux.HandleFunc("POST /internal/v1/tallies", a.tally)
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

func (a *authority) principal(w http.ResponseWriter, r *http.Request) {
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

func (a *authority) keyDigests(w http.ResponseWriter, r *http.Request) {
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

func (a *authority) table(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down || r.Header.Get("Authorization") != "Bearer "+internalToken {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(a.tiers)
}

func (a *authority) tally(w http.ResponseWriter, r *http.Request) {
	var batch api.UsageBatch
	if r.Header.Get("Authorization") != "Bearer "+internalToken || json.NewDecoder(r.Body).Decode(&batch) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		panic(http.ErrAbortHandler)
	}
	a.batches[batch.ID]++
	if a.batches[batch.ID] == 1 {
		for _, t := range batch.Counts {
			a.tallied[tallied{t.Day, t.Key, t.Outcome}] += t.Calls
		}
	}
	if a.deaf {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

// told is what the gateways told of a key so far, by outcome, of all days.
func (a *authority) told(key string) map[api.CallOutcome]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[api.CallOutcome]int{}
	for of, calls := range a.tallied {
		if of.key == key {
			out[of.outcome] += calls
		}
	}
	return out
}

func (a *authority) account(w http.ResponseWriter, r *http.Request) {
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

// visited takes the pages that were asked for so far, and their forms.
func (a *authority) visited() (pages []*http.Request, forms []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pages, forms = a.pages, a.forms
	a.pages, a.forms = nil, nil
	return pages, forms
}

// issue makes a key of an account with the limits of a tier.
func (a *authority) issue(account string, limits api.Limits, adjust ...func(*api.Principal)) apikey.Key {
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

func (a *authority) add(digest string, p *api.Principal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byDigest[digest] = p
	a.digests = append(a.digests, digest[:api.KeyDigestLength])
}

// change changes whoever holds a key, and raises the epoch before it returns.
func (a *authority) change(key apikey.Key, f func(*api.Principal)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byDigest[key.Digests([][]byte{pepper})[0]]
	f(p)
	require.NoError(a.t, a.counters.HIncrBy(context.Background(), counter.Epochs, p.Account, 1).Err())
}

func (a *authority) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *authority) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lookups
}

// service is a catalog or a history that remembers what it was asked and answers as it is told; by default 200 with a small body.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []*http.Request
	answer http.HandlerFunc
}

func newService(t testing.TB) *service {
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, r)
		answer := s.answer
		s.mu.Unlock()
		if answer == nil {
			answer = says(http.StatusOK, `{"data":[]}`)
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// will sets the answer from now on and forgets what was asked.
func (s *service) will(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.seen = answer, nil
}

func (s *service) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `W/"1"`)
		w.WriteHeader(status)
		if r.Method != http.MethodHead && status != http.StatusNotModified {
			_, _ = io.WriteString(w, body)
		}
	}
}

// logBuffer collects what the gateways log.
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

func freshWorld(t *testing.T) (*world, replica, apikey.Key) {
	t.Helper()
	w := newWorld(t)
	return w, w.start(), w.authority.issue("acc_a", developer)
}
