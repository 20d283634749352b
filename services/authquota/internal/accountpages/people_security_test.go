package accountpages_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

func TestSensitivePagesNeedRecentProof(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		delicate := []string{"email", "password", "authenticator", "passkeys", "close"}
		for _, page := range delicate {
			b.Get("/account/security/" + page).Shows(http.StatusOK)
		}
		b.Get("/account/security/sessions/end").Shows(http.StatusMethodNotAllowed)
		f.Advance(people.RecentProof)
		before := f.Dump(t)["people"]
		for _, page := range delicate {
			b.Get("/account/security/" + page).Leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2F" + page)
			b.Post("/account/security/" + page).Leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2F" + page)
		}
		b.Post("/account/security/passkeys/remove", "id", "x").
			Leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2Fpasskeys")
		for _, act := range []string{"sessions/end", "sessions/end-all"} {
			b.Post("/account/security/"+act, "id", "x").Leads("/account/security/confirm?next=%2Faccount%2Fsecurity")
		}
		require.Equal(t, before, f.Dump(t)["people"], "nothing has happened")
		b.Get("/account/security").Shows(http.StatusOK, "Security", "ada@example.org")

		old := b.Other()
		old.Cookies["__Host-session"] = b.Cookies["__Host-session"]
		b.Get("/account/security/confirm?next=/account/security/password").Shows(http.StatusOK, "Confirm your identity")
		b.Post("/account/security/confirm", "code", b.Code(), "next", "/account/security/password").
			Leads("/account/security/password")
		b.Get("/account/security/password").Shows(http.StatusOK)
		f.Advance(people.SecretOverlap)
		old.Get("/account").Leads("/account/sign-in")

		f.Advance(people.RecentProof)
		b.Post("/account/security/confirm", "password", otherPassword, "next", "/account/security/email").
			Shows(422, "not the password")
		b.Get("/account/security/email").Leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2Femail")
		b.Post("/account/security/confirm", "password", testkit.Password, "next", "https://evil.example/").
			Leads("/account/security")
		b.Get("/account/security/email").Shows(http.StatusOK)
		require.Subset(t, f.Actions(t, b.Account), []string{"person.confirm", "person.confirm_failed"})
	})
}

func TestACodeConfirmsOnceAndWrongOnesSlowDown(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		b.Post("/account/security/confirm", "code", b.Codes[0]).Shows(422, "Recovery codes work only at sign-in")
		code := b.Code()
		b.Post("/account/security/confirm", "code", code).Leads("/account/security")
		b.Post("/account/security/confirm", "code", code).Shows(422, "already used")
		b.Get("/account").Shows(http.StatusOK)
		f.Advance(people.RecentProof)
		for range 9 { // one attempt was counted before
			b.Post("/account/security/confirm", "code", b.WrongCode()).Shows(422, "is wrong")
		}
		slow := b.Post("/account/security/confirm", "code", b.Code()).Shows(http.StatusTooManyRequests)
		require.NotEmpty(t, slow.Header.Get("Retry-After"))
		b.Post("/account/security/confirm", "password", testkit.Password).Shows(http.StatusTooManyRequests)
		f.Advance(time.Minute)
		b.Post("/account/security/confirm", "code", b.Code()).Leads("/account/security")
	})
}

func TestThePasswordIsChanged(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		elsewhere := b.Other()
		f.signInAgain(elsewhere)
		reset := f.askFor(b.Other(), "/account/forgot", b.Email, "reset-password", 1)

		b.Post("/account/security/password", "current", testkit.Password, "password", "short").Shows(422, "at least 12")
		b.Post("/account/security/password", "current", testkit.Password, "password", "ada@example.org").
			Shows(422, "email address as the password")
		b.Post("/account/security/password", "current", otherPassword, "password", otherPassword).
			Shows(422, "not the password")
		b.Post("/account/security/password", "password", otherPassword).Shows(422, "not the password")
		elsewhere.Get("/account").Shows(http.StatusOK)

		old := b.Cookies["__Host-session"]
		b.Post("/account/security/password", "current", testkit.Password, "password", otherPassword).
			Leads("/account/security")
		b.Get("/account/security").Shows(http.StatusOK, "Your password was changed", "Password changed", " you ")
		require.NotEqual(t, old, b.Cookies["__Host-session"])
		elsewhere.Get("/account").Leads("/account/sign-in")
		b.Other().Get(reset).Shows(http.StatusGone)
		f.mail(b.Email, "password-changed", 1)
		require.Contains(t, f.Actions(t, b.Account), "person.password_change")

		back := b.Other()
		back.EnterPassword().Shows(422, "address or the password is wrong")
		back.Password = otherPassword
		f.signInAgain(back)
	})
}

