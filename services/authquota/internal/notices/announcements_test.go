package notices_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/notices"
)

var sunset = notices.Announcement{ID: "sunset", Kind: notices.APIChanged, Subject: "Version 2", Text: "Version 2 is here."}

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
		require.NoError(f.t, f.db.Exec("INSERT INTO accounts (id, tier, suspend_reason, created_at) SELECT ?, tier, suspend_reason, created_at FROM accounts WHERE id = ?", id, f.id).Error)
		require.NoError(f.t, f.db.Exec("INSERT INTO people (account_id, email, password_hash, created_at) VALUES (?, ?, 'x', ?)",
			id, fmt.Sprintf("p%d@example.org", i), database.Micros(f.db.Now())).Error)
	}
}

func TestAnnouncementIsSentToWhomItConcerns(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		bob, _ := f.db.Person(t, "bob@example.org")
		gone, _ := f.db.Person(t, "gone@example.org")
		require.NoError(t, f.db.Exec("UPDATE people SET closed_at = 1 WHERE account_id = ?", gone).Error)
		f.choose(notices.DayUsed) // not APIChange
		terms := notices.Announcement{ID: "terms", Kind: notices.TermsChange, Subject: "New terms", Text: "One.\n\nTwo."}

		p, err := f.Progress(t.Context(), sunset)
		require.NoError(t, err)
		require.Equal(t, notices.Progress{Recipients: 1}, p)
		p, err = f.Progress(t.Context(), terms)
		require.NoError(t, err)
		require.Equal(t, notices.Progress{Recipients: 2}, p)
		require.Empty(t, f.posted(), "a preview sends nothing")

		for _, a := range []notices.Announcement{sunset, terms} {
			_, err := f.Announce(t.Context(), "ann", a)
			require.NoError(t, err)
		}
		f.db.Advance(time.Second)
		f.db.Person(t, "late@example.org")
		require.Equal(t, []string{
			"ada@example.org: Terms of use: New terms", "bob@example.org: API change: Version 2", "bob@example.org: Terms of use: New terms",
		}, f.posted())
		require.Equal(t, []string{"announcement.create", "announcement.create"}, f.db.Actions(t, "ann"))
		require.NotEmpty(t, bob)
	})
}

func TestRepeatedAnnouncementIsSentOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		for range 2 {
			p, err := f.Announce(t.Context(), "ann", sunset)
			require.NoError(t, err)
			require.Equal(t, 1, p.Recipients)
		}
		require.Len(t, f.posted(), 1)
		p, err := f.Announce(t.Context(), "ann", sunset)
		require.NoError(t, err)
		require.Equal(t, 1, p.Posted)
		require.Equal(t, 1, p.Recipients)
		require.NotNil(t, p.FinishedAt)
		require.Empty(t, f.posted())
		require.Len(t, f.db.Actions(t, "ann"), 1)

		other := sunset
		other.Text = "Another text."
		_, err = f.Announce(t.Context(), "ann", other)
		require.ErrorContains(t, err, "choose another id")
		_, err = f.Progress(t.Context(), other)
		require.ErrorContains(t, err, "choose another id")
	})
}

func TestAnnouncementIsPostedInBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		f.people(149)
		_, err := f.Announce(t.Context(), "ann", sunset)
		require.NoError(t, err)
		var busy sync.WaitGroup
		for range 3 { // concurrent processes, whose second batch waits for the first to leave the outbox
			busy.Go(func() { require.NoError(t, f.PostAnnouncements(t.Context())) })
		}
		busy.Wait()
		p, err := f.Progress(t.Context(), sunset)
		require.NoError(t, err)
		require.Equal(t, 100, p.Posted)
		require.Equal(t, 150, p.Recipients)
		subjects := append(f.db.TakeSubjects(t), f.posted()...)
		slices.Sort(subjects)
		require.Len(t, slices.Compact(subjects), 150)
		require.Empty(t, f.posted())
	})
}
