package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/dbtx/dbtxtest"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people/link"
	"opportunity.internal/services/authquota/internal/people/session"
	"opportunity.internal/services/authquota/internal/people/store"
	"opportunity.internal/services/authquota/internal/people/throttle"
)

// fixture is a person, signed in.
type fixture struct {
	*store.Store

	db      dbtxtest.DB
	account string
	current session.Session
}

const address = "ada@example.org"

func onBoth(t *testing.T, test func(t *testing.T, f fixture)) {
	dbtxtest.OnBoth(t, func(t *testing.T, db dbtxtest.DB) {
		f := fixture{Store: store.New(db.DB), db: db}
		var secret string
		f.account, secret = db.Person(t, address)
		var err error
		f.current, _, err = f.Session(t.Context(), secret)
		require.NoError(t, err)
		test(t, f)
	})
}

// halfway returns a session after a valid password.
func (f fixture) halfway(t *testing.T) session.Session {
	t.Helper()
	admitted, err := f.SignInHalfway(t.Context(), f.account, session.Entry{})
	require.NoError(t, err)
	half, _, err := f.Session(t.Context(), admitted.Session)
	require.NoError(t, err)
	return half
}

// atOnce calls do n times concurrently and returns how many calls succeeded.
func atOnce(n int, do func(i int) error) (succeeded int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := do(i); err == nil {
				mu.Lock()
				defer mu.Unlock()
				succeeded++
			}
		})
	}
	all.Wait()
	return succeeded
}

func TestStepOfACodeSignsInOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		halves := []session.Session{f.halfway(t), f.halfway(t), f.halfway(t), f.halfway(t)}
		require.Equal(t, 1, atOnce(len(halves), func(i int) error {
			_, err := f.SignInByCode(t.Context(), halves[i], session.Entry{}, 7)
			return err
		}))
		_, err := f.SignInByCode(t.Context(), f.halfway(t), session.Entry{}, 6)
		require.ErrorContains(t, err, "already used", "of an earlier step")
		_, err = f.ConfirmByCode(t.Context(), f.current, 7)
		require.ErrorContains(t, err, "already used", "for another purpose")
	})
}

func TestRecoveryCodeSignsInOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		require.NoError(t, f.RenewCodes(t.Context(), f.account, []string{"one", "two"}))
		halves := []session.Session{f.halfway(t), f.halfway(t), f.halfway(t)}
		require.Equal(t, 1, atOnce(len(halves), func(i int) error {
			_, err := f.SignInByRecoveryCode(t.Context(), halves[i], session.Entry{}, "one")
			return err
		}))
		person, err := f.Person(t.Context(), f.account)
		require.NoError(t, err)
		require.Equal(t, 1, person.RecoveryCodesLeft)
	})
}

func TestConcurrentAttemptsAreCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		subject := throttle.OfAddress(address, "203.0.113.7")
		free := throttle.Address.Free + 1 // the delay follows the next failure
		waits := make(chan time.Duration, 2*free)
		atOnce(2*free, func(int) error {
			wait, err := f.CountAttempt(t.Context(), subject)
			waits <- wait
			return err
		})
		close(waits)
		delayed := 0
		for wait := range waits {
			if wait > 0 {
				delayed++
			}
		}
		require.Equal(t, free, delayed)
		f.db.Advance(throttle.Address.First)
		wait, err := f.CountAttempt(t.Context(), subject)
		require.NoError(t, err)
		require.Zero(t, wait)
		_, err = f.SignInHalfway(t.Context(), f.account, session.Entry{}, subject)
		require.NoError(t, err)
		wait, err = f.CountAttempt(t.Context(), subject)
		require.NoError(t, err)
		require.Zero(t, wait, "a success removes the failures")
	})
}

func TestLinkMakesOneAccount(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		confirm := link.New(link.Confirm, "", "bob@example.org", f.db.Now())
		message := mail.Message{To: "bob@example.org", Template: "confirm-address", Data: map[string]string{"link": "https://api.example/account"}}
		require.NoError(t, f.RequestSignUp(ctx, confirm, message, message))
		require.Equal(t, 1, atOnce(4, func(int) error {
			_, err := f.SignUp(ctx, confirm.Secret, "hash", session.Entry{})
			return err
		}))
		taken := link.New(link.Confirm, "", address, f.db.Now())
		known := mail.Message{To: address, Template: "already-have-account", Data: map[string]string{"link": "https://api.example/account"}}
		require.NoError(t, f.RequestSignUp(ctx, taken, message, known))
		_, err := f.Link(ctx, taken.Secret, link.Confirm)
		require.ErrorContains(t, err, "expired or was already used")
		require.Len(t, f.db.TakeMails(t), 2)
	})
}

