package authquota_test

import (
	"flag"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// environment returns the settings of a deployment on the test's stores.
func environment(s *sitekit.Stores, changes map[string]string) func(string) (string, bool) {
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
		ctx, s := t.Context(), sitekit.NewStores(t, url, redistest.Start(t))
		require.ErrorContains(t, authquota.Main(ctx, environment(s, nil), []string{"check"}), "version", "no schema yet")
		onlyDatabase := environment(s, map[string]string{
			"OPPORTUNITY_REDIS_URL": "unset", "OPPORTUNITY_KEY_PEPPERS": "unset", "OPPORTUNITY_CALLER_TOKENS": "unset",
			"OPPORTUNITY_ENCRYPTION_KEYS": "unset", "OPPORTUNITY_SMTP_URL": "unset", "OPPORTUNITY_MAIL_FROM": "unset",
		})
		require.NoError(t, authquota.Main(ctx, onlyDatabase, []string{"migrate"}), "migrating needs no other secret")
		require.NoError(t, authquota.Main(ctx, onlyDatabase, []string{"migrate"}), "twice is once")
		check := func(changes map[string]string) error {
			set := map[string]string{"OPPORTUNITY_SMTP_URL": "file://" + t.TempDir() + "/new/directory"}
			maps.Copy(set, changes)
			return authquota.Main(ctx, environment(s, set), []string{"check"})
		}
		require.NoError(t, check(nil))
		require.ErrorContains(t, check(map[string]string{"OPPORTUNITY_SMTP_URL": "smtp://127.0.0.1:1"}),
			"mail server 127.0.0.1:1")
		post(t, s, time.Now()) // sealed under the test's key
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

// The service stays ready, because people who need neither mails nor authenticators are served.
func TestReadinessReportsMailServerAndEncryptionKeys(t *testing.T) {
	s := onStores(t)
	post(t, s, begin)
	svc, _ := startAt(t, s, begin, func(c *authquota.Config) {
		c.Encryption, c.Mail.URL = []string{strings.Repeat("a1", 32)}, "smtp://127.0.0.1:1"
	})
	storetest.Eventually(t, "reported", func() bool {
		state := servicetest.Send(t, http.MethodGet, svc.OperationsURL+"/readyz", nil, nil)
		return state.Status == http.StatusOK &&
			strings.Contains(state.Body, "OPPORTUNITY_ENCRYPTION_KEYS lacks the key of 1 ") &&
			strings.Contains(state.Body, "mail server 127.0.0.1:1")
	})
}

// post writes a mail to the outbox, due at a time.
func post(t *testing.T, s *sitekit.Stores, at time.Time) {
	t.Helper()
	db := testkit.Open(t, s.Database, func() time.Time { return at })
	require.NoError(t, db.Change(t.Context(), func(tx *accountdb.Tx) error {
		return tx.Post(mail.Message{To: "ada@example.org", Template: "password-changed"})
	}))
}

func TestEveryInvalidSettingIsReported(t *testing.T) {
	s := &sitekit.Stores{Database: storetest.SQLite(t), RedisURL: "redis://127.0.0.1:1"}
	for name, bad := range map[string][]string{
		"OPPORTUNITY_DATABASE_URL":  {"unset", "", "mysql://x"},
		"OPPORTUNITY_REDIS_URL":     {"unset", "", "http://x", "redis://127.0.0.1:99999"},
		"OPPORTUNITY_CALLER_TOKENS": {"unset", "", "0f0f", "gateway:0f0f", "catalog:" + strings.Repeat("0f", 16)},
		"OPPORTUNITY_TERMS_VERSION": {"two words", "a/b", strings.Repeat("1", 41)},
		"OPPORTUNITY_CONTACT":       {"ada", "http://api.example", "javascript:x", "https://", "Ada <ada@example.org>"},
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
			"unset", "", "ada", "a@x.example, b@x.example", "Ada <ada@x.example>\r\nBcc: bob@x.example", "\"0f0f\"",
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
	begin = testkit.Start
	today = counter.DayOf(begin)
)

// onStores returns the stores for local use, which start faster. What differs between databases is
// tested beside each store.
func onStores(t *testing.T) *sitekit.Stores {
	t.Parallel()
	return sitekit.LocalStores(t)
}

// onBothStores runs a test on the stores of production and on those for local use. It is for a few
// tests that together use every part of the service.
func onBothStores(t *testing.T, test func(t *testing.T, s *sitekit.Stores)) {
	t.Parallel()
	t.Run("Postgres and Redis", func(t *testing.T) {
		t.Parallel()
		test(t, sitekit.ProductionStores(t))
	})
	t.Run("SQLite and embedded Redis", func(t *testing.T) { test(t, onStores(t)) })
}

// on makes the service use a clock.
func on(c *servicetest.Clock) func(*authquota.Config) {
	return func(cfg *authquota.Config) { cfg.Now = c.Now }
}

// startAt runs the service on a clock that the test moves.
func startAt(t *testing.T, s *sitekit.Stores, at time.Time, adjust ...func(*authquota.Config)) (*sitekit.Site,
	*servicetest.Clock) {
	t.Helper()
	c := servicetest.NewClock(at)
	return s.Serve(t, append(adjust, on(c))...), c
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
			cfg := sitekit.LocalStores(t).Config()
			cfg.Server.Listener, cfg.Server.OperationsListener = servicetest.Listen(t), servicetest.Listen(t)
			spoil(&cfg)
			require.Error(t, authquota.Run(t.Context(), cfg))
			servicetest.RequireClosed(t, cfg.Server.Listener, cfg.Server.OperationsListener)
		})
	}
}
