package authquota_test

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/people/session"
)

const otherPassword = "marmalade-on-a-quiet-glacier"

// member starts the service and signs a person up, with a proof that is recent for ten minutes.
func (s *stores) member(t *testing.T, email string) (*browser, *clock) {
	t.Helper()
	svc, clock := s.startWithClock(t)
	b := svc.browser()
	b.signUp(email)
	clock.move(time.Minute)
	return b, clock
}

// signInAgain takes both steps of signing in.
func (b *browser) signInAgain(clock *clock) {
	b.svc.t.Helper()
	b.enterPassword().leads("/account/sign-in/code")
	clock.move(time.Minute) // a code is single-use
	b.post("/account/sign-in/code", "code", b.code()).leads("/account")
}

// actions returns the audit log actions of a person, oldest first.
func (b *browser) actions() []string {
	b.svc.t.Helper()
	var actions []string
	require.NoError(b.svc.t, b.svc.open(b.svc.t).Raw("SELECT action FROM audit_log WHERE actor = ? ORDER BY id", b.account).Scan(&actions).Error)
	return actions
}

func TestSensitivePagesNeedRecentProof(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		delicate := []string{"email", "password", "authenticator", "passkeys", "close"}
		for _, page := range delicate {
			b.get("/account/security/" + page).shows(http.StatusOK)
		}
		b.get("/account/security/sessions/end").shows(http.StatusMethodNotAllowed)
		clock.move(session.RecentProof)
		before := b.dump()
		for _, page := range delicate {
			b.get("/account/security/" + page).leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2F" + page)
			b.post("/account/security/" + page).leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2F" + page)
		}
		b.post("/account/security/passkeys/remove", "id", "x").leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2Fpasskeys")
		for _, act := range []string{"sessions/end", "sessions/end-all"} {
			b.post("/account/security/"+act, "id", "x").leads("/account/security/confirm?next=%2Faccount%2Fsecurity")
		}
		require.Equal(t, before["people"], b.dump()["people"], "nothing has happened")
		b.get("/account/security").shows(http.StatusOK, "Security", "ada@example.org")

		old := b.other()
		old.cookies["__Host-session"] = b.cookies["__Host-session"]
		b.get("/account/security/confirm?next=/account/security/password").shows(http.StatusOK, "Confirm your identity")
		b.post("/account/security/confirm", "code", b.code(), "next", "/account/security/password").leads("/account/security/password")
		b.get("/account/security/password").shows(http.StatusOK)
		clock.move(session.Overlap)
		old.get("/account").leads("/account/sign-in")

		clock.move(session.RecentProof)
		b.post("/account/security/confirm", "password", otherPassword, "next", "/account/security/email").shows(422, "not the password")
		b.get("/account/security/email").leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2Femail")
		b.post("/account/security/confirm", "password", goodPassword, "next", "https://evil.example/").leads("/account/security")
		b.get("/account/security/email").shows(http.StatusOK)
		require.Subset(t, b.actions(), []string{"person.confirm", "person.confirm_failed"})
	})
}

func (b *browser) dump() map[string]string { return b.svc.dump(b.svc.t) }

func TestACodeConfirmsOnceAndWrongOnesSlowDown(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		b.post("/account/security/confirm", "code", b.codes[0]).shows(422, "Recovery codes work only at sign-in")
		code := b.code()
		b.post("/account/security/confirm", "code", code).leads("/account/security")
		b.post("/account/security/confirm", "code", code).shows(422, "already used")
		b.get("/account").shows(http.StatusOK)
		clock.move(session.RecentProof)
		for range 9 { // one attempt was counted before
			b.post("/account/security/confirm", "code", b.wrongCode()).shows(422, "is wrong")
		}
		slow := b.post("/account/security/confirm", "code", b.code()).shows(http.StatusTooManyRequests)
		require.NotEmpty(t, slow.header.Get("Retry-After"))
		b.post("/account/security/confirm", "password", goodPassword).shows(http.StatusTooManyRequests)
		clock.move(time.Minute)
		b.post("/account/security/confirm", "code", b.code()).leads("/account/security")
	})
}