func TestOneOfTwoNewPasswordsIsStored(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		other, err := f.SignInByCode(ctx, f.halfway(t), session.Entry{}, 9)
		require.NoError(t, err)
		_, old, err := f.Credentials(ctx, address)
		require.NoError(t, err)
		require.Equal(t, 1, atOnce(2, func(i int) error {
			_, err := f.ChangePassword(ctx, f.current, old, []string{"first", "second"}[i])
			return err
		}))
		_, _, err = f.Session(ctx, other.Session)
		require.Error(t, err, "other sessions end")
		_, hash, err := f.Credentials(ctx, address)
		require.NoError(t, err)
		require.Contains(t, []string{"first", "second"}, hash)
	})
}

func TestLostAuthenticatorIsRemovedAfterTheWait(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		begin := func() (keep link.Fresh) {
			t.Helper()
			lost := link.New(link.Lost, f.account, address, f.db.Now())
			keep = link.New(link.Keep, f.account, address, f.db.Now())
			require.NoError(t, f.RequestNewAuthenticator(ctx, f.account, lost, keep, mail.Message{To: address, Template: "password-changed"}))
			at, err := f.BeginReset(ctx, lost.Secret)
			require.NoError(t, err)
			require.Equal(t, f.db.Now().Add(link.ResetWait), at)
			return keep
		}
		require.NoError(t, f.CancelReset(ctx, begin().Secret))
		f.db.Advance(link.ResetWait)
		f.halfway(t)
		_, err := f.Seed(ctx, f.account)
		require.NoError(t, err, "canceled")
		begin()
		f.db.Advance(link.ResetWait - time.Microsecond)
		f.halfway(t)
		_, err = f.Seed(ctx, f.account)
		require.NoError(t, err, "not yet")
		f.db.Advance(time.Microsecond)
		f.halfway(t)
		_, err = f.Seed(ctx, f.account)
		require.ErrorContains(t, err, "no account")
		require.Contains(t, f.db.TakeSubjects(t), address+": Your authenticator was removed")
	})
}

func TestClosedAccountIsForgotten(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		f.db.TakeMails(t)
		require.NoError(t, f.CloseAccount(ctx, f.account))
		require.ErrorContains(t, f.CloseAccount(ctx, f.account), "Closing is final")
		_, err := f.Person(ctx, f.account)
		require.Error(t, err)
		sessions, err := f.OpenSessions(ctx, f.account)
		require.NoError(t, err)
		require.Empty(t, sessions)
		id, _, err := f.Credentials(ctx, address)
		require.NoError(t, err)
		require.Empty(t, id, "the address is free")
		require.Equal(t, []string{f.account}, f.db.Raises(t))
		require.Equal(t, []string{address + ": Your account was closed"}, f.db.TakeSubjects(t))
		again, _ := f.db.Person(t, address)
		require.NotEqual(t, f.account, again)
	})
}

func TestSignInDataIsDeletedAfterRetention(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		rows := func() (counts []int64) {
			t.Helper()
			require.NoError(t, f.DeleteExpired(t.Context()))
			for _, table := range []string{"links", "attempts", "sessions", "devices"} {
				var n int64
				require.NoError(t, f.db.Table(table).Count(&n).Error)
				counts = append(counts, min(n, 1))
			}
			return counts
		}
		_, err := f.CountAttempt(t.Context(), throttle.OfAddress(address, "203.0.113.7"))
		require.NoError(t, err)
		require.Equal(t, []int64{1, 1, 1, 1}, rows())
		const day = 24 * time.Hour
		f.db.Advance(2*day + time.Second)
		require.Equal(t, []int64{0, 0, 1, 1}, rows())
		f.db.Advance(29 * day)
		require.Equal(t, []int64{0, 0, 0, 1}, rows())
		f.db.Advance(370 * day)
		require.Equal(t, []int64{0, 0, 0, 0}, rows())
	})
}
