package authquota_test

import (
	"encoding/json"
	"maps"
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
		if c.unavailable || r.Method != http.MethodPost ||
			r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.Authquota) {
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
		b.Get("/account/security/close").
			Shows(http.StatusOK, "Your plan is cancelled: you are not charged again.", "20 December 2026")
		other.Get("/account/security/close").Shows(http.StatusOK, "Your plan is cancelled")
		b.Post("/account/security/close", "email", "ada@example.org").Leads("/account/sign-in")
		storetest.Eventually(t, "the mail arrives", func() bool {
			return slices.Contains(s.subjects(t, "ada@example.org"), "Your account was closed and its plan cancelled")
		})
		svc = svc.restart(seller.config)
		storetest.Eventually(t, "billing is missed",
			func() bool { return strings.Contains(svc.Metrics(), "authquota_cancels_pending 1") })
		require.Contains(t, svc.Log.String(), `"loop":"closing"`)
		svc = svc.restart()
		storetest.Eventually(t, "the setting is missed",
			func() bool { return strings.Contains(svc.Log.String(), "OPPORTUNITY_BILLING_URL is not set") })

		seller.set(false)
		svc = svc.restart(seller.config)
		s.settled(t)
		require.Equal(t, []string{"/internal/v1/subscriptions/" + b.Account + "/cancel"}, seller.calls())
		svc = svc.restart(seller.config)
		svc.entitled(other.Account, paid(begin, 2))
		// the result of the cancellation
		svc.entitled(b.Account, paid(begin, 2, func(e *api.Entitlement) { e.Renews = false }))
		svc.entitled(b.Account, paid(begin, 2))
		now.Advance(time.Hour)
		svc = svc.restart(seller.config)
		s.settled(t)
		require.Equal(t, []string{"/internal/v1/subscriptions/" + b.Account + "/cancel"}, seller.calls(),
			"once for what was said since, and nobody else's")

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
		pending := b.RequestKey("Another", api.TermsVersion)
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
		require.NoError(t, json.Unmarshal([]byte(svc.do(http.MethodGet, "/operator/v1/accounts/"+b.Account, nil).Body),
			&shown))
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

// entitle pushes an entitlement, as billing does.
func (s *service) entitle(id string, e api.Entitlement) servicetest.Response {
	s.t.Helper()
	return s.do(http.MethodPut, "/internal/v1/entitlements/"+id, e)
}

func (s *service) entitled(id string, e api.Entitlement) {
	s.t.Helper()
	a := s.entitle(id, e)
	require.Equal(s.t, http.StatusNoContent, a.Status, "%s", a.Body)
}

// paid returns the entitlement of a month from a time on.
func paid(from time.Time, version int64, change ...func(*api.Entitlement)) api.Entitlement {
	until := from.AddDate(0, 1, 0)
	e := api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Renews: true, Version: version}
	for _, c := range change {
		c(&e)
	}
	return e
}

func limits(t api.Tier) api.Limits {
	for _, l := range api.Tiers {
		if l.Tier == t {
			return l.Limits
		}
	}
	panic(t)
}

func (s *service) shown(id string) api.AccountDetail {
	s.t.Helper()
	return servicetest.Read[api.AccountDetail](s.do(http.MethodGet, "/operator/v1/accounts/"+id, nil))
}

