package authquota_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// environment returns the settings of a deployment on the test's stores.
func environment(s *stores, changes map[string]string) func(string) (string, bool) {
	set := map[string]string{
		"OPPORTUNITY_DATABASE_URL":         s.Database,
		"OPPORTUNITY_REDIS_URL":            s.RedisURL,
		"OPPORTUNITY_CALLER_TOKENS":        strings.Join(servicetest.Callers(peer.Authquota).Tokens, ","),
		"OPPORTUNITY_PUBLIC_URL":           "https://api.example",
		"OPPORTUNITY_DATABASE_ALLOW_OWNER": "true",
		"OPPORTUNITY_KEY_PEPPERS":          strings.Repeat("0f", 32) + "," + strings.Repeat("F0", 40),
		"OPPORTUNITY_ENCRYPTION_KEYS":      strings.Repeat("0f", 32) + "," + strings.Repeat("F0", 32),
		"OPPORTUNITY_TIERS":                "free=20/200/10",
		"OPPORTUNITY_SMTP_URL":             "smtps://ada:0f0f0f@mail.example",
		"OPPORTUNITY_MAIL_FROM":            "Opportunity Data API <no-reply@api.example>",
	}
	maps.Copy(set, changes)
	return func(name string) (string, bool) {
		v, ok := set[name]
		return v, ok && v != "unset"
	}
}

func TestVerbs(t *testing.T) {
	storetest.OnBothDatabases(t, func(t *testing.T, url string) {
		ctx, redis := t.Context(), redistest.Start(t)
		s := &stores{Stores: sitekit.Stores{Redis: redis, Database: url, RedisURL: redis.URL}}
		require.ErrorContains(t, authquota.Main(ctx, environment(s, nil), []string{"check"}), "version", "no schema yet")
		onlyDatabase := environment(s, map[string]string{
			"OPPORTUNITY_REDIS_URL": "unset", "OPPORTUNITY_KEY_PEPPERS": "unset", "OPPORTUNITY_CALLER_TOKENS": "unset",
			"OPPORTUNITY_ENCRYPTION_KEYS": "unset", "OPPORTUNITY_SMTP_URL": "unset", "OPPORTUNITY_MAIL_FROM": "unset",
		})
		require.NoError(t, authquota.Main(ctx, onlyDatabase, []string{"migrate"}), "migrating needs no other secret")
		require.NoError(t, authquota.Main(ctx, onlyDatabase, []string{"migrate"}), "twice is once")
		check := func(changes map[string]string) error {
			set := map[string]string{"OPPORTUNITY_SMTP_URL": "file://" + t.TempDir()}
			maps.Copy(set, changes)
			return authquota.Main(ctx, environment(s, set), []string{"check"})
		}
		require.NoError(t, check(nil))
		require.ErrorContains(t, check(map[string]string{"OPPORTUNITY_SMTP_URL": "smtp://127.0.0.1:1"}),
			"mail server 127.0.0.1:1")
		s.post(t, time.Now(), welcome) // sealed under the test's key
		require.ErrorContains(t, check(nil), "OPPORTUNITY_ENCRYPTION_KEYS lacks the key of 1 ")
		require.NoError(t, check(map[string]string{
			"OPPORTUNITY_ENCRYPTION_KEYS": strings.Repeat("0f", 32) + "," + strings.Repeat("e7", 32),
		}))
		s.Stop()
		require.Error(t, check(nil), "no Redis")
		require.NoError(t, authquota.Main(ctx, environment(s, nil), []string{"check", "--settings"}), "needs nothing else")
		for _, args := range [][]string{nil, {"serve", "now"}} {
			require.ErrorContains(t, authquota.Main(ctx, environment(s, nil), args), "usage:")
		}
	})
}

