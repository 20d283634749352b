package plan_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/plan"
	"opportunity.internal/services/authquota/internal/testkit"
)

func TestNewsOfAPlan(t *testing.T) {
	none, ended := api.Entitlement{Tier: api.Free}, api.Entitlement{Tier: api.Commercial, PaidUntil: testkit.Minutes(0)}
	paid := api.Entitlement{Tier: api.Commercial, PaidUntil: testkit.Minutes(60), Renews: true}
	with := func(e api.Entitlement, change func(*api.Entitlement)) api.Entitlement { change(&e); return e }
	cancelled := with(paid, func(e *api.Entitlement) { e.Renews = false })
	failed := with(paid, func(e *api.Entitlement) { e.Trouble = api.PaymentFailed })
	given := with(none, func(e *api.Entitlement) { e.Trouble = api.Refunded })
	disputed := with(none, func(e *api.Entitlement) { e.Trouble = api.Disputed })
	due := with(ended, func(e *api.Entitlement) { e.Renews = true })
	unpaid := with(due, func(e *api.Entitlement) { e.Trouble = api.PaymentFailed })
	longer := with(paid, func(e *api.Entitlement) { e.PaidUntil = testkit.Minutes(120) })
	overdue := with(due, func(e *api.Entitlement) { e.PaidUntil = testkit.Minutes(-180) })
	for name, c := range map[string]struct {
		on            bool
		before, after api.Entitlement
		mail          string
		nowOn         bool
	}{
		"the first payment":                   {false, none, paid, "plan-started", true},
		"a first payment of what ends itself": {false, none, cancelled, "plan-started", true},
		"a first payment that failed":         {false, none, unpaid, "", false},
		"a renewal":                           {true, paid, longer, "", true},
		"a late renewal, before the news":     {true, due, paid, "", true},
		"a renewal after the news":            {false, unpaid, paid, "plan-started", true},
		"the same again":                      {true, paid, paid, "", true},
		"cancelled":                           {true, paid, cancelled, "plan-cancelled", true},
		"resumed":                             {true, cancelled, paid, "plan-resumed", true},
		"a failure while it is paid":          {true, paid, failed, "payment-failed", true},
		"a failure without a retry": {true, paid, with(failed, func(e *api.Entitlement) { e.Renews = false }),
			"payment-failed", true},
		"still failing":                {true, failed, failed, "", true},
		"failing no more":              {true, failed, longer, "", true},
		"a renewal that failed":        {true, due, unpaid, "plan-unpaid", false},
		"still failing after the news": {false, unpaid, unpaid, "", false},
		"refunded":                     {true, paid, given, "plan-refunded", false},
		"refunded twice":               {false, given, given, "", false},
		"disputed":                     {true, paid, disputed, "plan-disputed", false},
		"a dispute that is won":        {false, disputed, paid, "plan-started", true},
		"about to be renewed":          {true, paid, due, "", true},
		"not renewed for hours":        {true, due, overdue, "plan-ended", false},
		"ended":                        {true, cancelled, ended, "plan-ended", false},
		"taken away":                   {true, paid, none, "plan-ended", false},
		"never was":                    {false, none, none, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			mail, on := plan.News(c.on, c.before, c.after, testkit.Noon)
			require.Equal(t, c.mail, mail)
			require.Equal(t, c.nowOn, on)
		})
	}
}

// Mails about the start and the end of a plan alternate, whatever changes arrive in whatever order,
// and the last one is true.
func TestPlanMailsAlternate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on, notified, now, stored := false, false, testkit.Noon, api.Entitlement{Tier: api.Free}
		hear := func(mail string) {
			if mail == "" {
				return
			}
			require.Equal(t, mail != "plan-started", notified, "%s comes after the start, which comes once", mail)
			notified = slices.Contains([]string{"plan-started", "payment-failed", "plan-cancelled", "plan-resumed"}, mail)
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "minutes")) * time.Minute)
			var mail string
			if rapid.Bool().Draw(t, "clock") {
				mail, on = plan.EndNews(on, stored, now)
			} else {
				next := testkit.Entitlement(t)
				mail, on = plan.News(on, stored, next, now)
				stored = next
			}
			hear(mail)
			require.Equal(t, notified, on)
			require.True(t, notified || !stored.Live(now), "it is on and no mail was sent")
		}
		mail, _ := plan.EndNews(on, stored, now.Add(24*time.Hour))
		hear(mail)
		require.False(t, notified, "it has ended and no mail was sent")
	})
}

