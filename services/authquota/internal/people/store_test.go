package people_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

// fixture is a person, signed in.
type fixture struct {
	*people.Store

	db      testkit.DB
	account string
	current people.Session
}

const address = "ada@example.org"

func onBothStores(t *testing.T, test func(t *testing.T, f fixture)) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) { test(t, newFixture(t, db)) })
}

func newFixture(t *testing.T, db testkit.DB) fixture {
	t.Helper()
	f := fixture{Store: people.NewStore(db.DB), db: db}
	var secret string
	f.account, secret = db.Person(t, address)
	var err error
	f.current, _, err = f.Session(t.Context(), secret)
	require.NoError(t, err)
	return f
}

// halfway returns a session after a valid password.
func (f fixture) halfway(t *testing.T) people.Session {
	t.Helper()
	admitted := storetest.Must(f.SignInHalfway(t.Context(), f.account, people.Entry{}))(t)
	half, _, err := f.Session(t.Context(), admitted.Session)
	require.NoError(t, err)
	return half
}

// secret takes all mails and returns the secret of the link in the last one.
func (f fixture) secret(t *testing.T, purpose people.LinkPurpose) string {
	t.Helper()
	mails := f.db.TakeMails(t)
	require.NotEmpty(t, mails)
	return secretIn(t, mails[len(mails)-1], purpose)
}

func secretIn(t *testing.T, letter mail.Letter, purpose people.LinkPurpose) string {
	t.Helper()
	_, secret, found := strings.Cut(letter.Text, purpose.Page()+"?token=")
	require.True(t, found, letter.Text)
	return strings.Fields(secret)[0]
}

// beginReset starts the waiting period for a lost authenticator and returns the secret of the link
// that cancels it.
func (f fixture) beginReset(t *testing.T) (keep string) {
	t.Helper()
	f.db.TakeMails(t)
	require.NoError(t, f.RequestNewAuthenticator(t.Context(), storetest.Must(f.Person(t.Context(), f.account))(t)))
	asked := f.db.TakeMails(t)[0]
	require.NoError(t, f.BeginReset(t.Context(), secretIn(t, asked, people.LinkLost)))
	return secretIn(t, asked, people.LinkKeep)
}

// concurrently calls do n times concurrently and returns how many calls succeeded.
func concurrently(n int, do func(i int) error) (succeeded int) {
	return n - len(slices.DeleteFunc(storetest.Together(n, do), func(err error) bool { return err == nil }))
}

func TestStepOfACodeSignsInOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, f fixture) {
		halves := []people.Session{f.halfway(t), f.halfway(t), f.halfway(t), f.halfway(t)}
		require.Equal(t, 1, concurrently(len(halves), func(i int) error {
			return storetest.Err(f.SignIn(t.Context(), halves[i], people.Entry{}, people.ByCode(7)))
		}))
		_, err := f.SignIn(t.Context(), f.halfway(t), people.Entry{}, people.ByCode(6))
		require.ErrorContains(t, err, "already used", "of an earlier step")
		_, err = f.Confirm(t.Context(), f.current, people.ByCode(7))
		require.ErrorContains(t, err, "already used", "for another purpose")
	})
}

func TestRecoveryCodeSignsInOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, f fixture) {
		require.NoError(t, f.RenewCodes(t.Context(), f.account, []string{"one", "two"}))
		halves := []people.Session{f.halfway(t), f.halfway(t), f.halfway(t)}
		require.Equal(t, 1, concurrently(len(halves), func(i int) error {
			return storetest.Err(f.SignIn(t.Context(), halves[i], people.Entry{}, people.ByRecoveryCode("one")))
		}))
		require.Equal(t, 1, storetest.Must(f.Person(t.Context(), f.account))(t).RecoveryCodesLeft)
	})
}