func TestEveryInvalidSettingIsReported(t *testing.T) {
	s := &stores{Stores: sitekit.Stores{Database: storetest.SQLite(t), RedisURL: "redis://127.0.0.1:1"}}
	for name, bad := range map[string][]string{
		"OPPORTUNITY_DATABASE_URL":  {"unset", "", "mysql://x"},
		"OPPORTUNITY_REDIS_URL":     {"unset", "", "http://x", "redis://127.0.0.1:99999"},
		"OPPORTUNITY_CALLER_TOKENS": {"unset", "", "0f0f", "gateway:0f0f", "catalog:" + strings.Repeat("0f", 16)},
		"OPPORTUNITY_TERMS_VERSION": {"two words", "a/b", strings.Repeat("1", 41)},
		"OPPORTUNITY_CONTACT":       {"nobody", "http://api.example", "javascript:x", "https://", "Ada <ada@example.org>"},
		"OPPORTUNITY_PUBLIC_URL": {"unset", "", "api.example", "https://api.example/", "http://api.example:99999",
			"http://api.example:0"},
		"OPPORTUNITY_KEY_PEPPERS": {
			"unset", "", "word", strings.Repeat("0f", 31), strings.Repeat("0f", 32) + ",", strings.Repeat("0f", 32) + ",0f",
			strings.Repeat("xy", 32),
		},
		"OPPORTUNITY_ENCRYPTION_KEYS": {
			"unset", "", "word", strings.Repeat("0f", 31), strings.Repeat("0f", 33), strings.Repeat("0f", 32) + ",",
			strings.Repeat("0f", 32) + "," + strings.Repeat("0f", 32),
		},
		"OPPORTUNITY_TIERS": {"gold=1/1/1", "free=1/1"},
		"OPPORTUNITY_SMTP_URL": {
			"unset", "", "mail.example", "http://mail.example", "smtp://", "smtp://0f0f@mail.example",
			"smtp://:0f0f@mail.example",
			"smtp://mail.example?starttls=no", "smtps://mail.example?starttls=off", "smtp://ada:0f0f@mail.example?starttls=off",
			"smtp://mail.example/0f0f", "smtp://mail.example:0f0f", "smtp://mail.example:99999",
			"smtps://ada:0f0f0f@mail.example:0", "file://host/0f0f", "file:0f0f", "file:///mails?0f0f", "smtp://a b",
		},
		"OPPORTUNITY_MAIL_FROM": {
			"unset", "", "nobody", "a@x.example, b@x.example", "Ada <ada@x.example>\r\nBcc: bob@x.example", "\"0f0f\"",
		},
	} {
		for _, value := range bad {
			err := authquota.Main(t.Context(), environment(s, map[string]string{name: value}), []string{"serve"})
			require.ErrorContains(t, err, name, "set to %q", value)
			require.NotContains(t, err.Error(), "0f0f", "no secret is repeated")
		}
	}
	all := authquota.Main(t.Context(),
		environment(s, map[string]string{"OPPORTUNITY_TIERS": "x", "OPPORTUNITY_KEY_PEPPERS": "y"}), []string{"serve"})
	require.ErrorContains(t, all, "OPPORTUNITY_TIERS")
	require.ErrorContains(t, all, "OPPORTUNITY_KEY_PEPPERS")
}

// TestMain runs more tests in parallel than there are processors, because most of them wait for
// background loops.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	servicetest.Main(m)
}

var (
	pepper = testkit.Pepper
	begin  = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
)

// onStores runs a test on the stores for local use, which start faster. What differs between
// databases is tested beside each store.
func onStores(t *testing.T, test func(t *testing.T, s *stores)) {
	t.Parallel()
	test(t, localStores(t))
}

// onProductionStores runs a test on the stores of production. It is for tests of failovers, and of
// several writers at once, which SQLite lets write one after the other.
func onProductionStores(t *testing.T, test func(t *testing.T, s *stores)) {
	t.Parallel()
	test(t, productionStores(t))
}

// onBothStores runs a test on the stores of production and on those for local use. It is for a few
// tests that together use every part of the service.
func onBothStores(t *testing.T, test func(t *testing.T, s *stores)) {
	t.Parallel()
	t.Run("Postgres and Redis", func(t *testing.T) {
		t.Parallel()
		test(t, productionStores(t))
	})
	t.Run("SQLite and embedded Redis", func(t *testing.T) {
		t.Parallel()
		test(t, localStores(t))
	})
}