func TestAddressIsChangedByMailLink(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		for _, bad := range []string{"", "nonsense", "a@b@c.example"} {
			b.Post("/account/security/email", "email", bad).Shows(422, "Enter an email address")
		}
		b.Post("/account/security/email", "email", " ADA@example.org").Shows(422, "already your address")
		b.Post("/account/security/email", "email", "First@Example.org").Leads("/account/security")
		b.Get("/account/security").Shows(http.StatusOK, "We sent a mail to first@example.org")
		first := f.mail("first@example.org", "new-address", 1).links()[0]
		b.Post("/account/security/email", "email", "lovelace@example.org").Leads("/account/security")
		second := f.mail("lovelace@example.org", "new-address", 1).links()[0]
		b.Get(first).Shows(http.StatusGone)
		b.Get("/account").Shows(http.StatusOK, "ada@example.org")

		phone := b.Other() // not signed in
		form := phone.Get(second).Shows(http.StatusOK, "lovelace@example.org")
		phone.Get(second).Shows(http.StatusOK) // opening the link does not use it
		b.Other().Post("/account/new-address", "token", testkit.Token(form)).Leads("/account/security")
		b.Other().Post("/account/new-address", "token", testkit.Token(form)).Shows(http.StatusGone)
		b.Get("/account").Shows(http.StatusOK, "lovelace@example.org")
		notice := f.mail("ada@example.org", "address-changed", 1)
		require.Contains(t, notice.Text, "l…@example.org")
		require.NotContains(t, notice.Text, "lovelace@example.org")

		old := b.Other()
		old.EnterPassword().Shows(422)
		old.Email = "lovelace@example.org"
		f.signInAgain(old)
		require.NotContains(t, f.Dump(t)["audit_log"], "lovelace@", "what cannot be deleted names nobody")
	})
}

// The form does not reveal whether another account has the address, and a replaced link does not
// work.
func TestTakenAddressIsRevealedOnlyToItsOwner(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		f.SignUp("grace@example.org")
		taken, free := b.Post("/account/security/email", "email", "grace@example.org"),
			b.Post("/account/security/email", "email", "late@example.org")
		require.Equal(t, taken.Status, free.Status)
		require.Equal(t, taken.Header.Get("Location"), free.Header.Get("Location"))
		require.Equal(t, taken.Body, free.Body)
		f.mail("grace@example.org", "already-have-account", 1)
		late := f.mail("late@example.org", "new-address", 1).links()[0]
		token := testkit.Token(b.Get(late).Shows(http.StatusOK))
		overtaking := f.SignUp("late@example.org")
		b.Post("/account/new-address", "token", token).Shows(http.StatusGone)
		b.Get("/account").Shows(http.StatusOK, "ada@example.org")
		overtaking.Get("/account").Shows(http.StatusOK, "late@example.org")
	})
}

var qr = regexp.MustCompile(`src="data:image/png;base64,[^"]+"`)