func paid(until time.Time, version int64) api.Entitlement {
	return api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Renews: true, Version: version}
}

func TestOnlyANewerEntitlementChangesAnything(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx := plan.NewStore(db.DB), t.Context()
		id, _ := db.Person(t, "ada@example.org")
		until := db.Now().AddDate(0, 1, 0)
		db.TakeTouched(t)
		for _, version := range []int64{2, 2, 1} {
			require.NoError(t, s.Entitle(ctx, id, paid(until.AddDate(0, int(version), 0), version)))
			require.Equal(t, []string{id}, db.TakeTouched(t),
				"also for a repetition: the change before may not be in effect yet")
		}
		require.Equal(t, []string{"ada@example.org: Your plan has started"}, db.TakeSubjects(t))
		require.ErrorContains(t, s.Entitle(ctx, "acc_unknown", paid(until, 1)), "no account")
	})
}

func TestConcurrentEntitlementsEndAtTheNewestVersion(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s := plan.NewStore(db.DB)
		id, _ := db.Person(t, "ada@example.org")
		const newest = 12
		require.NoError(t, errors.Join(storetest.Together(newest, func(i int) error {
			return s.Entitle(t.Context(), id, paid(db.Now().AddDate(0, 0, i+1), int64(i+1)))
		})...))
		var version int64
		require.NoError(t, db.Raw("SELECT version FROM entitlements WHERE account_id = ?", id).Scan(&version).Error)
		require.Equal(t, int64(newest), version)
	})
}

// The mail about the end waits until a late renewal is unlikely, and is sent once by several
// processes.
func TestEndOfAPlanSendsOneMail(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx := plan.NewStore(db.DB), t.Context()
		id, _ := db.Person(t, "ada@example.org")
		until := db.Now().AddDate(0, 1, 0)
		require.NoError(t, s.Entitle(ctx, id, paid(until, 1)))
		db.TakeMails(t)
		db.Advance(until.Sub(db.Now()) + time.Hour)
		require.NoError(t, s.EndPlans(ctx))
		require.NoError(t, s.Entitle(ctx, id, paid(db.Now().AddDate(0, 1, 0), 2)))
		require.NoError(t, s.EndPlans(ctx))
		require.Empty(t, db.TakeSubjects(t), "renewed")
		db.Advance(32 * 24 * time.Hour)
		require.NoError(t, errors.Join(storetest.Together(3, func(int) error { return s.EndPlans(ctx) })...))
		require.Equal(t, []string{"ada@example.org: Your plan has ended"}, db.TakeSubjects(t))
	})
}

func TestPlanMailsNameThePaidPeriodAndTheTierAfterIt(t *testing.T) {
	db := testkit.OnSQLite(t)
	s, version := plan.NewStore(db.DB), int64(0)
	id, _ := db.Person(t, "ada@example.org")
	for _, c := range []struct {
		change func(e *api.Entitlement)
		texts  []string
	}{
		{func(*api.Entitlement) {},
			[]string{"Paid until: 20 December 2026, 10:00 UTC; it renews automatically", "the tier commercial"}},
		{func(e *api.Entitlement) { e.Renews = false }, []string{
			"Paid until: 20 December 2026, 10:00 UTC", "Tier from then on: free",
		}},
		{func(e *api.Entitlement) { e.Trouble = api.PaymentFailed }, []string{"Paid until: 20 December 2026, 10:00 UTC"}},
		{func(e *api.Entitlement) { *e = api.Entitlement{Tier: api.Free, Trouble: api.Refunded} }, []string{
			"now has the tier free",
		}},
	} {
		version++
		e := paid(db.Now().AddDate(0, 1, 0), version)
		c.change(&e)
		e.Version = version
		require.NoError(t, s.Entitle(t.Context(), id, e))
		mails := db.TakeMails(t)
		require.NotEmpty(t, mails)
		for _, text := range c.texts {
			require.Contains(t, mails[len(mails)-1].Text, text)
		}
	}
}
