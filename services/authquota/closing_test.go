package authquota_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/plan"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// settled waits until every entitlement of a closed account is cancelled.
func settled(t *testing.T, s *sitekit.Stores) {
	t.Helper()
	plans := plan.NewStore(s.Open(t).DB)
	storetest.Eventually(t, "all plans of closed accounts are cancelled", func() bool {
		pending := storetest.Must(plans.PendingCancels(t.Context(), 1))(t)
		return len(pending) == 0
	})
}

// closeAccount closes the account of a person.
func closeAccount(p *testkit.Person) {
	p.Post("/account/security/close", "email", p.Email).Leads("/account/sign-in")
}

// Closing an account sends a mail about its plan and stops all charges: the plan is cancelled after
// any billing outage, and again after every later payment.
func TestAClosedAccountIsNotChargedAgain(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *sitekit.Stores) {
		seller := sitekit.NewBilling(t)
		seller.Status = http.StatusServiceUnavailable
		svc, now := startAt(t, s, begin, seller.Configure)
		restart := func(adjust ...func(*authquota.Config)) { // so that its loops run immediately
			svc.Stop()
			svc = s.Serve(t, append(adjust, on(now))...)
		}
		b, other := svc.SignUp("ada@example.org"), svc.SignUp("bob@example.org")
		svc.Entitle(b.Account, paid(begin, 1))
		svc.Entitle(other.Account, paid(begin, 1))
		b.Get("/account/security/close").
			Shows(http.StatusOK, "Your plan is cancelled: you are not charged again.", "20 December 2026")
		closeAccount(b)
		s.Mail(t, b.Email, "account-closed-plan", 1)
		restart(seller.Configure)
		storetest.Eventually(t, "billing is missed", func() bool { return svc.HasMetric("authquota_cancels_pending 1") })
		require.Contains(t, svc.Log.String(), `"loop":"closing"`)
		restart()
		storetest.Eventually(t, "the setting is missed",
			func() bool { return strings.Contains(svc.Log.String(), "OPPORTUNITY_BILLING_URL is not set") })

		seller.Set(func(b *sitekit.Billing) { b.Status = 0 })
		restart(seller.Configure)
		settled(t, s)
		cancelled := []string{"/internal/v1/subscriptions/" + b.Account + "/cancel {}"}
		require.Equal(t, cancelled, seller.Calls())
		restart(seller.Configure)
		svc.Entitle(other.Account, paid(begin, 2))
		// the result of the cancellation
		svc.Entitle(b.Account, paid(begin, 2, func(e *api.Entitlement) { e.Renews = false }))
		svc.Entitle(b.Account, paid(begin, 2))
		now.Advance(time.Hour)
		restart(seller.Configure)
		settled(t, s)
		require.Equal(t, cancelled, seller.Calls(), "once for each version of a closed account's entitlement")

		svc.Entitle(b.Account, paid(now.Now(), 3)) // a payment on a checkout session that was still open
		restart(seller.Configure)
		settled(t, s)
		require.Equal(t, cancelled, seller.Calls())
		require.False(t, slices.ContainsFunc(s.Mails(t), func(m sitekit.Mail) bool {
			return m.To == b.Email && m.Template != "account-closed-plan" && m.Template != "plan-started" &&
				m.Template != "confirm-address"
		}), "the address may belong to another account by now")
	})
}