func TestThePasswordIsChanged(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		elsewhere := b.other()
		elsewhere.signInAgain(clock)
		reset := b.other().askFor("/account/forgot", b.email, "reset-password", 1)

		b.post("/account/security/password", "current", goodPassword, "password", "short").shows(422, "at least 12")
		b.post("/account/security/password", "current", goodPassword, "password", "ada@example.org").shows(422, "e-mail address as the password")
		b.post("/account/security/password", "current", otherPassword, "password", otherPassword).shows(422, "not the password")
		b.post("/account/security/password", "password", otherPassword).shows(422, "not the password")
		elsewhere.get("/account").shows(http.StatusOK)

		old := b.cookies["__Host-session"]
		b.post("/account/security/password", "current", goodPassword, "password", otherPassword).leads("/account/security")
		b.get("/account/security").shows(http.StatusOK, "Your password was changed", "Password changed", " you ")
		require.NotEqual(t, old, b.cookies["__Host-session"])
		elsewhere.get("/account").leads("/account/sign-in")
		b.other().get(reset).shows(http.StatusGone)
		b.svc.mail(b.email, "password-changed", 1)
		require.Contains(t, b.actions(), "person.password_change")

		back := b.other()
		back.enterPassword().shows(422, "address or the password is wrong")
		back.password = otherPassword
		back.signInAgain(clock)
	})
}

func TestAddressIsChangedByMailLink(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		for _, bad := range []string{"", "nonsense", "a@b@c.example"} {
			b.post("/account/security/email", "email", bad).shows(422, "Enter an e-mail address")
		}
		b.post("/account/security/email", "email", " ADA@example.org").shows(422, "already your address")
		b.post("/account/security/email", "email", "First@Example.org").leads("/account/security")
		b.get("/account/security").shows(http.StatusOK, "We sent a mail to first@example.org")
		first := b.svc.mail("first@example.org", "new-address", 1).links()[0]
		b.post("/account/security/email", "email", "lovelace@example.org").leads("/account/security")
		second := b.svc.mail("lovelace@example.org", "new-address", 1).links()[0]
		b.get(first).shows(http.StatusGone)
		b.get("/account").shows(http.StatusOK, "ada@example.org")

		phone := b.other() // not signed in
		form := phone.get(second).shows(http.StatusOK, "lovelace@example.org")
		phone.get(second).shows(http.StatusOK) // opening the link does not use it
		var all sync.WaitGroup
		var mu sync.Mutex
		answers := map[int]int{}
		for range 4 {
			all.Go(func() {
				status := b.other().post("/account/new-address", "token", form.token()).status
				mu.Lock()
				defer mu.Unlock()
				answers[status]++
			})
		}
		all.Wait()
		require.Equal(t, map[int]int{http.StatusSeeOther: 1, http.StatusGone: 3}, answers)
		b.get("/account").shows(http.StatusOK, "lovelace@example.org")
		notice := b.svc.mail("ada@example.org", "address-changed", 1)
		require.Contains(t, notice.plain, "l…@example.org")
		require.NotContains(t, notice.plain, "lovelace@example.org")

		old := b.other()
		old.enterPassword().shows(422)
		old.email = "lovelace@example.org"
		old.signInAgain(clock)
		require.NotContains(t, b.dump()["audit_log"], "lovelace@", "what cannot be deleted names nobody")
	})
}

// The form does not reveal whether another account has the address, and a replaced link does not work.
func TestTakenAddressIsRevealedOnlyToItsOwner(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		other := b.svc.browser()
		other.signUp("grace@example.org")
		taken, free := b.post("/account/security/email", "email", "grace@example.org"), b.post("/account/security/email", "email", "late@example.org")
		require.Equal(t, taken.status, free.status)
		require.Equal(t, taken.header.Get("Location"), free.header.Get("Location"))
		require.Equal(t, taken.body, free.body)
		b.svc.mail("grace@example.org", "already-have-account", 1)
		late := b.svc.mail("late@example.org", "new-address", 1).links()[0]
		token := b.get(late).shows(http.StatusOK).token()
		overtaking := b.svc.browser()
		overtaking.signUp("late@example.org")
		b.post("/account/new-address", "token", token).shows(http.StatusGone)
		b.get("/account").shows(http.StatusOK, "ada@example.org")
		overtaking.get("/account").shows(http.StatusOK, "late@example.org")
	})
}

var qr = regexp.MustCompile(`src="data:image/png;base64,[^"]+"`)