func TestConcurrentAttemptsAreCounted(t *testing.T) {
	onBothStores(t, func(t *testing.T, f fixture) {
		subject := people.AttemptsOnAddress.Of("203.0.113.0/24", address)
		free := people.AddressRule.Free + 1 // the delay follows the next failure
		waits := make(chan time.Duration, 2*free)
		concurrently(2*free, func(int) error {
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
		f.db.Advance(people.AddressRule.First)
		wait := storetest.Must(f.CountAttempt(t.Context(), subject))(t)
		require.Zero(t, wait)
		storetest.Must(f.SignInHalfway(t.Context(), f.account, people.Entry{}, subject))(t)
		wait = storetest.Must(f.CountAttempt(t.Context(), subject))(t)
		require.Zero(t, wait, "a success removes the failures")
	})
}

func TestLinkMakesOneAccount(t *testing.T) {
	onBothStores(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		require.NoError(t, f.RequestSignUp(ctx, "bob@example.org"))
		secret := f.secret(t, people.LinkConfirm)
		require.Equal(t, 1, concurrently(4, func(int) error {
			return storetest.Err(f.SignUp(ctx, secret, "hash", people.Entry{}))
		}))
		require.NoError(t, f.RequestSignUp(ctx, address))
		require.Equal(t, []string{address + ": You already have an account"}, f.db.TakeSubjects(t))
	})
}

func TestOneOfTwoNewPasswordsIsStored(t *testing.T) {
	onBothStores(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		other := storetest.Must(f.SignIn(ctx, f.halfway(t), people.Entry{}, people.ByCode(9)))(t)
		_, old, err := f.Credentials(ctx, address)
		require.NoError(t, err)
		require.Equal(t, 1, concurrently(2, func(i int) error {
			return storetest.Err(f.ChangePassword(ctx, f.current, old, []string{"first", "second"}[i]))
		}))
		_, _, err = f.Session(ctx, other.Session)
		require.Error(t, err, "other sessions end")
		_, hash, err := f.Credentials(ctx, address)
		require.NoError(t, err)
		require.Contains(t, []string{"first", "second"}, hash)
	})
}

// A person can have a lost authenticator removed after a week, an operator after a day. The person
// learns of it at once and can cancel it, also by signing in with it.
func TestALostAuthenticatorIsRemovedAfterTheWait(t *testing.T) {
	onBothStores(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		schedule := func(want time.Duration) {
			t.Helper()
			at := storetest.Must(f.ScheduleReset(ctx, "ann", f.account, "checked by phone"))(t)
			require.Equal(t, f.db.Now().Add(want), at)
		}
		has := func(authenticator bool, why string) {
			t.Helper()
			f.halfway(t)
			_, err := f.Seed(ctx, f.account)
			require.Equal(t, authenticator, err == nil, why)
		}
		f.db.TakeMails(t)
		schedule(people.OperatorResetWait)
		sent := f.db.TakeMails(t)
		require.Len(t, sent, 1)
		require.Equal(t, "Your authenticator will be removed", sent[0].Subject)
		require.Contains(t, sent[0].Text, "checked by phone")
		entries, _, err := f.Audit(ctx, people.AuditSearch{Account: f.account, Action: "factor.reset_begin", Limit: 1})
		require.NoError(t, err)
		require.Equal(t, "ann", entries[0].Actor)
		require.Contains(t, string(entries[0].Detail), `"reason":"checked by phone"`)

		f.db.Advance(time.Hour)
		schedule(people.OperatorResetWait - time.Hour) // repeating it neither delays it nor sends a mail
		require.Empty(t, f.db.TakeMails(t))
		require.NoError(t, f.CancelReset(ctx, secretIn(t, sent[0], people.LinkKeep)))
		f.db.Advance(people.OperatorResetWait)
		has(true, "cancelled by the link")
		schedule(people.OperatorResetWait)
		storetest.Must(f.SignIn(ctx, f.halfway(t), people.Entry{}, people.ByCode(7)))(t)
		f.db.Advance(people.OperatorResetWait)
		has(true, "cancelled by a code")

		f.beginReset(t) // by its person: brought forward, and never delayed
		schedule(people.OperatorResetWait)
		require.NoError(t, f.KeepAuthenticator(ctx, f.account))
		f.beginReset(t)
		// a passkey may be on the lost device
		require.NoError(t, f.AddPasskey(ctx, credential.Passkey{Account: f.account, Name: "Key ring", Credential: "x",
			AddedAt: f.db.Now()}))
		f.db.Advance(people.ResetWait - time.Hour)
		schedule(time.Hour)
		f.db.Advance(time.Hour - time.Microsecond)
		has(true, "not yet")
		f.db.Advance(time.Microsecond)
		has(false, "removed")
		require.Contains(t, f.db.TakeSubjects(t), address+": Your authenticator was removed")
		require.Empty(t, storetest.Must(f.Passkeys(ctx, f.account))(t))
		for reason, want := range map[string]string{"": "Parameter reason", "again": "has no authenticator"} {
			require.ErrorContains(t, storetest.Err(f.ScheduleReset(ctx, "ann", f.account, reason)), want)
		}
	})
}

