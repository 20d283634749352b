package subscription_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/subscription"
)

var day0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func day(n int) time.Time { return day0.AddDate(0, 0, n) }

// sub returns a subscription to the plan, paid until a day or, if until is 0, never paid.
func sub(id string, until int, change ...func(*subscription.State)) subscription.State {
	s := subscription.State{ID: id, Customer: "cus_1", Account: "acc_1", Tier: api.Commercial}
	if until > 0 {
		s.Paid = &subscription.Payment{Invoice: "in_" + id, Until: day(until)}
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func ended(s *subscription.State)     { s.Ended = true }
func cancelled(s *subscription.State) { s.CancelAtPeriodEnd = true }
func failing(s *subscription.State)   { s.Failing = true }
func refunded(s *subscription.State)  { s.Paid.Refunded = true }
func disputed(s *subscription.State)  { s.Paid.Disputed = true }
func other(s *subscription.State)     { s.Tier = api.Free }

func TestDeriveEntitlement(t *testing.T) {
	paid := func(until int, renews bool, trouble api.Trouble) api.Entitlement {
		at := day(until)
		return api.Entitlement{Tier: api.Commercial, PaidUntil: &at, Renews: renews, Trouble: trouble}
	}
	nothing := func(trouble api.Trouble) api.Entitlement { return api.Entitlement{Tier: api.Free, Trouble: trouble} }
	for _, c := range []struct {
		name   string
		states []subscription.State
		want   api.Entitlement
	}{
		{"none", nil, nothing("")},
		{"paid", []subscription.State{sub("a", 30)}, paid(30, true, "")},
		{"cancelled: runs to the end of the paid period", []subscription.State{sub("a", 30, cancelled)}, paid(30, false, "")},
		{"ended early: runs to the end of the paid period", []subscription.State{sub("a", 30, ended)}, paid(30, false, "")},
		{"payment fails: the paid period continues", []subscription.State{sub("a", 30, failing)},
			paid(30, true, api.PaymentFailed)},
		{"ended after failed payments", []subscription.State{sub("a", 30, failing, ended)},
			paid(30, false, api.PaymentFailed)},
		{"first payment fails", []subscription.State{sub("a", 0, failing)}, nothing(api.PaymentFailed)},
		{"first payment never arrives", []subscription.State{sub("a", 0, failing, ended)}, nothing("")},
		{"refunded", []subscription.State{sub("a", 30, refunded)}, nothing(api.Refunded)},
		{"disputed", []subscription.State{sub("a", 30, disputed)}, nothing(api.Disputed)},
		{"bought again after a refund", []subscription.State{sub("a", 30, refunded, ended), sub("b", 10)},
			paid(10, true, "")},
		{"two subscriptions: the longer counts", []subscription.State{sub("a", 10), sub("b", 30, cancelled)},
			paid(30, true, "")},
		{"two cancelled subscriptions: the longer counts", []subscription.State{sub("a", 10, cancelled),
			sub("b", 30, cancelled)}, paid(30, false, "")},
		{"shorter one fails, longer one does not", []subscription.State{sub("a", 10, failing), sub("b", 30, cancelled)},
			paid(30, false, "")},
		{"one of two equal subscriptions fails", []subscription.State{sub("a", 30, failing), sub("b", 30)},
			paid(30, true, "")},
		{"one of two equal subscriptions fails, in the other order",
			[]subscription.State{sub("b", 30), sub("a", 30, failing)}, paid(30, true, "")},
		{"the failing one of two equal subscriptions renews",
			[]subscription.State{sub("a", 30, failing), sub("b", 30, cancelled)}, paid(30, true, "")},
		{"another product", []subscription.State{sub("a", 30, other)}, nothing("")},
		{"another product, disputed", []subscription.State{sub("a", 30, other, disputed), sub("b", 0, other, failing)},
			nothing("")},
		{"dispute takes precedence over refund", []subscription.State{sub("a", 30, refunded), sub("b", 30, disputed),
			sub("c", 0, failing)}, nothing(api.Disputed)},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, subscription.DeriveEntitlement(c.states)) })
	}
}