func productionStores(t *testing.T) *stores { return &stores{Stores: sitekit.ProductionStores(t)} }

func localStores(t *testing.T) *stores { return &stores{Stores: sitekit.LocalStores(t)} }

// stores outlive the services that a test starts on them.
type stores struct {
	sitekit.Stores

	stopped   bool             // the test has stopped a store
	restarted bool             // the test has started it again: connections in the pools are broken
	mailbox   string           // directory of the mails
	now       func() time.Time // of the service started last
}

func (s *stores) Stop()  { s.Stores.Stop(); s.stopped = true }
func (s *stores) Start() { s.Stores.Start(); s.restored() }

// restored tells s that a store is available again after an outage.
func (s *stores) restored() { s.stopped, s.restarted = false, true }

// open opens the database of the service.
func (s *stores) open(t *testing.T) testkit.DB {
	t.Helper()
	return testkit.Open(t, s.Database, s.now)
}

// service is a running authquota, as in production.
type service struct {
	*servicetest.Service
	*stores

	t       *testing.T
	retries atomic.Int32 // requests that do has repeated

	seen *servicetest.Log // every response to do except those that show a key
	keys []string
}

// start runs the service and waits until it is ready. adjust changes its settings.
func (s *stores) start(t *testing.T, adjust ...func(*authquota.Config)) *service {
	t.Helper()
	svc := s.run(t, adjust...)
	svc.WaitReady()
	return svc
}

// run runs the service.
func (s *stores) run(t *testing.T, adjust ...func(*authquota.Config)) *service {
	t.Helper()
	cfg := s.Config()
	if s.mailbox == "" {
		s.mailbox = t.TempDir()
	}
	cfg.Mail = courier.Config{URL: "file://" + s.mailbox, From: "Opportunity Data API <no-reply@api.example>"}
	for _, a := range adjust {
		a(&cfg)
	}
	if s.now = cfg.Now; s.now == nil {
		s.now = time.Now
	}
	svc := &service{stores: s, t: t, seen: new(servicetest.Log)}
	svc.Service = servicetest.Start(t, peer.Authquota,
		func(ctx context.Context, server server.Config, telemetry telemetry.Config) error {
			cfg.Server, cfg.Telemetry = server, telemetry
			cfg.Telemetry.LogLevel = slog.LevelDebug
			return authquota.Run(ctx, cfg)
		})
	return svc
}

// startAt runs the service on a clock that the test moves.
func (s *stores) startAt(t *testing.T, at time.Time, adjust ...func(*authquota.Config)) (*service, *servicetest.Clock) {
	t.Helper()
	c := servicetest.NewClock(at)
	return s.start(t, append(adjust, on(c))...), c
}

// on makes the service use a clock.
func on(c *servicetest.Clock) func(*authquota.Config) {
	return func(cfg *authquota.Config) { cfg.Now = c.Now }
}

// stop stops the service. Stop is that of Redis.
func (s *service) stop() { s.Service.Stop() }

// doAs sends a request with exactly these headers.
func (s *service) doAs(method, path string, body any, header http.Header) servicetest.Response {
	s.t.Helper()
	return servicetest.Send(s.t, method, s.URL+path, body, header)
}

// maxRetries is the maximum number of repeated requests of one service after an outage.
const maxRetries = 20

// do sends a request as the gateway does. After an outage that the test has caused, it repeats a
// request that got a 503, at most maxRetries times for the service. In every other test a 503 is
// the response.
func (s *service) do(method, path string, body any) servicetest.Response {
	s.t.Helper()
	for {
		a := s.Do(method, path, body)
		if a.Status == http.StatusServiceUnavailable && !s.stopped && s.restarted {
			require.LessOrEqual(s.t, s.retries.Add(1), int32(maxRetries), "503 although all stores are available again")
			continue
		}
		if a.Status != http.StatusCreated {
			_, _ = io.WriteString(s.seen, a.Body)
		}
		return a
	}
}