func TestSignInDataIsDeletedAfterRetention(t *testing.T) {
	onBothStores(t, func(t *testing.T, f fixture) {
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
		storetest.Must(f.CountAttempt(t.Context(), people.AttemptsOnAddress.Of("203.0.113.0/24", address)))(t)
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

func TestChangeOfAnAccountIsRecordedOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.account
		suspend := storetest.Must(account.Suspend("unpaid"))(t)
		resume := storetest.Must(account.Resume("settled"))(t)
		grant := storetest.Must(account.Grant(api.Developer))(t)
		f.db.TakeTouched(t)
		for _, change := range []account.Change{suspend, suspend, grant, grant, resume} {
			storetest.Must(f.ChangeAccount(ctx, "bob", id, change))(t)
		}
		var subjects []string
		mails := f.db.TakeMails(t)
		for _, m := range mails {
			subjects = append(subjects, m.Subject)
		}
		require.Equal(t, []string{"Your account is suspended", "Your plan is now developer",
			"Your account is no longer suspended"}, subjects)
		require.Contains(t, mails[0].Text, "Reason given by the operator: unpaid\n")
		require.NotContains(t, mails[2].Text, "settled", "the reason for resuming is for the audit log")
		require.Equal(t, []string{id, id, id, id, id}, f.db.TakeTouched(t),
			"also for a repetition: the change before may not be in effect yet")
		require.Equal(t, []string{"account.suspend", "account.grant", "account.resume"}, f.db.Actions(t, "bob"))
	})
}

func TestCodes(t *testing.T) {
	form := regexp.MustCompile(`^([0-9a-hjkmnp-tv-z]{4}-){5}[0-9a-hjkmnp-tv-z]{4}$`)
	seen := map[string]bool{}
	for range 20 {
		codes, hashes := people.NewRecoveryCodes()
		require.Len(t, codes, people.RecoveryCodeCount)
		for i, code := range codes {
			require.Regexp(t, form, code)
			require.True(t, people.IsRecoveryCode(code))
			require.Equal(t, people.HashRecoveryCode(code), hashes[i])
			require.False(t, seen[code])
			seen[code] = true
		}
	}
}

func TestHowACodeIsTypedDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codes, _ := people.NewRecoveryCodes()
		code := codes[0]
		typed := strings.ReplaceAll(code, "-",
			rapid.SampledFrom([]string{"", " ", "-", " - ", "\u00a0", "\u2011"}).Draw(t, "between"))
		typed = strings.ReplaceAll(typed, "0", rapid.SampledFrom([]string{"0", "o", "O"}).Draw(t, "zero"))
		typed = strings.ReplaceAll(typed, "1", rapid.SampledFrom([]string{"1", "l", "I", "i"}).Draw(t, "one"))
		if rapid.Bool().Draw(t, "upper case") {
			typed = strings.ToUpper(typed)
		}
		require.Equal(t, people.HashRecoveryCode(code), people.HashRecoveryCode(typed), typed)
		require.True(t, people.IsRecoveryCode(typed))
	})
}

