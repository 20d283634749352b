package authquota_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/dbtx/dbtxtest"
	"opportunity.internal/services/authquota/internal/mail/courier"
)

// TestMain requires that nothing leaks and that a run of all tests renders every page template. Most tests wait for background
// loops, so more of them run in parallel than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		missing := unseenTemplates()
		if code == 0 && os.Getenv(storetest.QuickVariable) == "" && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" && len(missing) > 0 {
			fmt.Println("FAIL: no test shows the pages", missing)
			code = 1
		}
		os.Exit(code)
	}))
}

const (
	token      = "an internal token for tests of 32 or more"
	olderToken = "the internal token before it of 32 or more"
	actor      = "ada"
)

var pepper = []byte("the pepper that tests hash with.")

// counters is the Redis of one test.
type counters interface {
	Stop()
	Start()
	Flush()
	Client() *redis.Client
}

// onBothStores runs a test on the stores of production and on those for local use.
func onBothStores(t *testing.T, test func(t *testing.T, s *stores)) {
	t.Parallel()
	t.Run("Postgres and Redis", func(t *testing.T) {
		t.Parallel()
		r := storetest.Redis(t)
		test(t, &stores{database: dbtxtest.Schema.Postgres(t), redis: r.URL, counters: r})
	})
	t.Run("SQLite and embedded Redis", func(t *testing.T) {
		t.Parallel()
		r := &embeddedRedis{t: t, addr: "127.0.0.1:0"}
		r.Start()
		t.Cleanup(r.Stop)
		test(t, &stores{database: dbtxtest.Schema.SQLite(t), redis: "redis://" + r.addr, counters: r})
	})
}

type embeddedRedis struct {
	t      *testing.T
	addr   string
	server *embedded.Server
}

func (r *embeddedRedis) Start() {
	r.t.Helper()
	s, err := embedded.Start(r.addr)
	require.NoError(r.t, err)
	r.server, r.addr = s, strings.TrimPrefix(s.URL(), "redis://")
}

func (r *embeddedRedis) Stop() {
	if r.server != nil {
		r.server.Close()
		r.server = nil
	}
}

func (r *embeddedRedis) Flush() {
	require.NoError(r.t, r.Client().FlushAll(context.Background()).Err())
}

func (r *embeddedRedis) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: r.addr})
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// stores outlive the services that a test starts on them.
type stores struct {
	database string
	redis    string

	counters
	away    bool   // the test has stopped a store
	back    bool   // the test has started it again: connections in the pools are broken
	mailbox string // directory of the mails
}

func (s *stores) Stop()  { s.counters.Stop(); s.away = true }
func (s *stores) Start() { s.counters.Start(); s.restored() }

// restored tells s that a store is available again after an outage.
func (s *stores) restored() { s.away, s.back = false, true }

// service is a running authquota, as in production.
type service struct {
	*stores

	t    *testing.T
	base string
	ops  string
	log  *buffer
	stop func()

	retries atomic.Int32 // requests that do has repeated

	seen *buffer // every response except those that show a key
	keys []string
	now  func() time.Time // the test's clock, if any
}

func (s *stores) config() authquota.Config {
	return authquota.Config{
		Database: database.Config{URL: s.database, MaxConnections: 10}, Redis: redisdb.Config{URL: s.redis, Budget: 10 * time.Second},
		Tokens: peer.Tokens{Values: []string{token, olderToken}}, PublicURL: "https://api.example",
		Peppers: []string{hex.EncodeToString(pepper)}, OlderKeys: `jb-.{4,60}`, Encryption: []string{strings.Repeat("e7", 32)},
		Server: server.Config{Drain: 10 * time.Second}, Telemetry: telemetry.Config{LogOutput: io.Discard},
	}
}

