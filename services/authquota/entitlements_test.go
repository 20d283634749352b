package authquota_test

import (
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/plan"
)

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

		servicetest.Read[listedAccount](svc.change(key.Account, "grant", `{"tier":"developer"}`))
		got = svc.principal(key.Key)
		require.Equal(t, api.Commercial, got.Tier, "what is paid for is better")
		require.Equal(t, api.Developer, got.Next.Tier)
		require.Equal(t, limits(api.Developer), got.Next.Limits)
		granted := servicetest.Read[listedAccount](svc.change(key.Account, "grant", `{"tier":"commercial"}`))
		require.Equal(t, api.Commercial, granted.Granted)
		require.Nil(t, svc.principal(key.Key).Next, "nothing changes when the paid period ends")
		servicetest.Read[listedAccount](svc.change(key.Account, "grant", `{"tier":"free"}`))

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
	return len(servicetest.Read[api.AuditList](svc.do(http.MethodGet, "/operator/v1/audit?action=account.entitle&account="+id, nil)).Entries)
}

func TestInvalidEntitlementsAreRejected(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		key := svc.issue(nil)
		path := "/internal/v1/entitlements/" + key.Account
		for body, words := range map[string]string{
			"":                   "tier must be that of a plan",
			"null":               "tier must be",
			"[]":                 "one JSON object",
			`{"tier":"free"`:     "one JSON object",
			`{"tier":"free"} {}`: "nothing after it",
			`{"tier":"gold","paidUntil":null,"renews":false,"trouble":"","version":1}`:                                "tier must be",
			`{"tier":"developer","paidUntil":"2026-12-20T00:00:00Z","renews":false,"trouble":"","version":1}`:         "tier must be",
			`{"tier":"free","paidUntil":"2026-12-20T00:00:00Z","renews":false,"trouble":"","version":1}`:              "paidUntil must be null",
			`{"tier":"commercial","paidUntil":null,"renews":true,"trouble":"","version":1}`:                           "paidUntil must be an instant",
			`{"tier":"commercial","paidUntil":"tomorrow","renews":true,"trouble":"","version":1}`:                     "Times must look like",
			`{"tier":"commercial","paidUntil":1795000000,"renews":true,"trouble":"","version":1}`:                     "Times must look like",
			`{"tier":"commercial","paidUntil":"9999-12-31T23:59:59-23:59","renews":true,"trouble":"","version":1}`:    "before 9998",
			`{"tier":"free","paidUntil":null,"renews":"yes","trouble":"","version":1}`:                                "renews must be a bool",
			`{"tier":"free","paidUntil":null,"renews":false,"trouble":"bored","version":1}`:                           "trouble must be",
			`{"tier":"free","paidUntil":null,"renews":false,"trouble":"","version":0}`:                                "version must be at least 1",
			`{"tier":"free","paidUntil":null,"renews":false,"trouble":"","version":99999999999999999999}`:             "version must be",
			`{"tier":"free","paidUntil":null,"renews":false,"trouble":"","version":1,"granted":"commercial"}`:         "granted is unknown",
			`{"tier":"` + strings.Repeat("x", 65<<10) + `","paidUntil":null,"renews":false,"trouble":"","version":1}`: "at most 65536 bytes",
			"{\"tier\":\"free\",\"paidUntil\":null,\"renews\":false,\"trouble\":\"\\u0000\",\"version\":1}":           "trouble: must not contain U+0000",
		} {
			svc.do(http.MethodPut, path, body).RequireError(problem.InvalidParameter, words)
		}
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

// However pushes are repeated and reordered, the tier is that of the newest version, each accepted
// version has one audit log entry, and the mails match the accepted versions.
func TestEntitlementPushesInAnyOrder(t *testing.T) {
	s := localStores(t)
	svc, now := s.startAt(t, begin)
	fewer(t, 25) // each waits for its mails
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		b, email := svc.browser(), fmt.Sprintf("person%d@example.org", round)
		b.signUp(email)
		key := svc.issue(map[string]any{"account": b.Account})
		var versions []api.Entitlement
		for v := range rapid.IntRange(1, 5).Draw(rt, "versions") {
			e := api.Entitlement{
				Tier: rapid.SampledFrom([]api.Tier{api.Free, api.Commercial}).Draw(rt, "tier"), Renews: rapid.Bool().Draw(rt, "renews"),
				Trouble: rapid.SampledFrom([]api.Trouble{"", api.PaymentFailed, api.Refunded, api.Disputed}).Draw(rt, "trouble"), Version: int64(v + 1),
			}
			if e.Tier != api.Free {
				until := now.Now().Add(time.Duration(rapid.IntRange(-2, 3).Draw(rt, "until")) * time.Hour)
				e.PaidUntil = &until
			}
			versions = append(versions, e)
		}
		stored, on, accepted, mails := api.Entitlement{Tier: api.Free}, false, 0, 0
		for range rapid.IntRange(1, 8).Draw(rt, "pushes") {
			now.Advance(time.Duration(rapid.IntRange(0, 90).Draw(rt, "minutes")) * time.Minute)
			e := versions[rapid.IntRange(0, len(versions)-1).Draw(rt, "which")]
			svc.entitled(key.Account, e)
			if e.Version > stored.Version {
				var mail string
				mail, on = plan.News(on, stored, e, now.Now())
				if mail != "" {
					mails++
				}
				stored = e
				accepted++
			}
			want := api.Free
			if stored.Live(now.Now()) {
				want = stored.Tier
			}
			if got := asOf(svc.principal(key.Key), now.Now()); got.Tier != want || (got.Next != nil) != (want != api.Free) {
				rt.Fatalf("%s, %v; want %s", got.Tier, got.Next, want)
			}
		}
		if got := entitlements(svc, key.Account); got != accepted {
			rt.Fatalf("%d entries of %d", got, accepted)
		}
		storetest.Eventually(t, "mails", func() bool { return s.waiting(t) == 0 })
		if got := s.subjects(t, email); len(got) != mails {
			rt.Fatalf("%v, want %d", got, mails)
		}
	})
}

// fewer limits the checks of rapid properties to n, unless set on the command line.
func fewer(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if before := checks.Value.String(); before == checks.DefValue {
		require.NoError(t, checks.Value.Set(strconv.Itoa(n)))
		t.Cleanup(func() { require.NoError(t, checks.Value.Set(before)) })
	}
}
