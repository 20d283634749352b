package plan_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/plan"
	"opportunity.internal/services/authquota/internal/testkit"
)

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
			err := s.Entitle(ctx, id, paid(until.AddDate(0, int(version), 0), version))
			require.NoError(t, err)
			require.Equal(t, []string{id}, db.TakeTouched(t), "also for a repetition: the change before may not be in effect yet")
		}
		require.Equal(t, []string{"ada@example.org: Your plan has started"}, db.TakeSubjects(t))
		err := s.Entitle(ctx, "acc_unknown", paid(until, 1))
		require.ErrorContains(t, err, "no account")
	})
}

func TestConcurrentEntitlementsEndAtTheNewestVersion(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s := plan.NewStore(db.DB)
		id, _ := db.Person(t, "ada@example.org")
		const newest = 12
		var all sync.WaitGroup
		for version := range int64(newest) {
			all.Go(func() {
				err := s.Entitle(t.Context(), id, paid(db.Now().AddDate(0, 0, int(version)+1), version+1))
				require.NoError(t, err)
			})
		}
		all.Wait()
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
		err := s.Entitle(ctx, id, paid(until, 1))
		require.NoError(t, err)
		db.TakeMails(t)
		db.Advance(until.Sub(db.Now()) + time.Hour)
		require.NoError(t, s.EndPlans(ctx))
		err = s.Entitle(ctx, id, paid(db.Now().AddDate(0, 1, 0), 2))
		require.NoError(t, err)
		require.NoError(t, s.EndPlans(ctx))
		require.Empty(t, db.TakeSubjects(t), "renewed")
		db.Advance(32 * 24 * time.Hour)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { require.NoError(t, s.EndPlans(ctx)) })
		}
		all.Wait()
		require.Equal(t, []string{"ada@example.org: Your plan has ended"}, db.TakeSubjects(t))
	})
}

func TestClosedAccountIsCancelledForEachVersion(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx := plan.NewStore(db.DB), t.Context()
		id, _ := db.Person(t, "ada@example.org")
		err := s.Entitle(ctx, id, paid(db.Now().AddDate(0, 1, 0), 1))
		require.NoError(t, err)
		pending := func() []plan.PendingCancel {
			t.Helper()
			all, err := s.PendingCancels(ctx, 10)
			require.NoError(t, err)
			return all
		}
		require.Empty(t, pending(), "open")
		require.NoError(t, db.Exec("UPDATE people SET closed_at = 1 WHERE account_id = ?", id).Error)
		first := plan.PendingCancel{Account: id, Version: 1}
		require.Equal(t, []plan.PendingCancel{first}, pending())
		require.NoError(t, s.DeleteCancel(ctx, first))
		require.Empty(t, pending())
		err = s.Entitle(ctx, id, paid(db.Now().AddDate(0, 2, 0), 2))
		require.NoError(t, err)
		require.NoError(t, s.DeleteCancel(ctx, first), "late")
		require.Equal(t, []plan.PendingCancel{{Account: id, Version: 2}}, pending())
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
		{func(*api.Entitlement) {}, []string{"Paid until: 20 December 2026, 10:00 UTC; it renews automatically", "the tier commercial"}},
		{func(e *api.Entitlement) { e.Renews = false }, []string{"Paid until: 20 December 2026, 10:00 UTC", "Tier from then on: free"}},
		{func(e *api.Entitlement) { e.Trouble = api.PaymentFailed }, []string{"Paid until: 20 December 2026, 10:00 UTC"}},
		{func(e *api.Entitlement) { *e = api.Entitlement{Tier: api.Free, Trouble: api.Refunded} }, []string{"now has the tier free"}},
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
