package notices_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
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
		tiers := storetest.Must(account.ParseTiers("free=10/100/10"))(t)
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
	require.NoError(f.t, keyusage.NewStore(f.db.DB).SaveDay(f.t.Context(), counter.DayOf(f.db.Now()),
		map[string]int{f.id: calls}))
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
		wanted := storetest.Must(f.Choices(t.Context(), f.id))(t)
		for _, c := range notices.All {
			require.Equal(t, c.Default, wanted[c.Kind], c.Kind)
		}
		f.use(100)
		require.Empty(t, f.notified())
		f.choose(notices.DayUsed)
		wanted = storetest.Must(f.Choices(t.Context(), f.id))(t)
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

		f.db.Advance(24 * time.Hour)
		until := f.db.Now().Add(24 * time.Hour)
		paid := api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: 1}
		require.NoError(t, plan.NewStore(f.db.DB).Entitle(t.Context(), f.id, paid))
		f.db.TakeMails(t)
		f.use(100)
		require.Empty(t, f.notified(), "of 50,000")
	})
}

func TestMinuteLimitNoticeNeedsRepetition(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.choose(notices.MinuteLimit)
		reject := func(calls int) {
			row := map[string]any{
				"account_id": f.id, "day": counter.DayOf(f.db.Now()), "outcome": string(api.CallMinuteLimitReached), "calls": calls,
			}
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
		require.NoError(t, errors.Join(storetest.Together(8, func(int) error { return f.NotifyUsage(t.Context()) })...))
		require.Equal(t, []string{all}, f.db.TakeSubjects(t))
	})
}

func TestKeyNoticeRespectsTheChoice(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		s := keys.NewStore(f.db.DB)
		record := keys.Record{Digest: strings.Repeat("d", 64), Prefix: "oda_live_", LastFour: "abcd"}
		storetest.Must(s.Issue(t.Context(), "ada", api.KeyOrder{Account: f.id, UseCase: "x"}, keys.MaxLife, record))(t)
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
			require.NoError(t, s.Entitle(t.Context(), f.id, api.Entitlement{
				Tier: api.Commercial, PaidUntil: &until, Renews: true, Trouble: trouble, Version: version,
			}))
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

func TestAnnouncementsAreChecked(t *testing.T) {
	good := notices.Announcement{
		ID: "terms-2027-01", Kind: notices.TermsChange, Subject: " New terms ", Text: "\r\nOne\r\ntwo \n\n\n\nThree\n",
	}
	got := storetest.Must(good.Check())(t)
	require.Equal(t, []string{"New terms", "One\ntwo\n\nThree"}, []string{got.Subject, got.Text})
	for _, c := range []struct {
		field string
		spoil func(*notices.Announcement)
	}{
		{"id", func(a *notices.Announcement) { a.ID = "Terms 2027" }},
		{"kind", func(a *notices.Announcement) { a.Kind = "advertisement" }},
		{"subject", func(a *notices.Announcement) { a.Subject = "New\nBcc: bob@example.org" }},
		{"text", func(a *notices.Announcement) { a.Text = " \n" }},
		{"text", func(a *notices.Announcement) { a.Text = strings.Repeat("long\n", 2_001) }},
		{"text", func(a *notices.Announcement) { a.Text = "fine\n" + strings.Repeat("x", 2_001) }},
		{"text", func(a *notices.Announcement) { a.Text = "a\x00b" }},
		{"text", func(a *notices.Announcement) { a.Text = "see oda_live_0000" }},
	} {
		a := good
		c.spoil(&a)
		require.ErrorContains(t, storetest.Err(a.Check()), "Parameter "+c.field)
	}
}

var sunset = api.AnnouncementRequest{
	ID: "sunset", Kind: "api-change", Subject: "Version 2", Text: "Version 2 is here.",
}

func (f fixture) announce(r api.AnnouncementRequest) api.Announcement {
	f.t.Helper()
	return storetest.Must(f.Announce(f.t.Context(), "ann", r))(f.t)
}

// posted runs the loop and returns the subjects of the mails, sorted.
func (f fixture) posted() []string {
	f.t.Helper()
	require.NoError(f.t, f.PostAnnouncements(f.t.Context()))
	subjects := f.db.TakeSubjects(f.t)
	slices.Sort(subjects)
	return subjects
}

// people adds people by copying the fixture's: signing up each would take long.
func (f fixture) people(n int) {
	f.t.Helper()
	for i := range n {
		id := fmt.Sprintf("acc_%032d", i)
		require.NoError(f.t, f.db.Exec(
			"INSERT INTO accounts (id, tier, suspend_reason, created_at) SELECT ?, tier, suspend_reason, created_at FROM "+
				"accounts WHERE id = ?", id, f.id).Error)
		require.NoError(f.t, f.db.Exec(
			"INSERT INTO people (account_id, email, password_hash, created_at) VALUES (?, ?, 'x', ?)",
			id, fmt.Sprintf("p%d@example.org", i), database.Micros(f.db.Now())).Error)
	}
}

func TestAnnouncementIsSentToWhomItConcerns(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.db.Person(t, "bob@example.org")
		gone, _ := f.db.Person(t, "gone@example.org")
		require.NoError(t, f.db.Exec("UPDATE people SET closed_at = 1 WHERE account_id = ?", gone).Error)
		f.choose(notices.DayUsed) // not APIChange
		terms := api.AnnouncementRequest{ID: "terms", Kind: "terms", Subject: "New terms", Text: "One.\n\nTwo."}
		for _, dryRun := range []bool{true, false} {
			require.Empty(t, f.posted(), "a dry run sends nothing")
			for request, recipients := range map[api.AnnouncementRequest]int{sunset: 1, terms: 2} {
				request.DryRun = dryRun
				require.Equal(t, recipients, f.announce(request).Recipients)
			}
		}
		f.db.Advance(time.Second)
		f.db.Person(t, "late@example.org")
		require.Equal(t, []string{
			"ada@example.org: Terms of use: New terms", "bob@example.org: API change: Version 2",
			"bob@example.org: Terms of use: New terms",
		}, f.posted())
		require.Equal(t, []string{"announcement.create", "announcement.create"}, f.db.Actions(t, "ann"))
	})
}

func TestRepeatedAnnouncementIsSentOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		for range 2 {
			require.Equal(t, 1, f.announce(sunset).Recipients)
		}
		require.Len(t, f.posted(), 1)
		a := f.announce(sunset)
		require.Equal(t, []int{1, 1}, []int{a.Posted, a.Recipients})
		require.NotNil(t, a.FinishedAt)
		require.Empty(t, f.posted())
		require.Len(t, f.db.Actions(t, "ann"), 1)
		for _, dryRun := range []bool{true, false} {
			other := sunset
			other.Text, other.DryRun = "Another text.", dryRun
			require.ErrorContains(t, storetest.Err(f.Announce(t.Context(), "ann", other)), "choose another id")
		}
	})
}

func TestAnnouncementIsPostedInBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.people(149)
		f.announce(sunset)
		// concurrent processes, whose second batch waits for the first to leave the outbox
		require.NoError(t, errors.Join(storetest.Together(3, func(int) error { return f.PostAnnouncements(t.Context()) })...))
		a := f.announce(sunset)
		require.Equal(t, []int{100, 150}, []int{a.Posted, a.Recipients})
		subjects := append(f.db.TakeSubjects(t), f.posted()...)
		slices.Sort(subjects)
		require.Len(t, slices.Compact(subjects), 150)
		require.Empty(t, f.posted())
	})
}
