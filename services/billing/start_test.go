package billing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/stripetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) { http.DefaultClient.CloseIdleConnections() }))
}

const (
	token     = "an internal token for tests of 32 or more"
	secret    = "whsec_of_the_webhook_endpoint"
	publicURL = "https://api.example"
	returnURL = publicURL + "/account/plan"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// authquota is a fake of the service. It applies an entitlement only if its version is greater.
type authquota struct {
	*httptest.Server

	mu           sync.Mutex
	entitlements map[string]api.Entitlement
	changed      int
	status       int // if not 0, every request fails with it and nothing is stored
	dropReplies  bool
}

func newAuthquota(t *testing.T) *authquota {
	a := &authquota{entitlements: map[string]api.Entitlement{}}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

func (a *authquota) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account, ok := strings.CutPrefix(r.URL.Path, "/internal/v1/entitlements/")
	var e api.Entitlement
	if !ok || r.Method != http.MethodPut || r.Header.Get("Authorization") != "Bearer "+token || json.NewDecoder(r.Body).Decode(&e) != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
		return
	}
	if e.Version > a.entitlements[account].Version {
		a.entitlements[account] = e
		a.changed++
	}
	if a.dropReplies { // the entitlement is stored, the reply is lost
		panic(http.ErrAbortHandler)
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

// service is a running billing service with a fake Stripe and a fake authquota.
type service struct {
	t         *testing.T
	cfg       billing.Config
	base, ops string
	stripe    *stripetest.Server
	authquota *authquota
	log       *buffer
	stop      func()
}

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

func onBothDatabases(t *testing.T, test func(t *testing.T, s *service)) {
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, url))
		})
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

func settings(t *testing.T, url string, fake *stripetest.Server, a *authquota) billing.Config {
	return billing.Config{
		Server: server.Config{Drain: 10 * time.Second}, Telemetry: telemetry.Config{LogOutput: io.Discard},
		Database: database.Config{URL: url, MaxConnections: 10}, Tokens: peer.Tokens{Values: []string{token}},
		Stripe: stripe.Config{
			APIKey: stripetest.Key, WebhookSecrets: []string{secret}, Price: stripetest.Price, APIBase: fake.URL,
		},
		Processor: billing.Stripe, PublicURL: publicURL, AuthquotaURL: a.URL, Now: func() time.Time { return now },
	}
}

// start runs the service on a migrated database.
func start(t *testing.T, url string) *service {
	t.Helper()
	fake, a := stripetest.New(t, now), newAuthquota(t)
	cfg := settings(t, url, fake, a)
	require.NoError(t, billing.Migrate(t.Context(), cfg))
	s := &service{t: t, cfg: cfg, stripe: fake, authquota: a}
	s.run()
	return s
}

// run starts the service, for the first time or after stop.
func (s *service) run() {
	cfg := s.cfg
	cfg.Server.Listener, cfg.Server.OperationsListener = listen(s.t), listen(s.t)
	s.log = new(buffer)
	cfg.Telemetry.LogOutput = s.log
	s.base, s.ops = "http://"+cfg.Server.Listener.Addr().String(), "http://"+cfg.Server.OperationsListener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- billing.Run(ctx, cfg) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(s.t, <-ended)
	})
	s.t.Cleanup(func() {
		s.stop()
		if s.t.Failed() {
			s.t.Log(s.log.String())
		}
		for _, secret := range []string{stripetest.Key, secret, token} {
			require.NotContains(s.t, s.log.String(), secret, "secret in the log")
		}
	})
	storetest.Eventually(s.t, "ready", func() bool { return s.do(http.MethodGet, "/readyz", nil).status == http.StatusOK })
}

type response struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (s *service) do(method, path string, body any, header ...string) response {
	s.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		in = bytes.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		require.NoError(s.t, err)
		in = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, s.base+path, in)
	require.NoError(s.t, err)
	if len(header) == 0 {
		header = []string{"Authorization", "Bearer " + token, api.ActorHeader, "ada"}
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return response{s.t, resp.StatusCode, resp.Header, string(text)}
}

func read[T any](a response) (out T) {
	a.t.Helper()
	require.Equal(a.t, http.StatusOK, a.status, a.body)
	require.NoError(a.t, json.Unmarshal([]byte(a.body), &out))
	return out
}

// sendEvent sends a webhook event as Stripe does.
func (s *service) sendEvent(e stripetest.Event) response {
	s.t.Helper()
	return s.do(http.MethodPost, "/billing/stripe/webhook", []byte(e), "Stripe-Signature", e.Signature(secret, s.cfg.Now()), "Content-Type", "application/json")
}

func (s *service) sendEvents(events ...stripetest.Event) {
	s.t.Helper()
	for _, e := range events {
		a := s.sendEvent(e)
		require.Equal(s.t, http.StatusOK, a.status, a.body)
	}
}

func (s *service) checkout(account string) string {
	s.t.Helper()
	req := api.CheckoutRequest{Account: account, Email: account + "@example.com", ReturnURL: returnURL}
	return read[api.ProcessorPage](s.do(http.MethodPost, "/internal/v1/checkouts", req)).URL
}

func (s *service) subscription(account string) api.Subscription {
	s.t.Helper()
	return read[api.Subscription](s.do(http.MethodGet, "/internal/v1/subscriptions/"+account, nil))
}

// waitForPush waits until authquota has the entitlement that billing has, and returns it.
func (s *service) waitForPush(account string) api.Entitlement {
	s.t.Helper()
	want := s.subscription(account).Entitlement
	storetest.Eventually(s.t, "authquota has the entitlement", func() bool { return s.authquota.entitlement(account).Version == want.Version })
	require.Equal(s.t, want, s.authquota.entitlement(account))
	return want
}

func (s *service) metric(line string) bool {
	s.t.Helper()
	resp, err := http.Get(s.ops + "/metrics")
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return strings.Contains(string(text), "\n"+line+"\n")
}

func reconcile(s *service) api.BillingReport {
	s.t.Helper()
	return read[api.BillingReport](s.do(http.MethodPost, "/operator/v1/billing/reconcile", nil))
}