func TestTheAuthenticatorIsReplacedOnceTheNewOneHasProvenItself(t *testing.T) {
	onBoth(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		elsewhere := b.Other()
		f.signInAgain(elsewhere)
		b.Post("/account/security/authenticator", "code", b.Code()).Shows(422, "delete its entry in the app")
		first := b.Get("/account/security/authenticator").Shows(http.StatusOK)
		require.Regexp(t, qr, first.Body)
		f.Advance(people.RecentProof - 3*time.Minute)
		require.Equal(t, testkit.Seed(first), testkit.Seed(b.Get("/account/security/authenticator")),
			"it may be scanned already")
		for range 3 {
			f.Advance(people.RecentProof)
			b.Get("/account")
		}
		b.Post("/account/security/confirm", "password", testkit.Password).Leads("/account/security")
		require.Equal(t, http.StatusOK, b.Send(http.MethodHead, "/account/security/authenticator", nil, nil).Status)
		shown := b.Get("/account/security/authenticator").Shows(http.StatusOK)
		require.NotEqual(t, testkit.Seed(first), testkit.Seed(shown), "one that was shown long ago is worth nothing")
		f.signInAgain(elsewhere)
		require.NotEqual(t, testkit.Seed(shown), testkit.Seed(elsewhere.Get("/account/security/authenticator")),
			"each browser has its own")
		require.NotEqual(t, b.Seed, testkit.Seed(shown))
		newCode := func(seed string) string {
			code, err := totp.GenerateCode(seed, f.Now())
			require.NoError(t, err)
			return code
		}
		b.Post("/account/security/authenticator", "code", b.WrongCode()).
			Shows(422, "Enter the one that the app shows now for the QR code on this page.")
		again := b.Post("/account/security/authenticator", "code", newCode(testkit.Seed(first))).Shows(422, "is wrong")
		require.Equal(t, testkit.Seed(shown), testkit.Seed(again), "a mistake does not change what is to be scanned")

		// the old one works until then
		f.Advance(time.Minute)
		b.Post("/account/security/confirm", "code", b.Code()).Leads("/account/security")

		code, oldCode := newCode(testkit.Seed(shown)), b.Code()
		same := func() []*testkit.Person {
			o := b.Other()
			o.Cookies["__Host-session"] = b.Cookies["__Host-session"]
			return []*testkit.Person{o}
		}
		got := atOnce(slices.Concat(same(), same(), same()), func(o *testkit.Person) testkit.Page {
			return o.Post("/account/security/authenticator", "code", code)
		})
		replaced := 0
		for _, p := range got {
			if p.Header.Get("Location") == "/account/security" {
				replaced++
			}
		}
		require.Equal(t, 1, replaced)
		b.Seed, elsewhere.Seed = testkit.Seed(shown), testkit.Seed(shown)
		elsewhere.Get("/account").Leads("/account/sign-in")
		require.Contains(t, f.mail(b.Email, "factor-changed", 1).Text, "authenticator")

		back := b.Other()
		back.EnterPassword().Leads("/account/sign-in/code")
		back.Post("/account/sign-in/code", "code", oldCode).Shows(422)
		back.Post("/account/sign-in/code", "code", code).Shows(422, "already used")
		f.Advance(time.Minute)
		back.Post("/account/sign-in/code", "code", back.Code()).Leads("/account")
		require.Subset(t, f.Actions(t, b.Account), []string{"factor.remove", "factor.add"})
	})
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		phone := b.Other()
		phone.Agent, phone.Address = "Mozilla/5.0 (iPhone) Version/19.0 Safari/604.1", "2001:db8:7::1"
		f.signInAgain(phone)
		stranger := f.SignUp("grace@example.org")

		list := b.Get("/account/security").
			Shows(http.StatusOK, "Firefox on Linux", "203.0.113.0/24", "This one", "Safari on iPhone", "2001:db8:7::/48")
		require.Equal(t, 1, strings.Count(list.Body, "This one"))
		ids := regexp.MustCompile(`name="id" value="(ses_[0-9a-f]+)"`).FindAllStringSubmatch(list.Body, -1)
		require.Len(t, ids, 1)
		for secret := range strings.SplitSeq(phone.Cookies["__Host-session"]+" "+b.Cookies["__Host-session"], " ") {
			require.NotContains(t, list.Body, secret)
			require.NotContains(t, list.Body, people.HashSecret(secret))
		}
		stranger.Post("/account/security/sessions/end", "id", ids[0][1]).Shows(http.StatusNotFound)
		phone.Get("/account").Shows(http.StatusOK)
		b.Post("/account/security/sessions/end", "id", ids[0][1]).Leads("/account/security")
		b.Post("/account/security/sessions/end", "id", ids[0][1]).Shows(http.StatusNotFound, "already ended")
		phone.Get("/account").Leads("/account/sign-in")
		b.Get("/account/security").Shows(http.StatusOK, "Signed out")

		f.signInAgain(phone)
		b.Post("/account/security/sessions/end-all").Leads("/account/sign-in")
		require.Empty(t, b.Cookies["__Host-session"])
		phone.Get("/account").Leads("/account/sign-in")
		stranger.Get("/account").Shows(http.StatusOK)
	})
}