// A closed account is final: operators cannot change it, and every view shows that it is closed.
func TestAClosedAccountIsFinal(t *testing.T) {
	s := onStores(t)
	svc, _ := startAt(t, s, begin)
	b, other := svc.SignUp("ada@example.org"), svc.SignUp("bob@example.org")
	key, _ := svc.Obtain(b, "Mine", api.TermsVersion)
	pending := b.RequestKey("Another", api.TermsVersion)
	closeAccount(b)
	before := svc.AuditEntries("")

	const reason = "closed on 20 November 2026, 10:00 UTC. Closing is final"
	for act, body := range map[string]string{
		"suspend": `{"reason":"x"}`, "resume": `{"reason":"x"}`, "grant": `{"tier":"commercial"}`,
	} {
		svc.Act(b.Account, act, body).RequireError(problem.InvalidParameter, reason)
	}
	svc.Do(http.MethodPost, "/operator/v1/keys", map[string]any{"account": b.Account, "useCase": "x"}).
		RequireError(problem.InvalidParameter, reason)
	svc.Decide(pending, "approve", nil).RequireError(problem.InvalidParameter, "withdrawn")
	other.Post("/account/keys/connect", "key", key).
		Shows(http.StatusUnprocessableEntity, "This key cannot be connected: it is revoked.")
	require.Equal(t, before, svc.AuditEntries(""), "nothing was done")
	require.NotNil(t, svc.Principal(key).RevokedAt)

	svc.Entitle(b.Account, paid(begin, 1)) // billing cancels it; no key works again
	require.NotNil(t, svc.Principal(key).RevokedAt)
	for _, shown := range []api.Account{svc.ListAccounts("")[0].Account, svc.Account(b.Account).Account} {
		require.Equal(t, "closed", shown.Status)
		require.Equal(t, begin, *shown.ClosedAt)
	}
}

// A session, a used code and the end of an account take effect with the database, because gateways
// cache none of them. Redis learns of them later, and with it the gateways that cached a key.
func TestPagesWorkDuringRedisOutage(t *testing.T) {
	s := onStores(t)
	svc, now := startAt(t, s, begin)
	b := svc.SignUp("ada@example.org")
	key := svc.Issue(b.Account)
	s.Stop()
	now.Advance(time.Minute)
	code := b.Code()
	b.SignIn()
	b.Get("/account").Shows(http.StatusOK)
	twice := b.Halfway()
	twice.Post("/account/sign-in/code", "code", code).Shows(http.StatusUnprocessableEntity)
	b.Post("/account/sign-out").Leads("/account/sign-in")
	b.Get("/account").Leads("/account/sign-in")
	now.Advance(time.Minute)
	b.SignIn()
	closeAccount(b)
	b.Get("/account/sign-in").Shows(http.StatusOK, "takes effect shortly")
	storetest.Eventually(t, "pending", func() bool { return !svc.HasMetric("authquota_epoch_raises_pending 0") })
	s.Start()
	storetest.Eventually(t, "published", func() bool { return svc.HasMetric("authquota_epoch_raises_pending 0") })
	require.NotNil(t, svc.Principal(key.Key).RevokedAt)
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

// The entitlement moves when its account is merged into another; billing continues to push it under
// the old ID.
func TestEntitlementMovesWithConnectedAccount(t *testing.T) {
	s := onStores(t)
	svc, now := startAt(t, s, begin)
	b := svc.SignUp("ada@example.org")
	own, older := svc.Issue(b.Account), svc.Issue("")
	ends := func(months int) {
		t.Helper()
		require.Equal(t, begin.AddDate(0, months, 0), svc.Principal(own.Key).Next.At)
	}
	svc.Entitle(older.Account, paid(begin, 1))
	b.Post("/account/keys/connect", "key", older.Key).Leads("/account/keys")
	ends(1)
	s.Mail(t, b.Email, "tier-changed", 1)
	before := svc.Principal(own.Key).Epoch
	svc.Entitle(older.Account, paid(begin.AddDate(0, 1, 0), 2))
	ends(2)
	require.Greater(t, svc.Principal(own.Key).Epoch, before)
	svc.Entitle(b.Account, paid(begin, 1))
	ends(2) // the later of both
	require.Equal(t, int64(2), svc.Account(b.Account).Paid.Version)
	now.Advance(62 * 24 * time.Hour)
	require.Equal(t, api.Free, svc.Principal(own.Key).Tier)
	svc.Stop()
	s.Serve(t, on(now))
	s.Mail(t, b.Email, "plan-ended", 1)
}