func TestTheAuthenticatorIsReplacedOnceTheNewOneHasProvenItself(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		elsewhere := b.other()
		elsewhere.signInAgain(clock)
		b.post("/account/security/authenticator", "code", b.code()).shows(422, "QR code on this page")
		first := b.get("/account/security/authenticator").shows(http.StatusOK)
		require.Regexp(t, qr, first.body)
		clock.move(session.RecentProof - 3*time.Minute)
		require.Equal(t, first.seed(), b.get("/account/security/authenticator").seed(), "it may be scanned already")
		for range 3 {
			clock.move(session.RecentProof)
			b.get("/account")
		}
		b.post("/account/security/confirm", "password", goodPassword).leads("/account/security")
		require.Equal(t, http.StatusOK, b.send(http.MethodHead, "/account/security/authenticator", nil, nil).status)
		shown := b.get("/account/security/authenticator").shows(http.StatusOK)
		require.NotEqual(t, first.seed(), shown.seed(), "one that was shown long ago is worth nothing")
		elsewhere.signInAgain(clock)
		require.NotEqual(t, shown.seed(), elsewhere.get("/account/security/authenticator").seed(), "each browser has its own")
		require.NotEqual(t, b.seed, shown.seed())
		newCode := func(seed string) string {
			code, err := totp.GenerateCode(seed, clock.Now())
			require.NoError(t, err)
			return code
		}
		b.post("/account/security/authenticator", "code", b.wrongCode()).shows(422, "is wrong")
		again := b.post("/account/security/authenticator", "code", newCode(first.seed())).shows(422, "is wrong")
		require.Equal(t, shown.seed(), again.seed(), "a mistake does not change what is to be scanned")

		// the old one works until then
		clock.move(time.Minute)
		b.post("/account/security/confirm", "code", b.code()).leads("/account/security")

		code, oldCode := newCode(shown.seed()), b.code()
		var all sync.WaitGroup
		statuses := make([]int, 3)
		for i := range statuses {
			all.Go(func() {
				o := b.other()
				o.cookies["__Host-session"] = b.cookies["__Host-session"]
				p := o.post("/account/security/authenticator", "code", code)
				if statuses[i] = p.status; p.header.Get("Location") == "/account/security" {
					statuses[i] = http.StatusOK
					b.seed, elsewhere.seed = shown.seed(), shown.seed()
				}
			})
		}
		all.Wait()
		require.Equal(t, 1, countOf(statuses, http.StatusOK), "%v", statuses)
		elsewhere.get("/account").leads("/account/sign-in")
		require.Contains(t, b.svc.mail(b.email, "factor-changed", 1).plain, "authenticator")

		back := b.other()
		back.enterPassword().leads("/account/sign-in/code")
		back.post("/account/sign-in/code", "code", oldCode).shows(422)
		back.post("/account/sign-in/code", "code", code).shows(422, "already used")
		clock.move(time.Minute)
		back.post("/account/sign-in/code", "code", back.code()).leads("/account")
		require.Subset(t, b.actions(), []string{"factor.remove", "factor.add"})
	})
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		phone := b.other()
		phone.agent, phone.address = "Mozilla/5.0 (iPhone) Version/19.0 Safari/604.1", "2001:db8:7::1"
		phone.signInAgain(clock)
		stranger := b.svc.browser()
		stranger.signUp("grace@example.org")

		list := b.get("/account/security").shows(http.StatusOK, "Firefox on Linux", "203.0.113.0/24", "This one", "Safari on iPhone", "2001:db8:7::/48")
		require.Equal(t, 1, strings.Count(list.body, "This one"))
		ids := regexp.MustCompile(`name="id" value="(ses_[0-9a-f]+)"`).FindAllStringSubmatch(list.body, -1)
		require.Len(t, ids, 1)
		for secret := range strings.SplitSeq(phone.cookies["__Host-session"]+" "+b.cookies["__Host-session"], " ") {
			require.NotContains(t, list.body, secret)
			require.NotContains(t, list.body, session.Hash(secret))
		}
		stranger.post("/account/security/sessions/end", "id", ids[0][1]).shows(http.StatusNotFound)
		phone.get("/account").shows(http.StatusOK)
		b.post("/account/security/sessions/end", "id", ids[0][1]).leads("/account/security")
		b.post("/account/security/sessions/end", "id", ids[0][1]).shows(http.StatusNotFound, "already ended")
		phone.get("/account").leads("/account/sign-in")
		b.get("/account/security").shows(http.StatusOK, "Signed out")

		phone.signInAgain(clock)
		b.post("/account/security/sessions/end-all").leads("/account/sign-in")
		require.Empty(t, b.cookies["__Host-session"])
		phone.get("/account").leads("/account/sign-in")
		stranger.get("/account").shows(http.StatusOK)
	})
}