func TestIdleSessionIsNotListed(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		f.signInAgain(b.Other())
		b.Other().EnterPassword()
		b.Get("/account/security").Shows(http.StatusOK, "password only, not signed in")
		for range 3 {
			f.Advance(people.SessionIdle / 2)
			b.Get("/account")
		}
		require.NotContains(t, b.Get("/account/security").Shows(http.StatusOK).Body, "/account/security/sessions/end\"")
	})
}

func TestEventsSayWhatHappened(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("mary@example.org")
		stranger := f.SignUp("grace@example.org")
		stranger.Post("/account/sign-in", "email", b.Email, "password", otherPassword).Shows(422)
		f.Suspend(b.Account, "a secret of operators")
		f.Resume(b.Account)
		p := b.Get("/account/security").
			Shows(http.StatusOK, "Account created", "Second factor added authenticator", "Signed in authenticator set-up",
				"Failed to sign in password", "unknown", "Account suspended", "the operator", "Account resumed")
		require.NotContains(t, p.Text(), "operators'")
		require.NotContains(t, p.Text(), "a secret of operators")
		require.NotContains(t, p.Text(), "grace")
		require.NotContains(t, p.Text(), testkit.Actor, "operators have no name here")
	})
}

func TestAnAccountIsClosed(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		elsewhere := b.Other()
		f.signInAgain(elsewhere)
		digest := strings.Repeat("a", 64)
		key, err := f.Keys.Issue(t.Context(), testkit.Actor, keys.Order{Account: b.Account, UseCase: "x"}, keys.MaxLife,
			keys.Record{Digest: digest, Prefix: "oda_live_", LastFour: "abcd"})
		require.NoError(t, err)
		reset := f.askFor(b.Other(), "/account/forgot", b.Email, "reset-password", 1)
		f.Suspend(b.Account, "x")
		b.Post("/account/security/close", "email", b.Email).Shows(422, "when it is resumed")
		f.Resume(b.Account)

		b.Post("/account/security/close").Shows(422, "not the email address")
		b.Post("/account/security/close", "email", "grace@example.org").Shows(422, "not the email address")
		b.Get("/account").Shows(http.StatusOK)
		epoch := f.Epoch(b.Account)
		b.Post("/account/security/close", "email", " Ada@example.org").Leads("/account/sign-in")

		revoked, err := f.Keys.Resolve(t.Context(), []string{digest})
		require.NoError(t, err)
		require.Equal(t, key.ID, revoked.ID)
		require.NotNil(t, revoked.RevokedAt)
		require.Greater(t, f.Epoch(b.Account), epoch, "gateways that cached the key must notice")
		f.mail(b.Email, "account-closed", 1)
		for _, gone := range []*testkit.Person{b, elsewhere} {
			gone.Get("/account").Leads("/account/sign-in")
		}
		b.Get(reset).Shows(http.StatusGone)
		require.NotContains(t, f.Dump(t)["sessions"], "203.0.113")
		b.EnterPassword().Shows(422, "address or the password is wrong")
		require.Subset(t, f.Actions(t, b.Account), []string{"key.revoke", "account.close"})
		for table, rows := range f.Dump(t) {
			if table != "mails" {
				require.NotContains(t, rows, "ada@example.org", "table %s", table)
			}
		}

		again := f.Visitor()
		again.Confirm(f.askFor(again, "/account/sign-up", "ada@example.org", "confirm-address", 2))
		account, _, err := f.People.Credentials(t.Context(), "ada@example.org")
		require.NoError(t, err)
		require.NotEqual(t, b.Account, account)
	})
}