func anyState(t *rapid.T, id string) subscription.State {
	s := sub(id, rapid.IntRange(0, 4).Draw(t, "until"))
	s.Tier = rapid.SampledFrom([]api.Tier{api.Commercial, api.Commercial, api.Developer, api.Free}).Draw(t, "tier")
	s.Ended, s.CancelAtPeriodEnd, s.Failing = rapid.Bool().Draw(t, "ended"), rapid.Bool().Draw(t,
		"cancelled"), rapid.Bool().Draw(t, "failing")
	if s.Paid != nil {
		s.Paid.Refunded, s.Paid.Disputed = rapid.Bool().Draw(t, "refunded"), rapid.Bool().Draw(t, "disputed")
	}
	return s
}

func TestDerivedEntitlementsAreConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := make([]subscription.State, rapid.IntRange(0, 5).Draw(t, "n"))
		for i := range states {
			states[i] = anyState(t, string(rune('a'+i)))
		}
		e := subscription.DeriveEntitlement(states)
		require.Equal(t, e, subscription.DeriveEntitlement(rapid.Permutation(states).Draw(t, "order")),
			"independent of the order")
		require.Equal(t, e.Tier == api.Free, e.PaidUntil == nil)
		require.Zero(t, e.Version)
		require.False(t, e.Renews && e.PaidUntil == nil)
		for _, s := range states {
			until, paid := s.PaidUntil()
			if paid && s.Tier == e.Tier {
				require.False(t, until.After(*e.PaidUntil), "the latest end within the tier counts")
			}
			require.False(t, paid && e.Tier == api.Free, "a paid subscription counts")
			require.False(t, paid && s.Tier == api.Commercial && e.Tier != api.Commercial, "the best tier counts")
		}
		if e.PaidUntil != nil { // subscriptions that provide nothing change nothing
			require.Equal(t, e, subscription.DeriveEntitlement(append(states, sub("z", 30, refunded), sub("y", 0, failing))))
		}
	})
}

func TestDifferences(t *testing.T) {
	was, is := sub("a", 30), sub("a", 60, cancelled, disputed)
	require.True(t, subscription.Equal(was, sub("a", 30)))
	require.False(t, subscription.Equal(was, is))
	difference := func(field, had, has string) api.BillingDifference {
		return api.BillingDifference{Account: "acc_1", Subscription: "a", Field: field, Had: had, Has: has, Healed: true}
	}
	require.Equal(t, []api.BillingDifference{
		difference("cancelAtPeriodEnd", "false", "true"),
		difference("paidUntil", "2026-12-20T12:00:00Z", "2027-01-19T12:00:00Z"), difference("disputed", "false", "true"),
	}, subscription.Differences(was, is))
}

func TestAccountSummary(t *testing.T) {
	for _, c := range []struct {
		name                            string
		states                          []subscription.State
		renewing, cancelled, sold, live bool
	}{
		{"nothing", nil, false, false, false, false},
		{"renews", []subscription.State{sub("a", 30)}, true, false, true, true},
		{"cancelled", []subscription.State{sub("a", 30, cancelled)}, false, true, true, true},
		{"ended", []subscription.State{sub("a", 30, ended)}, false, false, false, true},
		{"first payment pending", []subscription.State{sub("a", 0)}, false, false, false, false},
		{"refunded and still renewing", []subscription.State{sub("a", 30, refunded)}, true, false, true, false},
		{"another product that renews", []subscription.State{sub("a", 30, other), sub("b", 30, other, cancelled)}, false,
			false, false, false},
		{"refunded and cancelled", []subscription.State{sub("a", 30, refunded, cancelled)}, false, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := subscription.Account{ID: "acc_1", Customer: "cus_1", Entitlement: subscription.DeriveEntitlement(c.states),
				States: c.states}
			summary := s.Summary(true)
			require.Equal(t, c.renewing, summary.Renewing)
			require.Equal(t, c.cancelled, summary.Cancelled)
			require.Equal(t, c.sold, s.Subscribed())
			require.Equal(t, c.live, summary.Entitlement.Live(day(1)))
			require.True(t, summary.Sandbox && summary.Customer)
		})
	}
}