func TestPaidTierEndsOnTime(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, now := s.startAt(t, begin)
		key := svc.issue(nil)
		before := svc.principal(key.Key)
		require.Nil(t, before.Next)
		require.Equal(t, api.Free, before.Tier)

		e := paid(begin, 1)
		svc.entitled(key.Account, e)
		got := svc.principal(key.Key)
		require.Greater(t, got.Epoch, before.Epoch, "gateways ask again on the next call")
		require.Equal(t, api.Commercial, got.Tier)
		require.Equal(t, limits(api.Commercial), got.Limits)
		require.Equal(t, &api.PrincipalChange{At: *e.PaidUntil, Tier: api.Free, Limits: limits(api.Free)}, got.Next)
		require.Equal(t, api.Commercial, svc.listKeys("")[0].Tier)
		listed := svc.listAccounts()[0]
		require.Equal(t, api.Commercial, listed.Tier)
		require.Equal(t, api.Free, listed.Granted)
		require.Equal(t, &e, listed.Paid)
		require.Equal(t, 10000, svc.shown(key.Account).PerDay)
		again := svc.issue(map[string]any{"account": key.Account, "tier": "commercial"})
		require.Equal(t, api.Commercial, again.Tier)

		servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"developer"}`))
		got = svc.principal(key.Key)
		require.Equal(t, api.Commercial, got.Tier, "what is paid for is better")
		require.Equal(t, api.Developer, got.Next.Tier)
		require.Equal(t, limits(api.Developer), got.Next.Limits)
		granted := servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"commercial"}`))
		require.Equal(t, api.Commercial, granted.Granted)
		require.Nil(t, svc.principal(key.Key).Next, "nothing changes when the paid period ends")
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"free"}`))

		now.Advance(e.PaidUntil.Sub(begin) - time.Microsecond)
		require.Equal(t, api.Commercial, svc.principal(key.Key).Tier)
		now.Advance(time.Microsecond)
		require.Equal(t, got.Tier, svc.principal(key.Key).Tier, "for gateways whose clock is behind")
		ended := asOf(svc.principal(key.Key), now.Now())
		require.Equal(t, api.Free, ended.Tier)
		require.Equal(t, limits(api.Free), ended.Limits)
		require.Nil(t, ended.Next)
		require.Equal(t, api.Free, svc.listKeys("")[0].Tier)
		require.Equal(t, api.Free, svc.listAccounts()[0].Tier)
		require.Equal(t, &e, svc.listAccounts()[0].Paid, "an operator still sees what was paid")
	})
}

// asOf returns a principal as gateways apply it at a time.
func asOf(p api.Principal, at time.Time) api.Principal {
	if p.Next != nil && !at.Before(p.Next.At) {
		p.Tier, p.Limits, p.Next = p.Next.Tier, p.Next.Limits, nil
	}
	return p
}

// entitlements returns the number of accepted entitlements of an account.
func entitlements(svc *service, id string) int {
	svc.t.Helper()
	return len(servicetest.Read[api.AuditList](
		svc.do(http.MethodGet, "/operator/v1/audit?action=account.entitle&account="+id, nil)).Entries)
}

func TestInvalidEntitlementsAreRejected(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		key := svc.issue(nil)
		path := "/internal/v1/entitlements/" + key.Account
		rejected := func(body any, words string) {
			t.Helper()
			svc.do(http.MethodPut, path, body).RequireError(problem.InvalidParameter, words)
		}
		valid := map[string]any{"tier": "free", "paidUntil": nil, "renews": false, "trouble": "", "version": 1}
		for _, c := range []struct {
			change map[string]any
			words  string
		}{
			{map[string]any{"tier": "gold"}, "tier must be"},
			{map[string]any{"tier": "developer", "paidUntil": "2026-12-20T00:00:00Z"}, "tier must be"},
			{map[string]any{"paidUntil": "2026-12-20T00:00:00Z"}, "paidUntil must be null"},
			{map[string]any{"tier": "commercial"}, "paidUntil must be an instant"},
			{map[string]any{"tier": "commercial", "paidUntil": "tomorrow"}, "Times must look like"},
			{map[string]any{"tier": "commercial", "paidUntil": 1795000000}, "Times must look like"},
			{map[string]any{"tier": "commercial", "paidUntil": "9999-12-31T23:59:59-23:59"}, "before 9998"},
			{map[string]any{"tier": "commercial", "paidUntil": "1970-01-01T00:00:00Z"}, "after 1970"},
			{map[string]any{"renews": "yes"}, "renews must be a bool"},
			{map[string]any{"trouble": "bored"}, "trouble must be"},
			{map[string]any{"trouble": "\x00"}, "trouble: must not contain U+0000"},
			{map[string]any{"version": 0}, "version must be at least 1"},
			{map[string]any{"version": 1e20}, "version must be"},
			{map[string]any{"granted": "commercial"}, "granted is unknown"},
			{map[string]any{"tier": strings.Repeat("x", 65<<10)}, "at most 65536 bytes"},
		} {
			changed := maps.Clone(valid)
			maps.Copy(changed, c.change)
			rejected(changed, c.words)
		}
		rejected("", "tier must be that of a plan")
		rejected("[]", "one JSON object")
		rejected(`{"tier":"free"} {}`, "nothing after it")
		good := paid(begin, 1)
		svc.do(http.MethodPut, path+"?force=1", good).RequireError(problem.UnknownParameter)
		for _, id := range []string{"acc_0199a7a0000070008000000000000000", "x", key.ID, "%00"} {
			svc.entitle(id, good).RequireError(problem.NotFound)
		}
		for _, header := range []http.Header{{}, {"Authorization": {"Bearer " + strings.Repeat("x", 40)}}} {
			require.Equal(t, http.StatusUnauthorized, svc.doAs(http.MethodPut, path, good, header).Status)
		}
		require.Nil(t, svc.shown(key.Account).Paid)
		require.Zero(t, entitlements(svc, key.Account))
	})
}

// Without Redis an entitlement is saved and takes effect as soon as Redis is back, even if billing
// does not retry.
func TestEntitlementIsSavedDuringRedisOutage(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		key := svc.issue(nil)
		before := svc.principal(key.Key)
		s.Stop()
		svc.entitle(key.Account, paid(begin, 1)).RequireError(problem.ServiceUnavailable, "The change is saved")
		svc.entitle(key.Account, paid(begin, 1)).RequireError(problem.ServiceUnavailable, "The change is saved")
		s.Start()
		svc.entitled(key.Account, paid(begin, 1))
		got := svc.principal(key.Key)
		require.NotEqual(t, before.Epoch, got.Epoch)
		require.Equal(t, api.Commercial, got.Tier)
		require.Equal(t, 1, entitlements(svc, key.Account))
	})
}

// The entitlement moves when its account is merged into another; billing continues to push it under
// the old ID.
func TestEntitlementMovesWithConnectedAccount(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, now := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		own, _ := b.obtain("Mine")
		older := svc.issue(nil)
		svc.entitled(older.Account, paid(begin, 1))
		b.connect(older.Key).Leads("/account/keys")
		require.Equal(t, api.Commercial, svc.principal(own).Tier)
		require.Equal(t, begin.AddDate(0, 1, 0), svc.principal(older.Key).Next.At)
		storetest.Eventually(t, "the mail arrives",
			func() bool { return slices.Contains(s.subjects(t, "ada@example.org"), "Your plan is now commercial") })
		b.Get("/account/plan").Shows(200, "commercial")

		before := svc.principal(own).Epoch
		svc.entitled(older.Account, paid(begin.AddDate(0, 1, 0), 2))
		require.Equal(t, begin.AddDate(0, 2, 0), svc.principal(own).Next.At)
		require.Greater(t, svc.principal(own).Epoch, before)
		svc.entitled(b.Account, paid(begin, 1))
		require.Equal(t, begin.AddDate(0, 2, 0), svc.principal(own).Next.At, "the later of both")
		require.Equal(t, int64(2), svc.shown(b.Account).Paid.Version)
		now.Advance(62 * 24 * time.Hour)
		require.Equal(t, api.Free, svc.principal(own).Tier)
		svc.restart()
		storetest.Eventually(t, "the mail arrives",
			func() bool { return slices.Contains(s.subjects(t, "ada@example.org"), "Your plan has ended") })
	})
}