func TestWhatIsNoCode(t *testing.T) {
	codes, _ := people.NewRecoveryCodes()
	code := codes[0]
	for _, other := range []string{"", "123456", code[:len(code)-1], code + "0", "u" + code[1:], code[5:]} {
		require.NotEqual(t, people.HashRecoveryCode(code), people.HashRecoveryCode(other), other)
		require.False(t, people.IsRecoveryCode(other), other)
	}
	require.NotContains(t, people.HashRecoveryCode(code), code[:4]+code[5:9])
}

// An intruder with the password requests another address and a new authenticator. What the owner
// does against it cancels one or both.
func TestOwnerCancelsWhatAnIntruderRequested(t *testing.T) {
	const both, addressOnly, authenticatorOnly = "address authenticator", "address", "authenticator"
	for name, c := range map[string]struct {
		cancels string
		act     func(ctx context.Context, f fixture, keep string) error
	}{
		"another password": {both, func(ctx context.Context, f fixture, _ string) error {
			_, before, err := f.Credentials(ctx, address)
			require.NoError(t, err)
			return storetest.Err(f.ChangePassword(ctx, f.current, before, "another"))
		}},
		"a forgotten password": {both, func(ctx context.Context, f fixture, _ string) error {
			require.NoError(t, f.RequestReset(ctx, address))
			return f.ResetPassword(ctx, f.secret(t, people.LinkReset), "another", people.Entry{})
		}},
		"another authenticator": {both, func(ctx context.Context, f fixture, _ string) error {
			seed := storetest.Must(f.NewSeed(ctx, f.current))(t)
			return storetest.Err(f.ReplaceAuthenticator(ctx, f.current, seed, 9))
		}},
		"the end of all sessions": {addressOnly, func(ctx context.Context, f fixture, _ string) error {
			return f.EndSessions(ctx, f.account)
		}},
		"the button": {addressOnly, func(ctx context.Context, f fixture, _ string) error {
			return f.CancelAddressChange(ctx, f.account)
		}},
		"the link in the mail": {addressOnly, func(ctx context.Context, f fixture, keep string) error {
			return f.KeepAddress(ctx, keep)
		}},
		"the button for the authenticator": {authenticatorOnly, func(ctx context.Context, f fixture, _ string) error {
			return f.KeepAuthenticator(ctx, f.account)
		}},
		"a code": {authenticatorOnly, func(ctx context.Context, f fixture, _ string) error {
			return storetest.Err(f.Confirm(ctx, f.current, people.ByCode(7)))
		}},
		"the password, which the intruder has": {"", func(ctx context.Context, f fixture, _ string) error {
			_, hash, err := f.Credentials(ctx, address)
			require.NoError(t, err)
			return storetest.Err(f.Confirm(ctx, f.current, people.ByPassword(hash)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, f := t.Context(), newFixture(t, testkit.OnSQLite(t))
			person := storetest.Must(f.Person(ctx, f.account))(t)
			require.NoError(t, f.RequestAddressChange(ctx, person, "eve@example.org"))
			var keep, link string
			for _, m := range f.db.TakeMails(t) {
				if m.To == address {
					keep = secretIn(t, m, people.LinkOldAddress)
				} else {
					link = secretIn(t, m, people.LinkNewAddress)
				}
			}
			f.beginReset(t)
			require.NoError(t, c.act(ctx, f, keep))
			pending := storetest.Must(f.AddressChange(ctx, f.account))(t)
			_, gone := f.Link(ctx, link, people.LinkNewAddress)
			require.Equal(t, strings.Contains(c.cancels, "address"), gone != nil && pending.Email == "", "address")
			person = storetest.Must(f.Person(ctx, f.account))(t)
			require.Equal(t, strings.Contains(c.cancels, "authenticator"), person.ResetAt == nil, "authenticator")
		})
	}
}