// An intruder requests a new address. Everything the owner does to sign the intruder out also
// cancels that request.
func TestSecurityActionsCancelAddressChange(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		n := 0
		asks := func() string {
			t.Helper()
			n++
			f.Advance(time.Minute)
			b.Post("/account/security/confirm", "password", b.Password).Leads("/account/security")
			b.Post("/account/security/email", "email", "eve@example.org").Leads("/account/security")
			return f.mail("eve@example.org", "new-address", n).links()[0]
		}
		for _, act := range []struct {
			name string
			do   func()
		}{
			{"another password", func() {
				b.Post("/account/security/password", "current", b.Password, "password", otherPassword).Leads("/account/security")
				b.Password = otherPassword
			}},
			{"a forgotten password", func() {
				link := f.askFor(b.Other(), "/account/forgot", b.Email, "reset-password", 1)
				b.Post("/account/reset", "token", testkit.Token(b.Get(link)), "password", testkit.Password).
					Leads("/account/sign-in")
				b.Password = testkit.Password
				f.signInAgain(b)
			}},
			{"another authenticator", func() {
				b.Seed = testkit.Seed(b.Get("/account/security/authenticator"))
				code, err := totp.GenerateCode(b.Seed, f.Now())
				require.NoError(t, err)
				b.Post("/account/security/authenticator", "code", code).Leads("/account/security")
			}},
			{"the end of all sessions", func() {
				b.Post("/account/security/sessions/end-all").Leads("/account/sign-in")
				f.signInAgain(b)
			}},
			{"the button", func() {
				b.Get("/account/security").Shows(http.StatusOK, "Changes to eve@example.org when you open the link")
				b.Post("/account/security/email/keep").Leads("/account/security")
			}},
			{"the link in the mail to the owner", func() {
				told := f.mail(b.Email, "address-change-asked", n)
				require.Contains(t, told.Text, "e…@example.org")
				keep := told.links()[0]
				owner := b.Other()
				owner.Post("/account/old-address", "token",
					testkit.Token(owner.Get(keep).Shows(http.StatusOK, "Keep your address?"))).Leads("/account/security")
				owner.Get(keep).Shows(http.StatusGone)
				owner.Post("/account/old-address", "token", "made-up").Shows(http.StatusGone)
			}},
		} {
			link := asks()
			token := testkit.Token(b.Get(link).Shows(http.StatusOK, "eve@example.org"))
			act.do()
			b.Get(link).Shows(http.StatusGone)
			b.Post("/account/new-address", "token", token).Shows(http.StatusGone)
			require.NotContains(t, b.Get("/account/security").Shows(http.StatusOK, "ada@example.org").
				Text(), "eve@example.org", act.name)
		}
	})
}

// Links sent to an old address stop working, except those that cancel something.
func TestLinksEndWithTheAddressTheyWentTo(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		half := b.Other()
		half.EnterPassword()
		half.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
		sent := f.mail(b.Email, "authenticator-reset-asked", 1).links()
		reset := f.askFor(half, "/account/forgot", b.Email, "reset-password", 1)
		b.Post("/account/security/email", "email", "lovelace@example.org").Leads("/account/security")
		link := f.mail("lovelace@example.org", "new-address", 1).links()[0]
		b.Post("/account/new-address", "token", testkit.Token(b.Get(link))).Leads("/account/security")
		b.Get(f.mail("ada@example.org", "address-change-asked", 1).links()[0]).Shows(http.StatusGone)
		b.Get(sent[0]).Shows(http.StatusGone)
		b.Get(reset).Shows(http.StatusGone)
		b.Get(sent[1]).Shows(http.StatusOK, "Keep the authenticator?")
	})
}

