package accountdb_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
)

// A change that fails leaves no audit entry, no mail and no epoch increment.
func TestChangeIsAllOrNothing(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		failure := errors.New("failed at the end")
		change := func(outcome error) error {
			return db.Change(t.Context(), func(tx *accountdb.Tx) error {
				a, err := account.Create(tx, api.BaseTier)
				require.NoError(t, err)
				return errors.Join(
					tx.Record("ada", "account.create", a.ID, nil),
					tx.Post(mail.Message{To: "ada@example.org", Template: "password-changed"}), outcome)
			})
		}
		require.ErrorIs(t, change(failure), failure)
		require.Empty(t, db.Audit(t))
		require.Empty(t, db.TakeTouched(t))
		require.Empty(t, db.TakeMails(t))
		require.NoError(t, change(nil))
		require.Equal(t, []string{"account.create"}, db.Audit(t))
		require.Len(t, db.TakeTouched(t), 1)
		require.Len(t, db.TakeMails(t), 1)
	})
}

func post(t *testing.T, db testkit.DB, mails int) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *accountdb.Tx) error {
		for range mails {
			if err := tx.Post(mail.Message{To: "ada@example.org", Template: "password-changed"}); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestMailIsClaimedOnceUntilTheLeaseEnds(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		const mails = 8
		post(t, db, mails)
		var mu sync.Mutex
		claimed := map[string]int{}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					m, ok, err := db.ClaimMail(t.Context(), time.Minute)
					require.NoError(t, err)
					if !ok {
						return
					}
					mu.Lock()
					claimed[m.ID]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		require.Len(t, claimed, mails)
		for _, times := range claimed {
			require.Equal(t, 1, times)
		}
		db.Advance(time.Minute)
		again, ok, err := db.ClaimMail(t.Context(), time.Minute)
		require.NoError(t, err)
		require.True(t, ok, "its claimer has stopped")
		require.Equal(t, 2, again.Attempts)
		require.NoError(t, db.DeferMail(t.Context(), again.ID, db.Now().Add(time.Hour)))
		pending, oldest, err := db.PendingMails(t.Context())
		require.NoError(t, err)
		require.Equal(t, mails, pending)
		require.Equal(t, testkit.Start, oldest)
	})
}

func TestResealMakesTheOlderKeyUnnecessary(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		post(t, db, 3)
		older := db.Box
		db.Box = testkit.Box(t, "a1")
		require.ErrorContains(t, db.Reseal(t.Context(), accountdb.SealedMails), "3 sealed texts do not open")
		db.Box = testkit.Box(t, "a1", "e7")
		require.NoError(t, db.Reseal(t.Context(), accountdb.SealedMails))
		db.Box = testkit.Box(t, "a1")
		require.NoError(t, db.Reseal(t.Context(), accountdb.SealedMails))
		m, _, err := db.ClaimMail(t.Context(), time.Minute)
		require.NoError(t, err)
		require.False(t, m.Sealed)
		db.Box = older
		m, _, err = db.ClaimMail(t.Context(), time.Minute)
		require.NoError(t, err)
		require.True(t, m.Sealed, "the older key no longer opens it")
	})
}
