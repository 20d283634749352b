package authquota_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/plan"
)

// canceller is a fake billing service that supports cancelling.
type canceller struct {
	*httptest.Server
	mu          sync.Mutex
	unavailable bool
	called      []string
}

func newCanceller(t *testing.T) *canceller {
	c := new(canceller)
	c.Server = servicetest.NewPeer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.unavailable || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.Authquota) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		c.called = append(c.called, r.URL.Path)
		_ = json.NewEncoder(w).Encode(api.Subscription{})
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *canceller) set(unavailable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unavailable = unavailable
}

// calls returns the calls since the last time, in order.
func (c *canceller) calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.called
	c.called = nil
	slices.Sort(calls)
	return calls
}

func (c *canceller) config(cfg *authquota.Config) { cfg.BillingURL = c.URL }

// restart restarts the service, so that its loops run immediately.
func (s *service) restart(adjust ...func(*authquota.Config)) *service {
	s.t.Helper()
	s.stop()
	return s.start(s.t, append(adjust, func(cfg *authquota.Config) { cfg.Now = s.now })...)
}

// Closing an account sends a mail about its plan and stops all charges: the plan is cancelled after
// any billing outage, and again after every later payment.
func TestAClosedAccountIsNotChargedAgain(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		seller := newCanceller(t)
		seller.set(true)
		svc, now := s.startAt(t, begin, seller.config)
		b, other := svc.browser(), svc.browser()
		b.signUp("ada@example.org")
		other.signUp("bob@example.org")
		svc.entitled(b.Account, paid(begin, 1))
		svc.entitled(other.Account, paid(begin, 1))
		b.Get("/account/security/close").Shows(http.StatusOK, "Your plan is cancelled: you are not charged again.", "20 December 2026")
		other.Get("/account/security/close").Shows(http.StatusOK, "Your plan is cancelled")
		b.Post("/account/security/close", "email", "ada@example.org").Leads("/account/sign-in")
		storetest.Eventually(t, "the mail arrives", func() bool {
			return slices.Contains(s.subjects(t, "ada@example.org"), "Your account was closed and its plan cancelled")
		})
		svc = svc.restart(seller.config)
		storetest.Eventually(t, "billing is missed", func() bool { return strings.Contains(svc.Metrics(), "authquota_cancels_pending 1") })
		require.Contains(t, svc.Log.String(), `"loop":"closing"`)
		svc = svc.restart()
		storetest.Eventually(t, "the setting is missed", func() bool { return strings.Contains(svc.Log.String(), "OPPORTUNITY_BILLING_URL is not set") })

		seller.set(false)
		svc = svc.restart(seller.config)
		s.settled(t)
		require.Equal(t, []string{"/internal/v1/subscriptions/" + b.Account + "/cancel"}, seller.calls())
		svc = svc.restart(seller.config)
		svc.entitled(other.Account, paid(begin, 2))
		svc.entitled(b.Account, paid(begin, 2, func(e *api.Entitlement) { e.Renews = false })) // the result of the cancellation
		svc.entitled(b.Account, paid(begin, 2))
		now.Advance(time.Hour)
		svc = svc.restart(seller.config)
		s.settled(t)
		require.Equal(t, []string{"/internal/v1/subscriptions/" + b.Account + "/cancel"}, seller.calls(), "once for what was said since, and nobody else's")

		svc.entitled(b.Account, paid(now.Now(), 3)) // a payment on a checkout session that was still open
		svc.restart(seller.config)
		s.settled(t)
		require.Len(t, seller.calls(), 1)
		require.Len(t, s.subjects(t, "ada@example.org"), 2, "nobody to tell of plans: the address is somebody else's by now")
	})
}

// settled waits until every entitlement of a closed account is cancelled.
func (s *stores) settled(t *testing.T) {
	t.Helper()
	plans := plan.NewStore(s.open(t).DB)
	storetest.Eventually(t, "all plans of closed accounts are cancelled", func() bool {
		pending, err := plans.PendingCancels(t.Context(), 1)
		require.NoError(t, err)
		return len(pending) == 0
	})
}

