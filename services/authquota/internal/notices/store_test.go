package notices_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/plan"
	"opportunity.internal/services/authquota/internal/testkit"
)

// fixture is a store with one person. The free tier has 100 requests a day.
type fixture struct {
	*notices.Store

	t  *testing.T
	db testkit.DB
	id string
}

func onBoth(t *testing.T, test func(t *testing.T, f fixture)) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		tiers, err := account.ParseTiers("free=10/100/10")
		require.NoError(t, err)
		id, _ := db.Person(t, "ada@example.org")
		test(t, fixture{notices.NewStore(db.DB, tiers), t, db, id})
	})
}

func (f fixture) choose(kinds ...notices.Kind) {
	f.t.Helper()
	wanted := map[notices.Kind]bool{}
	for _, k := range kinds {
		wanted[k] = true
	}
	require.NoError(f.t, f.Choose(f.t.Context(), f.id, wanted))
}

// use sets the charged requests of today.
func (f fixture) use(calls int) {
	f.t.Helper()
	require.NoError(f.t, keyusage.NewStore(f.db.DB).SaveDay(f.t.Context(), counter.DayOf(f.db.Now()), []keyusage.Count{{Account: f.id, Calls: calls}}))
}

// notified runs the loop and returns the subjects of the mails.
func (f fixture) notified() []string {
	f.t.Helper()
	require.NoError(f.t, f.NotifyUsage(f.t.Context()))
	return f.db.TakeSubjects(f.t)
}

const (
	nearly = "ada@example.org: 80 % of today's requests are used"
	all    = "ada@example.org: 100 % of today's requests are used"
	minute = "ada@example.org: Requests were rejected by the minute limit"
)

func TestDefaultsApplyUntilAChoice(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		wanted, err := f.Choices(t.Context(), f.id)
		require.NoError(t, err)
		for _, c := range notices.All {
			require.Equal(t, c.Default, wanted[c.Kind], c.Kind)
		}
		f.use(100)
		require.Empty(t, f.notified())
		f.choose(notices.DayUsed)
		wanted, err = f.Choices(t.Context(), f.id)
		require.NoError(t, err)
		require.True(t, wanted[notices.DayUsed])
		require.False(t, wanted[notices.KeyExpiry])
		require.Equal(t, "notices.choose", slices.Compact(f.db.Audit(t))[len(slices.Compact(f.db.Audit(t)))-1])
	})
}

func TestDayNoticesAreSentOnceADay(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.choose(notices.DayNearlyUsed, notices.DayUsed)
		f.use(79)
		require.Empty(t, f.notified())
		f.use(80)
		require.Equal(t, []string{nearly}, f.notified())
		f.use(99)
		require.Empty(t, f.notified())
		f.use(100)
		require.Equal(t, []string{all}, f.notified())
		require.Empty(t, f.notified())

		f.db.Advance(24 * time.Hour)
		f.use(100)
		require.Equal(t, []string{all}, f.notified(), "the notice about 80 % would come too late")
		require.Empty(t, f.notified())

		f.db.Advance(24 * time.Hour)
		f.choose(notices.DayNearlyUsed)
		f.use(100)
		require.Equal(t, []string{nearly}, f.notified())
	})
}

func TestNoticesFollowTheTier(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.choose(notices.DayNearlyUsed)
		until := f.db.Now().Add(24 * time.Hour)
		err := plan.NewStore(f.db.DB).Entitle(t.Context(), f.id, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: 1})
		require.NoError(t, err)
		f.db.TakeMails(t)
		f.use(100)
		require.Empty(t, f.notified(), "of 50,000")
	})
}

func TestMinuteLimitNoticeNeedsRepetition(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.choose(notices.MinuteLimit)
		reject := func(calls int) {
			row := map[string]any{"account_id": f.id, "day": counter.DayOf(f.db.Now()), "outcome": string(api.CallMinuteLimitReached), "calls": calls}
			require.NoError(t, f.db.Exec("DELETE FROM usage_outcomes").Error)
			require.NoError(t, f.db.Table("usage_outcomes").Create(row).Error)
		}
		reject(notices.MinuteLimitCalls - 1)
		require.Empty(t, f.notified())
		reject(notices.MinuteLimitCalls)
		require.Equal(t, []string{minute}, f.notified())
		reject(500)
		require.Empty(t, f.notified())
		f.db.Advance(24 * time.Hour)
		reject(500)
		require.Equal(t, []string{minute}, f.notified())
	})
}

// Several processes look for due notices at the same time.
func TestConcurrentProcessesSendOneNotice(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.choose(notices.DayNearlyUsed, notices.DayUsed)
		f.use(100)
		var processes sync.WaitGroup
		for range 8 {
			processes.Go(func() {
				if err := f.NotifyUsage(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		processes.Wait()
		require.Equal(t, []string{all}, f.db.TakeSubjects(t))
	})
}

func TestKeyNoticeRespectsTheChoice(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		s := keys.NewStore(f.db.DB)
		record := keys.Record{Digest: strings.Repeat("d", 64), Prefix: "oda_live_", LastFour: "abcd"}
		_, err := s.Issue(t.Context(), "ada", keys.Order{Account: f.id, UseCase: "x"}, keys.MaxLife, record)
		require.NoError(t, err)
		f.choose()
		f.db.Advance(keys.MaxLife - 20*24*time.Hour)
		require.NoError(t, s.Remind(t.Context()))
		require.Empty(t, f.db.TakeMails(t))
		f.choose(notices.KeyExpiry)
		f.db.Advance(14 * 24 * time.Hour)
		require.NoError(t, s.Remind(t.Context()))
		mails := f.db.TakeMails(t)
		require.Len(t, mails, 1)
		require.Contains(t, mails[0].Text, "https://api.example/account/notices")
	})
}

func TestPlanNoticesRespectTheChoice(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		s, version := plan.NewStore(f.db.DB), int64(0)
		entitle := func(days int, trouble api.Trouble) []string {
			until := testkit.Start.AddDate(0, 0, days)
			version++
			err := s.Entitle(t.Context(), f.id, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Renews: true, Trouble: trouble, Version: version})
			require.NoError(t, err)
			return f.db.TakeSubjects(t)
		}
		require.Equal(t, []string{"ada@example.org: Your plan has started"}, entitle(30, api.NoTrouble))
		require.Empty(t, entitle(60, api.NoTrouble), "not by default")
		f.choose(notices.PlanRenewal)
		require.Equal(t, []string{"ada@example.org: Your plan was renewed"}, entitle(90, api.NoTrouble))
		require.Empty(t, entitle(90, api.NoTrouble), "the same again")
		require.Empty(t, entitle(90, api.PaymentFailed), "not wanted")
		require.Empty(t, entitle(90, api.NoTrouble))
		f.choose(notices.PaymentFailed)
		require.Equal(t, []string{"ada@example.org: A payment for your plan failed"}, entitle(90, api.PaymentFailed))
	})
}

func TestSentNoticesAreForgotten(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.choose(notices.DayUsed)
		f.use(100)
		f.notified()
		left := func() (n int) {
			require.NoError(t, f.DeleteExpired(t.Context()))
			require.NoError(t, f.db.Raw("SELECT count(*) FROM notice_events").Scan(&n).Error)
			return n
		}
		f.db.Advance(notices.Retention)
		require.Positive(t, left())
		f.db.Advance(time.Minute)
		require.Zero(t, left())
	})
}