// Proving a factor or changing the password cancels the removal of an authenticator reported lost.
func TestTheOwnerKeepsTheAuthenticator(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		k := b.AddPasskey("Key ring")
		n := 0
		for name, act := range map[string]func(){
			"a code": func() { b.Post("/account/security/confirm", "code", b.Code()).Leads("/account/security") },
			"a passkey": func() {
				b.Post("/account/security/confirm", "answer", k.Prove(b.Get("/account/security/confirm"))).
					Leads("/account/security")
			},
			"a button": func() { b.Post("/account/security/authenticator/keep").Leads("/account/security") },
			"another password": func() {
				b.Post("/account/security/password", "current", b.Password, "password", b.Password+"!").Leads("/account/security")
				b.Password += "!"
			},
			"a forgotten one": func() {
				link := f.askFor(b.Other(), "/account/forgot", b.Email, "reset-password", 1)
				b.Password += "?"
				b.Post("/account/reset", "token", testkit.Token(b.Get(link)), "password", b.Password).Leads("/account/sign-in")
				person, err := f.People.Person(t.Context(), b.Account)
				require.NoError(t, err)
				require.Nil(t, person.ResetAt)
				f.signInAgain(b)
			},
		} {
			n++
			f.Advance(time.Minute)
			half := b.Other()
			half.EnterPassword().Leads("/account/sign-in/code")
			half.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
			lost := f.mail(b.Email, "authenticator-reset-asked", n).links()[0]
			half.Post("/account/lost-authenticator/confirm", "token", testkit.Token(half.Get(lost))).Leads("/account/sign-in")
			b.Post("/account/security/confirm", "password", b.Password).Leads("/account/security") // which the attacker also has
			b.Get("/account").Shows(http.StatusOK, "Your authenticator will be removed on")
			act()
			require.NotContains(t, b.Get("/account").Shows(http.StatusOK).Text(), "will be removed", name)
		}
		require.Contains(t, f.Actions(t, b.Account), "factor.reset_cancel")
	})
}

// Resetting the password also ends the session of the browser, even of another account.
func TestANewPasswordEndsTheBrowsersSession(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		stranger := f.SignUp("grace@example.org")
		link := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 1)
		signedIn := stranger.Other()
		signedIn.Cookies["__Host-session"] = stranger.Cookies["__Host-session"]
		signedIn.Get("/account").Shows(http.StatusOK)
		stranger.Post("/account/reset", "token", testkit.Token(stranger.Get(link)), "password", otherPassword).
			Leads("/account/sign-in")
		signedIn.Get("/account").Leads("/account/sign-in")
	})
}

func TestEverySecurityEventIsRecorded(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		o := b.Other()
		o.Post("/account/sign-in", "email", "nobody@example.org", "password", "a guess that is wrong")
		o.Post("/account/sign-in", "email", b.Email, "password", "a guess that is wrong")
		o.EnterPassword()
		o.Post("/account/sign-in/code", "code", o.WrongCode())
		o.Post("/account/lost-authenticator")
		found := f.mail(b.Email, "authenticator-reset-asked", 1).links()
		o.Post("/account/lost-authenticator/confirm", "token", testkit.Token(o.Get(found[0])))
		o.Post("/account/sign-in/code", "code", o.Codes[0]).Leads("/account")
		o.Post("/account/recovery-codes").Shows(http.StatusOK)
		o.Post("/account/sign-out")
		link := f.askFor(o, "/account/forgot", b.Email, "reset-password", 1)
		o.Post("/account/reset", "token", testkit.Token(o.Get(link)), "password", "another-good-phrase-of-words").
			Leads("/account/sign-in")
		require.Equal(t, []string{
			"person.sign_up", "factor.add", "person.sign_in", "person.sign_in_failed", "person.sign_in_failed",
			"factor.reset_asked", "factor.reset_begin",
			"recovery_code.use", "factor.reset_cancel", "person.sign_in", "recovery_code.renew", "session.end",
			"person.password_reset_asked", "person.password_change",
		}, f.Actions(t, b.Account))
		require.Len(t, f.Audit(t), len(f.Actions(t, b.Account)), "nobody else did anything")
	})
}

var codeFields = regexp.MustCompile(`<input type="hidden" name="code" value="([^"]+)">`)

// downloadCodes posts codes back as the form of the page does.
func downloadCodes(b *testkit.Person, codes ...string) testkit.Page {
	var form []string
	for _, c := range codes {
		form = append(form, "code", c)
	}
	return b.Post("/account/recovery-codes/download", form...)
}

