package billing_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
)

// verbVariable makes the test binary run as the command of the service.
const verbVariable = "OPPORTUNITY_TEST_VERB"

func TestMain(m *testing.M) {
	if os.Getenv(verbVariable) == "" {
		servicetest.Main(m)
	}
	service.Command("billing", billing.Main)
	os.Exit(0)
}

const (
	secret    = sandboxtest.Secret
	returnURL = servicetest.PublicURL + "/account/plan"
)

var schema = servicetest.NewSchema(store.Migrations)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// authquota is a fake of the service. It applies an entitlement only if its version is greater.
type authquota struct {
	*httptest.Server

	mu           sync.Mutex
	entitlements map[string]api.Entitlement
	changed      int
	status       int    // if not 0, every request fails with it and nothing is stored
	generation   string // of the database
}

func newAuthquota(t testing.TB) *authquota {
	a := &authquota{entitlements: map[string]api.Entitlement{}}
	a.Server = servicetest.NewPeer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

func (a *authquota) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.URL.Path == api.MarkPath && a.status == 0 {
		_, _ = io.WriteString(w, `"`+cmp.Or(a.generation, "0123456789abcdef")+`.0."`)
		return
	}
	account, ok := strings.CutPrefix(r.URL.Path, "/internal/v1/entitlements/")
	var e api.Entitlement
	if a.status != 0 {
		w.WriteHeader(a.status)
		return
	}
	if !ok || r.Method != http.MethodPut || r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.Billing) ||
		json.NewDecoder(r.Body).Decode(&e) != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if e.Version > a.entitlements[account].Version {
		a.entitlements[account] = e
		a.changed++
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *authquota) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *authquota) entitlement(account string) api.Entitlement {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.entitlements[account]
}

// instance is a running billing service with a fake authquota, and a substitute for Stripe whose
// webhook events it receives.
type instance struct {
	*servicetest.Service

	t         testing.TB
	cfg       billing.Config
	processor *sandboxtest.Processor
	authquota *authquota
}

func onBothDatabases(t *testing.T, test func(t *testing.T, s *instance)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) { test(t, start(t, url)) })
}

func settings(url string, a *authquota) billing.Config {
	return billing.Config{
		Database: database.Config{URL: url, MaxConnections: 4, AllowOwner: true},
		Tokens:   servicetest.Tokens(peer.Billing), Callers: servicetest.Callers(peer.Billing),
		Telemetry: telemetry.Config{LogOutput: io.Discard},
		Processor: billing.Stripe,
		Stripe:    stripe.Config{APIKey: "sk_test_1", WebhookSecrets: []string{secret}, Price: "price_1"},
		PublicURL: servicetest.PublicURL, AuthquotaURL: a.URL,
		Now: func() time.Time { return now },
	}
}

func start(t testing.TB, url string) *instance {
	t.Helper()
	s := &instance{t: t, authquota: newAuthquota(t)}
	s.processor = sandboxtest.New(t, func() time.Time { return s.cfg.Now() })
	s.cfg = settings(url, s.authquota)
	s.cfg.Substitute = s.processor
	s.run()
	s.WaitReady()
	return s
}

// run starts the service, for the first time or after Stop.
func (s *instance) run() {
	s.Service = run(s.t, s.cfg)
	s.Secrets = []string{"sk_test_1", secret}
}

func run(t testing.TB, cfg billing.Config) *servicetest.Service {
	return servicetest.Start(t, peer.Billing, func(ctx context.Context, server server.Config,
		telemetry telemetry.Config) error {
		cfg.Server, cfg.Telemetry = server, telemetry
		return billing.Run(ctx, cfg)
	})
}

func (s *instance) sendEvent(e sandboxtest.Event) servicetest.Response {
	s.t.Helper()
	return s.sendWebhook([]byte(e), e.Signature(secret, s.cfg.Now()))
}

func (s *instance) sendWebhook(body []byte, signature string) servicetest.Response {
	s.t.Helper()
	return servicetest.Send(s.t, http.MethodPost, s.URL+"/billing/stripe/webhook", body,
		http.Header{"Stripe-Signature": {signature}})
}

func (s *instance) sendEvents(events ...sandboxtest.Event) {
	s.t.Helper()
	for _, e := range events {
		a := s.sendEvent(e)
		require.Equal(s.t, http.StatusOK, a.Status, a.Body)
	}
}

func (s *instance) checkout(account string) string {
	s.t.Helper()
	req := api.ProcessorRequest{Account: account, Email: account + "@example.com", ReturnURL: returnURL}
	return servicetest.Read[api.ProcessorPage](s.Do(http.MethodPost, "/internal/v1/checkouts", req)).URL
}

func (s *instance) subscription(account string) api.Subscription {
	s.t.Helper()
	return servicetest.Read[api.Subscription](s.Do(http.MethodGet, "/internal/v1/subscriptions/"+account, nil))
}

// waitForPush waits until authquota has the entitlement that billing has, and returns it.
func (s *instance) waitForPush(account string) api.Entitlement {
	s.t.Helper()
	want := s.subscription(account).Entitlement
	storetest.Eventually(s.t, "authquota has the entitlement",
		func() bool { return s.authquota.entitlement(account).Version == want.Version })
	require.Equal(s.t, want, s.authquota.entitlement(account))
	return want
}

func reconcile(s *instance) api.BillingReport {
	s.t.Helper()
	return servicetest.Read[api.BillingReport](s.Do(http.MethodPost, "/operator/v1/billing/reconcile", nil))
}