// A closed account is final: operators cannot change it, and every view shows that it is closed.
func TestAClosedAccountIsFinal(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		key, _ := b.obtain("Mine")
		pending := b.ask("Another")
		b.Post("/account/security/close", "email", "ada@example.org").Leads("/account/sign-in")

		other := svc.browser()
		other.signUp("bob@example.org")
		before := svc.audit("").Entries

		const reason = "closed on 20 November 2026, 10:00 UTC. Closing is final"
		for act, body := range map[string]string{
			"suspend": `{"reason":"x"}`, "resume": `{"reason":"x"}`, "grant": `{"tier":"commercial"}`,
		} {
			svc.change(b.Account, act, body).RequireError(problem.InvalidParameter, reason)
		}
		for _, tier := range []string{"free", "commercial", ""} {
			svc.do(http.MethodPost, "/operator/v1/keys", map[string]any{"account": b.Account, "useCase": "x", "tier": tier}).
				RequireError(problem.InvalidParameter, reason)
		}
		svc.decide(pending, "approve", nil).RequireError(problem.InvalidParameter, "withdrawn")
		other.connect(key).Shows(http.StatusUnprocessableEntity, "This key cannot be connected: it is revoked.")
		require.Equal(t, before, svc.audit("").Entries, "nothing was done")
		require.NotNil(t, svc.principal(key).RevokedAt)

		for _, a := range svc.listAccounts() {
			want := map[string]string{b.Account: "closed", other.Account: "active"}[a.ID]
			require.Equal(t, want, a.Status)
			require.Equal(t, want == "closed", a.ClosedAt != nil)
		}
		var shown map[string]any
		require.NoError(t, json.Unmarshal([]byte(svc.do(http.MethodGet, "/operator/v1/accounts/"+b.Account, nil).Body), &shown))
		require.Equal(t, "closed", shown["status"])
		require.Equal(t, "2026-11-20T10:00:00Z", shown["closedAt"])

		svc.entitled(b.Account, paid(begin, 1)) // billing cancels it; no key works again
		require.NotNil(t, svc.principal(key).RevokedAt)
		require.Equal(t, "closed", svc.listAccounts()[0].Status)
	})
}

// Without a plan, the mail does not mention one and billing is not called.
func TestClosingWithoutAPlan(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		seller := newCanceller(t)
		svc, _ := s.startAt(t, begin, seller.config)
		b, other := svc.browser(), svc.browser()
		b.signUp("ada@example.org")
		other.signUp("bob@example.org")
		require.NotContains(t, b.Get("/account/security/close").Shows(http.StatusOK).Text(), "plan")
		b.Post("/account/security/close", "email", "ada@example.org").Leads("/account/sign-in")
		require.Equal(t, []string{"Your account was closed"}, s.sent(t, 1))
		svc.entitled(other.Account, paid(begin, 1))
		other.Post("/account/security/close", "email", "bob@example.org").Leads("/account/sign-in")
		svc.restart(seller.config)
		s.settled(t)
		require.Equal(t, []string{"/internal/v1/subscriptions/" + other.Account + "/cancel"}, seller.calls())
	})
}

func TestAccountIsClosedDuringRedisOutage(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		key := svc.issue(map[string]any{"account": b.Account})
		s.Stop()
		b.Post("/account/security/close", "email", b.Email).Leads("/account/sign-in")
		b.Get("/account/sign-in").Shows(http.StatusOK, "takes effect shortly")
		storetest.Eventually(t, "pending", func() bool { return svc.HasMetric("authquota_epoch_raises_pending 1") })
		s.Start()
		storetest.Eventually(t, "in effect", func() bool { return svc.HasMetric("authquota_epoch_raises_pending 0") })
		require.NotNil(t, svc.principal(key.Key).RevokedAt)
	})
}

// A session and a used code take effect with the database, because gateways cache neither. Redis
// learns of them later.
func TestPersonSignsInAndOutDuringRedisOutage(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, now := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		s.Stop()
		now.Advance(time.Minute)
		code := b.Code()
		b.SignIn()
		b.Get("/account").Shows(http.StatusOK)
		twice := b.other()
		twice.EnterPassword().Leads("/account/sign-in/code")
		twice.Post("/account/sign-in/code", "code", code).Shows(http.StatusUnprocessableEntity)
		b.Post("/account/sign-out").Leads("/account/sign-in")
		b.Get("/account").Leads("/account/sign-in")
		storetest.Eventually(t, "pending", func() bool { return !svc.HasMetric("authquota_epoch_raises_pending 0") })
		s.Start()
		storetest.Eventually(t, "published", func() bool { return svc.HasMetric("authquota_epoch_raises_pending 0") })
	})
}