func TestIdleSessionIsNotListed(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		b.other().signInAgain(clock)
		b.other().enterPassword()
		b.get("/account/security").shows(http.StatusOK, "password only, not signed in")
		for range 3 {
			clock.move(session.Idle / 2)
			b.get("/account")
		}
		require.NotContains(t, b.get("/account/security").shows(http.StatusOK).body, "/account/security/sessions/end\"")
	})
}

func TestEventsSayWhatHappened(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "mary@example.org")
		stranger := b.svc.browser()
		stranger.signUp("grace@example.org")
		stranger.post("/account/sign-in", "email", b.email, "password", otherPassword).shows(422)
		read[listedAccount](b.svc.change(b.account, "suspend", `{"reason":"a secret of operators"}`))
		read[listedAccount](b.svc.change(b.account, "resume", `{"reason":"another"}`))
		p := b.get("/account/security").shows(http.StatusOK, "Account created", "Second factor added authenticator", "Signed in authenticator set-up",
			"Failed to sign in password", "unknown", "Account suspended", "the operator", "Account resumed")
		require.NotContains(t, p.text(), "operators'")
		require.NotContains(t, p.text(), "a secret of operators")
		require.NotContains(t, p.text(), "grace")
		require.NotContains(t, p.text(), actor, "operators have no name here")
	})
}

func TestAnAccountIsClosed(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		elsewhere := b.other()
		elsewhere.signInAgain(clock)
		key := b.svc.issue(map[string]any{"account": b.account})
		live := b.svc.principal(key.Key)
		require.Nil(t, live.RevokedAt)
		reset := b.other().askFor("/account/forgot", b.email, "reset-password", 1)
		b.svc.change(b.account, "suspend", `{"reason":"x"}`)
		b.post("/account/security/close", "email", b.email).shows(422, "when it is resumed")
		b.svc.change(b.account, "resume", `{"reason":"x"}`)

		b.post("/account/security/close").shows(422, "not the e-mail address")
		b.post("/account/security/close", "email", "grace@example.org").shows(422, "not the e-mail address")
		b.get("/account").shows(http.StatusOK)
		b.post("/account/security/close", "email", " Ada@example.org").leads("/account/sign-in")

		after := b.svc.principal(key.Key)
		require.NotNil(t, after.RevokedAt)
		require.Greater(t, after.Epoch, live.Epoch, "in force on the next call")
		b.svc.mail(b.email, "account-closed", 1)
		for _, gone := range []*browser{b, elsewhere} {
			gone.get("/account").leads("/account/sign-in")
		}
		b.get(reset).shows(http.StatusGone)
		require.NotContains(t, b.dump()["sessions"], "203.0.113")
		b.enterPassword().shows(422, "address or the password is wrong")
		require.Subset(t, b.actions(), []string{"key.revoke", "account.close"})
		for table, rows := range b.dump() {
			if table != "mails" {
				require.NotContains(t, rows, "ada@example.org", "table %s", table)
			}
		}

		again := b.svc.browser()
		again.confirm(again.askFor("/account/sign-up", "ada@example.org", "confirm-address", 2))
		require.NoError(t, b.svc.open(t).Raw("SELECT account_id FROM people WHERE email = ?", "ada@example.org").Scan(&again.account).Error)
		require.NotEqual(t, b.account, again.account)
	})
}

func TestAccountIsClosedDuringRedisOutage(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		key := b.svc.issue(map[string]any{"account": b.account})
		s.Stop()
		b.post("/account/security/close", "email", b.email).leads("/account/sign-in")
		b.get("/account/sign-in").shows(http.StatusOK, "takes effect shortly")
		s.Start()
		storetest.Eventually(t, "in force", func() bool {
			owed := 1
			require.NoError(t, s.open(t).Raw("SELECT count(*) FROM epoch_raises").Scan(&owed).Error)
			return owed == 0
		})
		require.NotNil(t, b.svc.principal(key.Key).RevokedAt)
	})
}

func countOf(all []int, one int) (n int) {
	for _, x := range all {
		if x == one {
			n++
		}
	}
	return n
}