// start runs the service; adjust changes its settings.
func (s *stores) start(t *testing.T, adjust ...func(*authquota.Config)) *service {
	t.Helper()
	log := new(buffer)
	cfg := s.config()
	cfg.Telemetry = telemetry.Config{LogOutput: log, LogLevel: slog.LevelDebug}
	cfg.Server.Listener, cfg.Server.OperationsListener = listen(t), listen(t)
	if s.mailbox == "" {
		s.mailbox = t.TempDir()
	}
	cfg.Mail = courier.Config{URL: "file://" + s.mailbox, From: "Opportunity Data API <no-reply@api.example>"}
	for _, a := range adjust {
		a(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- authquota.Run(ctx, cfg) }()
	svc := &service{
		stores: s, t: t, log: log, seen: new(buffer),
		base: "http://" + cfg.Server.Listener.Addr().String(), ops: "http://" + cfg.Server.OperationsListener.Addr().String(),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	svc.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
		sawTemplates(log.String())
		http.DefaultClient.CloseIdleConnections()
	})
	t.Cleanup(svc.stop)
	storetest.Eventually(t, "ready", func() bool { return svc.do(http.MethodGet, "/readyz", nil).status == http.StatusOK })
	return svc
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

// buffer is a concurrent buffer.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// maxRetries is the maximum number of repeated requests of one service after an outage.
const maxRetries = 20

// do sends a request as the gateway does: with the internal token and the operator's name. body is JSON text, a value to
// encode, or nil. After an outage that the test has caused, it repeats a request that got a 503, at most maxRetries times
// for the service. In every other test a 503 is the response.
func (s *service) do(method, path string, body any) answer {
	s.t.Helper()
	for {
		a := s.doAs(method, path, body, http.Header{"Authorization": {"Bearer " + token}, api.ActorHeader: {actor}})
		if a.status != http.StatusServiceUnavailable || s.away || !s.back || path == "/readyz" {
			return a
		}
		require.LessOrEqual(s.t, s.retries.Add(1), int32(maxRetries), "503 although all stores are available again")
	}
}

func (s *service) doAs(method, path string, body any, header http.Header) answer {
	s.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		require.NoError(s.t, err)
		in = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, s.base+path, in)
	require.NoError(s.t, err)
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	a := answer{t: s.t, status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	if a.status != http.StatusCreated {
		_, _ = s.seen.Write(a.body)
	}
	return a
}

func read[T any](a answer) T {
	a.t.Helper()
	require.Equal(a.t, 2, a.status/100, "%s", a.body)
	var out T
	in := json.NewDecoder(bytes.NewReader(a.body))
	in.DisallowUnknownFields()
	require.NoError(a.t, in.Decode(&out))
	return out
}

// rejected requires an error with this code and these texts in its message.
func (a answer) rejected(code problem.Code, words ...string) {
	a.t.Helper()
	var e api.Error
	require.NoError(a.t, json.Unmarshal(a.body, &e), "%s", a.body)
	require.Equal(a.t, code, problem.Code(e.Error.Code), "%s", a.body)
	require.Equal(a.t, code.Status(), a.status)
	require.Equal(a.t, "https://api.example/docs/errors#"+string(code), e.Documentation)
	for _, w := range words {
		require.Contains(a.t, e.Error.Message, w)
	}
}

type issued struct {
	ID        string    `json:"id"`
	Key       string    `json:"key"`
	Account   string    `json:"account"`
	Tier      api.Tier  `json:"tier"`
	ExpiresAt time.Time `json:"expiresAt"`
}

type listedKey struct {
	ID        string     `json:"id"`
	Account   string     `json:"account"`
	Tier      api.Tier   `json:"tier"`
	Prefix    string     `json:"prefix"`
	LastFour  string     `json:"lastFour"`
	UseCase   string     `json:"useCase"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt time.Time  `json:"expiresAt"`
	RevokedAt *time.Time `json:"revokedAt"`
	Status    string     `json:"status"`

	Name       string     `json:"name"`
	ReplacedAt *time.Time `json:"replacedAt"`
	Successor  string     `json:"successor"`
	LastUsedAt *time.Time `json:"lastUsedAt"`
}

type listedAccount struct {
	ID            string     `json:"id"`
	Status        string     `json:"status"`
	ClosedAt      *time.Time `json:"closedAt"`
	Email         string     `json:"email"`
	Tier          api.Tier   `json:"tier"`
	Suspended     bool       `json:"suspended"`
	SuspendedAt   *time.Time `json:"suspendedAt"`
	SuspendReason *string    `json:"suspendReason"`
	MergedInto    string     `json:"mergedInto"`
	CreatedAt     time.Time  `json:"createdAt"`
	UsedToday     int        `json:"usedToday"`
	Keys          int        `json:"keys"`

	Granted api.Tier         `json:"granted"`
	Paid    *api.Entitlement `json:"paid"`
}

// issue issues a key. fields override those of the request.
func (s *service) issue(fields map[string]any) issued {
	s.t.Helper()
	order := map[string]any{"useCase": "testing"}
	for k, v := range fields {
		order[k] = v
	}
	key := read[issued](s.do(http.MethodPost, "/operator/v1/keys", order))
	s.keys = append(s.keys, key.Key)
	return key
}

func (s *service) revoke(id string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/operator/v1/keys/"+id+"/revoke", nil)
}

func (s *service) change(id, act string, body any) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/operator/v1/accounts/"+id+"/"+act, body)
}

// resolve looks up a key as a gateway with these peppers does.
func (s *service) resolve(key string, peppers ...[]byte) answer {
	s.t.Helper()
	if len(peppers) == 0 {
		peppers = [][]byte{pepper}
	}
	parsed, ok := apikey.Parse(key)
	require.True(s.t, ok)
	return s.do(http.MethodPost, "/internal/v1/principals", api.PrincipalQuery{Digests: parsed.Digests(peppers)})
}

func (s *service) principal(key string) api.Principal {
	s.t.Helper()
	return read[api.Principal](s.resolve(key))
}

func (s *service) listKeys(query string) []listedKey {
	s.t.Helper()
	return read[struct{ Keys []listedKey }](s.do(http.MethodGet, "/operator/v1/keys"+query, nil)).Keys
}

func (s *service) listAccounts() []listedAccount {
	s.t.Helper()
	return read[struct{ Accounts []listedAccount }](s.do(http.MethodGet, "/operator/v1/accounts", nil)).Accounts
}

// A failed start closes all listeners.
func TestAStartThatFailsClosesItsListeners(t *testing.T) {
	for what, spoil := range map[string]func(*authquota.Config){
		"peppers":    func(c *authquota.Config) { c.Peppers = []string{"short"} },
		"tiers":      func(c *authquota.Config) { c.Tiers = "free=1" },
		"database":   func(c *authquota.Config) { c.Database.URL = "mysql://x" },
		"mail":       func(c *authquota.Config) { c.Mail.URL = "gopher://x" },
		"public URL": func(c *authquota.Config) { c.PublicURL = "http://[" },
	} {
		t.Run(what, func(t *testing.T) {
			r := &embeddedRedis{t: t, addr: "127.0.0.1:0"}
			r.Start()
			t.Cleanup(r.Stop)
			cfg := (&stores{database: dbtxtest.Schema.SQLite(t), redis: "redis://" + r.addr, counters: r}).config()
			cfg.Telemetry = telemetry.Config{LogOutput: new(buffer)}
			cfg.Mail = courier.Config{URL: "file://" + t.TempDir(), From: "no-reply@api.example"}
			cfg.Server.Listener, cfg.Server.OperationsListener = listen(t), listen(t)
			spoil(&cfg)
			require.Error(t, authquota.Run(t.Context(), cfg))
			for _, ln := range []net.Listener{cfg.Server.Listener, cfg.Server.OperationsListener} {
				_, err := ln.Accept()
				require.ErrorIs(t, err, net.ErrClosed)
			}
		})
	}
}