func TestShownCodesCanBeDownloaded(t *testing.T) {
	s, b := person(t)
	b.Get("/account/recovery-codes").Shows(http.StatusOK, "10 of ten codes left")
	p := b.Post("/account/recovery-codes").
		Shows(http.StatusOK, "Save them now", "print this page with your browser", "ada@example.org")
	var codes []string
	for _, f := range codeFields.FindAllStringSubmatch(p.Body, -1) {
		codes = append(codes, f[1])
	}
	require.Len(t, codes, people.RecoveryCodeCount)

	file := downloadCodes(b, codes...)
	require.Equal(t, http.StatusOK, file.Status)
	require.Equal(t, "no-store", file.Header.Get("Cache-Control"))
	require.Equal(t, `attachment; filename="opportunity-recovery-codes.txt"`, file.Header.Get("Content-Disposition"))
	require.Equal(t, "text/plain; charset=utf-8", file.Header.Get("Content-Type"))
	require.Contains(t, file.Body, "ada@example.org")
	for _, c := range codes {
		require.Contains(t, file.Body, c)
	}

	s.Advance(time.Minute)
	b.Post("/account/sign-out")
	b.EnterPassword()
	b.Post("/account/sign-in/code", "code", codes[0]).Leads("/account")
	downloadCodes(b, codes...).Shows(http.StatusBadRequest, "no longer valid")
}

// The response must not tell whether a single code is valid, nor turn any text into a file of the
// site.
func TestOnlyWholeSetsAreDownloaded(t *testing.T) {
	_, b := person(t)
	codes := b.Codes
	for _, posted := range [][]string{{}, codes[:1], append(slices.Clone(codes), "x"),
		append(slices.Clone(codes[1:]), "<script>")} {
		require.NotContains(t, downloadCodes(b, posted...).Shows(http.StatusBadRequest, "no longer valid").Body, "<script>")
	}
}

// person returns a site and a person who is signed in.
func person(t *testing.T, adjust ...func(*authquota.Config)) (*sitekit.Site, *testkit.Person) {
	t.Helper()
	s := sitekit.New(t, adjust...)
	return s, s.SignUp("ada@example.org")
}

func TestEveryPageHasTheHeaders(t *testing.T) {
	_, b := person(t)
	for _, p := range []testkit.Page{
		b.Get("/account").Shows(http.StatusOK), b.Get("/account/no-such-page").Shows(http.StatusNotFound),
		b.Send(http.MethodPut, "/account", nil, nil).Shows(http.StatusMethodNotAllowed),
	} {
		require.Equal(t, "no-store", p.Header.Get("Cache-Control"))
		require.Contains(t, p.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "max-age=31536000", p.Header.Get("Strict-Transport-Security"))
	}
}

func TestAccessLevels(t *testing.T) {
	const halfwayPage, signedIn, recent = "/account/lost-authenticator", "/account/keys", "/account/security/close"
	confirm := func(page string) string { return "/account/security/confirm?next=" + url.QueryEscape(page) }
	for name, c := range map[string]struct {
		set                       func(s *sitekit.Site, b *testkit.Person)
		halfway, signedIn, recent string // target of the redirect; empty if the page is shown
	}{
		"without a session": {func(_ *sitekit.Site, b *testkit.Person) { clear(b.Cookies) },
			"/account/sign-in", "/account/sign-in?next=%2Faccount%2Fkeys",
			"/account/sign-in?next=%2Faccount%2Fsecurity%2Fclose"},
		"with an ended session": {func(_ *sitekit.Site, b *testkit.Person) { b.Cookies["__Host-session"] = "of yesterday" },
			"/account/sign-in", "/account/sign-in?next=%2Faccount%2Fkeys",
			"/account/sign-in?next=%2Faccount%2Fsecurity%2Fclose"},
		"halfway": {func(_ *sitekit.Site, b *testkit.Person) {
			clear(b.Cookies)
			b.EnterPassword()
		}, "", "/account/sign-in/code?next=%2Faccount%2Fkeys", "/account/sign-in/code?next=%2Faccount%2Fsecurity%2Fclose"},
		"full": {func(*sitekit.Site, *testkit.Person) {}, "/account", "", ""},
		"full, ten minutes after the last proof": {func(s *sitekit.Site, _ *testkit.Person) { s.Advance(people.RecentProof) },
			"/account", "", confirm(recent)},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := person(t)
			c.set(s, b)
			b.Get("/account/sign-up").Shows(http.StatusOK)
			for path, target := range map[string]string{halfwayPage: c.halfway, signedIn: c.signedIn, recent: c.recent} {
				if p := b.Get(path); target == "" {
					p.Shows(http.StatusOK)
				} else {
					p.Leads(target)
				}
			}
		})
	}
}