// issue issues a key. fields override those of the request.
func (s *service) issue(fields map[string]any) api.IssuedKey {
	s.t.Helper()
	order := map[string]any{"useCase": "testing"}
	for k, v := range fields {
		order[k] = v
	}
	key := servicetest.Read[api.IssuedKey](s.do(http.MethodPost, "/operator/v1/keys", order))
	s.keys = append(s.keys, key.Key)
	return key
}

func (s *service) revoke(id string) servicetest.Response {
	s.t.Helper()
	return s.do(http.MethodPost, "/operator/v1/keys/"+id+"/revoke", nil)
}

func (s *service) change(id, act string, body any) servicetest.Response {
	s.t.Helper()
	return s.do(http.MethodPost, "/operator/v1/accounts/"+id+"/"+act, body)
}

// resolve looks up a key as a gateway with these peppers does.
func (s *service) resolve(key string, peppers ...[]byte) servicetest.Response {
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
	return servicetest.Read[api.Principal](s.resolve(key))
}

// requireSame checks that a key's principal has not changed since. Its epoch may have increased:
// the loop that retries increments may repeat the one of the last change.
func (s *service) requireSame(since api.Principal, key string) {
	s.t.Helper()
	now := s.principal(key)
	require.GreaterOrEqual(s.t, now.Epoch, since.Epoch)
	now.Epoch = since.Epoch
	require.Equal(s.t, since, now)
}

func (s *service) listKeys(query string) []api.ListedKey {
	s.t.Helper()
	return servicetest.Read[struct{ Keys []api.ListedKey }](s.do(http.MethodGet, "/operator/v1/keys"+query, nil)).Keys
}

func (s *service) listAccounts() []api.ListedAccount {
	s.t.Helper()
	return servicetest.Read[struct{ Accounts []api.ListedAccount }](
		s.do(http.MethodGet, "/operator/v1/accounts", nil)).Accounts
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
			cfg := localStores(t).Config()
			cfg.Mail = courier.Config{URL: "file://" + t.TempDir(), From: "no-reply@api.example"}
			cfg.Server.Listener, cfg.Server.OperationsListener = servicetest.Listen(t), servicetest.Listen(t)
			spoil(&cfg)
			require.Error(t, authquota.Run(t.Context(), cfg))
			servicetest.RequireClosed(t, cfg.Server.Listener, cfg.Server.OperationsListener)
		})
	}
}

// browser is a person with a browser at a running service.
type browser struct {
	*testkit.Person

	svc *service
}

// browser returns a person without an account.
func (s *service) browser() *browser {
	return &browser{testkit.NewPerson(s.t, testkit.VisitURL(s.t, s.URL), s.now), s}
}

// signUp signs the person up in the stores, and the browser in.
func (b *browser) signUp(email string) {
	b.svc.t.Helper()
	b.SignUp(b.svc.open(b.svc.t), email)
}

// at returns the browser at another service.
func (b *browser) at(svc *service) *browser {
	moved := *b.Person
	moved.Browser = testkit.VisitURL(svc.t, svc.URL)
	moved.Cookies = b.Cookies
	return &browser{&moved, svc}
}

// other returns the person with another browser, without cookies.
func (b *browser) other() *browser { return &browser{b.Other(), b.svc} }

// mail waits for the n-th mail of a template to an address, counted from 1, and returns it.
func (s *service) mail(to, template string, n int) received {
	s.t.Helper()
	var found []received
	storetest.Eventually(s.t, "mail "+template, func() bool {
		found = nil
		for _, m := range s.allMails(s.t) {
			if m.to == to && strings.Contains(m.name, "Z-"+template+"-") {
				found = append(found, m)
			}
		}
		return len(found) >= n
	})
	return found[n-1]
}

// links returns the paths in a mail.
func (m received) links() []string { return testkit.Links(m.plain) }

// askFor submits an address to a page and returns the link sent by mail.
func (b *browser) askFor(path, email, template string, n int) string {
	b.svc.t.Helper()
	require.Equal(b.svc.t, http.StatusSeeOther, b.Post(path, "email", email).Status)
	return b.svc.mail(email, template, n).links()[0]
}
