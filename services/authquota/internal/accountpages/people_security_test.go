package accountpages_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// A stolen session lacks a recent proof. Each of these leads to a proof first, and then to the
// page, or to the page with the form.
func TestSensitivePagesNeedRecentProof(t *testing.T) {
	f, b := member(t)
	key := f.Issue(b.Account)
	f.Advance(people.RecentProof)
	before := f.Dump(t)
	const request = "keys/requests/req_0199a7a0000070008000000000000000"
	for path, form := range map[string]string{
		"security/email": "", "security/password": "", "security/authenticator": "", "security/passkeys": "",
		"security/close": "", "security/passkeys/remove": "security/passkeys", "security/sessions/end": "security",
		"security/sessions/end-all": "security", "keys/" + key.ID + "/rotate": "", "keys/" + key.ID + "/revoke": "",
		request + "/collect": "", "keys/connect": "", "plan/upgrade": "", "plan/cancel": "", "plan/portal": "plan",
		"plan/resume": "plan",
	} {
		confirm := "/account/security/confirm?next=" + url.QueryEscape("/account/"+cmp.Or(form, path))
		b.Post("/account/" + path).Leads(confirm)
		if form == "" {
			b.Get("/account/" + path).Leads(confirm)
		}
	}
	b.Post("/account/recovery-codes").Leads("/account/security/confirm?next=%2Faccount%2Frecovery-codes")
	after := f.Dump(t)
	delete(before, "sessions") // when it was last used
	delete(after, "sessions")
	require.Equal(t, before, after, "nothing has happened")
	b.Get("/account/security").Shows(http.StatusOK, "Security", "ada@example.org")
	b.Post("/account/" + request + "/withdraw").Shows(http.StatusNotFound) // needs no proof

	old := b.Stolen()
	b.Get("/account/security/confirm?next=/account/security/password").Shows(http.StatusOK, "Confirm your identity")
	b.Post("/account/security/confirm", "code", b.Code(), "next", "/account/security/password").
		Leads("/account/security/password")
	b.Get("/account/security/password").Shows(http.StatusOK)
	f.Advance(people.SecretOverlap)
	old.Get("/account").Leads("/account/sign-in")

	f.Advance(people.RecentProof)
	b.Post("/account/security/confirm", "password", testkit.Password, "next", "https://evil.example/").
		Leads("/account/security")
	b.Get("/account/security/email").Shows(http.StatusOK)
}

func TestACodeConfirmsOnceAndWrongOnesSlowDownTheirSession(t *testing.T) {
	f, b := member(t)
	phone := b.Other()
	f.signInAgain(phone)
	f.Advance(time.Minute)
	confirm := func(p *testkit.Person, field, value string) testkit.Page {
		return p.Post("/account/security/confirm", field, value)
	}
	confirm(b, "code", b.Codes[0]).Shows(422, "Recovery codes work only at sign-in")
	code := b.Code()
	confirm(b, "code", code).Leads("/account/security")
	confirm(b, "code", code).Shows(422, "already used")
	for range 9 { // one attempt was counted before
		confirm(b, "code", b.WrongCode()).Shows(422, "is wrong")
	}
	require.NotEmpty(t, confirm(b, "code", b.Code()).Shows(http.StatusTooManyRequests).Header.Get("Retry-After"))
	confirm(b, "password", testkit.Password).Shows(http.StatusTooManyRequests)
	confirm(phone, "password", testkit.Password).Leads("/account/security")
	f.Advance(time.Minute)
	confirm(b, "code", b.Code()).Leads("/account/security")
}

func TestThePasswordIsChanged(t *testing.T) {
	f, b := member(t)
	elsewhere := b.Other()
	f.signInAgain(elsewhere)
	reset := f.askFor(b.Other(), "/account/forgot", b.Email, "reset-password", 1)

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
}

func TestAddressIsChangedByMailLink(t *testing.T) {
	f, b := member(t)
	requested := func(email string) (link string) {
		t.Helper()
		b.Post("/account/security/email", "email", email).Leads("/account/security")
		b.Get("/account/security").Shows(http.StatusOK, "Changes to "+email+" when you open the link")
		return f.links(email, "new-address", 1)[0]
	}
	first := requested("first@example.org")
	b.Post("/account/security/email/keep").Leads("/account/security")
	second := requested("second@example.org")
	asked := f.mail(b.Email, "address-change-asked", 2)
	require.Contains(t, asked.Text, "s…@example.org")
	keep := b.Other().Get(testkit.Links(asked.Text)[0]).Shows(http.StatusOK, "Keep your address?")
	for _, status := range []int{http.StatusSeeOther, http.StatusGone} {
		require.Equal(t, status, b.Other().Post("/account/old-address", "token", testkit.Token(keep)).Status)
	}
	third := requested("third@example.org")
	last := requested("lovelace@example.org")
	for _, link := range []string{first, second, third} {
		b.Get(link).Shows(http.StatusGone)
	}
	b.Get("/account").Shows(http.StatusOK, "ada@example.org")

	form := b.Other().Get(last).Shows(http.StatusOK, "lovelace@example.org") // not signed in
	b.Other().Get(last).Shows(http.StatusOK)                                 // opening the link does not use it
	for _, status := range []int{http.StatusSeeOther, http.StatusGone} {
		require.Equal(t, status, b.Other().Post("/account/new-address", "token", testkit.Token(form)).Status)
	}
	b.Get("/account").Shows(http.StatusOK, "lovelace@example.org")
	notice := f.mail("ada@example.org", "address-changed", 1)
	require.Contains(t, notice.Text, "l…@example.org")
	require.NotContains(t, notice.Text, "lovelace@example.org")

	old := b.Other()
	old.EnterPassword().Shows(422)
	old.Email = "lovelace@example.org"
	f.signInAgain(old)
	require.NotContains(t, f.Dump(t)["audit_log"], "lovelace@", "what cannot be deleted has no address")
}

// The form does not reveal whether another account has the address, and a replaced link does not
// work.
func TestTakenAddressIsRevealedOnlyToItsOwner(t *testing.T) {
	f, b := member(t)
	f.SignUp("grace@example.org")
	taken, free := b.Post("/account/security/email", "email", "grace@example.org"),
		b.Post("/account/security/email", "email", "late@example.org")
	require.Equal(t, taken.Status, free.Status)
	require.Equal(t, taken.Header.Get("Location"), free.Header.Get("Location"))
	require.Equal(t, taken.Body, free.Body)
	f.mail("grace@example.org", "already-have-account", 1)
	late := f.links("late@example.org", "new-address", 1)[0]
	token := testkit.Token(b.Get(late).Shows(http.StatusOK))
	overtaking := f.SignUp("late@example.org")
	b.Post("/account/new-address", "token", token).Shows(http.StatusGone)
	b.Get("/account").Shows(http.StatusOK, "ada@example.org")
	overtaking.Get("/account").Shows(http.StatusOK, "late@example.org")
}

func TestTheAuthenticatorIsReplacedOnceTheNewOneHasProvenItself(t *testing.T) {
	onBoth(t, func(t *testing.T, f *feature) {
		const page = "/account/security/authenticator"
		b := f.member("ada@example.org")
		elsewhere := b.Other()
		f.signInAgain(elsewhere)
		b.Post(page, "code", b.Code()).Shows(422, "delete its entry in the app")
		first := b.Get(page).Shows(http.StatusOK)
		require.Regexp(t, `src="data:image/png;base64,[^"]+"`, first.Body)
		require.Equal(t, testkit.Seed(first), testkit.Seed(b.Get(page)), "it may be scanned already")
		require.NotEqual(t, testkit.Seed(first), testkit.Seed(elsewhere.Get(page)), "each browser has its own")
		for range 3 {
			f.Advance(people.RecentProof)
			b.Get("/account")
		}
		b.Post("/account/security/confirm", "password", testkit.Password).Leads("/account/security")
		require.Equal(t, http.StatusOK, b.Send(http.MethodHead, page, nil, nil).Status)
		seed := testkit.Seed(b.Get(page).Shows(http.StatusOK))
		require.NotEqual(t, testkit.Seed(first), seed, "one that was shown long ago has expired")
		newCode := func(seed string) string {
			return storetest.Must(totp.GenerateCode(seed, f.Now()))(t)
		}
		b.Post(page, "code", b.WrongCode()).
			Shows(422, "Enter the one that the app shows now for the QR code on this page.")
		again := b.Post(page, "code", newCode(testkit.Seed(first))).Shows(422, "is wrong")
		require.Equal(t, seed, testkit.Seed(again), "a mistake does not change what is to be scanned")

		// the old one works until then
		b.Post("/account/security/confirm", "code", b.Code()).Leads("/account/security")
		code, oldCode := newCode(seed), b.Code()
		var browsers []*testkit.Person
		for range 3 {
			o := b.Stolen()
			browsers = append(browsers, o)
		}
		replaced := 0
		for _, p := range atOnce(browsers, func(o *testkit.Person) testkit.Page { return o.Post(page, "code", code) }) {
			if p.Header.Get("Location") == "/account/security" {
				replaced++
			}
		}
		require.Equal(t, 1, replaced)
		elsewhere.Get("/account").Leads("/account/sign-in")
		require.Contains(t, f.mail(b.Email, "factor-changed", 1).Text, "authenticator")

		back := b.Other()
		back.Seed = seed
		back.EnterPassword().Leads("/account/sign-in/code")
		back.Post("/account/sign-in/code", "code", oldCode).Shows(422)
		back.Post("/account/sign-in/code", "code", code).Shows(422, "already used")
		f.Advance(time.Minute)
		back.Post("/account/sign-in/code", "code", back.Code()).Leads("/account")
	})
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	f, b := member(t)
	phone := b.Other()
	phone.Agent, phone.Address = "Mozilla/5.0 (iPhone) Version/19.0 Safari/604.1", "2001:db8:7::1"
	f.signInAgain(phone)
	stranger := f.SignUp("grace@example.org")
	end := func(p *testkit.Person, id string) testkit.Page {
		return p.Post("/account/security/sessions/end", "id", id)
	}

	list := b.Get("/account/security").
		Shows(http.StatusOK, "Firefox on Linux", "203.0.113.0/24", "This one", "Safari on iPhone", "2001:db8:7::/48")
	require.Equal(t, 1, strings.Count(list.Body, "This one"))
	id := list.Find(regexp.MustCompile(`name="id" value="(ses_[0-9a-f]+)"`))
	for _, secret := range []string{phone.Cookies["__Host-session"], b.Cookies["__Host-session"]} {
		require.NotContains(t, list.Body, secret)
		require.NotContains(t, list.Body, people.HashSecret(secret))
	}
	end(stranger, id).Shows(http.StatusNotFound)
	phone.Get("/account").Shows(http.StatusOK)
	end(b, id).Leads("/account/security")
	end(b, id).Shows(http.StatusNotFound, "already ended")
	phone.Get("/account").Leads("/account/sign-in")
	b.Get("/account/security").Shows(http.StatusOK, "Signed out")

	f.signInAgain(phone)
	b.Post("/account/security/sessions/end-all").Leads("/account/sign-in")
	require.Empty(t, b.Cookies["__Host-session"])
	phone.Get("/account").Leads("/account/sign-in")
	stranger.Get("/account").Shows(http.StatusOK)

	f.signInAgain(b)
	b.Other().EnterPassword()
	b.Get("/account/security").Shows(http.StatusOK, "password only, not signed in")
	for range 3 {
		f.Advance(people.SessionIdle / 2)
		b.Get("/account")
	}
	require.NotContains(t, b.Get("/account/security").Shows(http.StatusOK).Body, "/account/security/sessions/end\"")
}

func TestAnAccountIsClosed(t *testing.T) {
	f, b := member(t)
	elsewhere := b.Other()
	f.signInAgain(elsewhere)
	key := f.Issue(b.Account)
	reset := f.askFor(b.Other(), "/account/forgot", b.Email, "reset-password", 1)
	require.NotContains(t, b.Get("/account/security/close").Shows(http.StatusOK).Text(), "plan is cancelled")
	f.Suspend(b.Account, "x")
	b.Post("/account/security/close", "email", b.Email).Shows(422, "when it is resumed")
	f.Resume(b.Account)
	before := f.Principal(key.Key)
	b.Post("/account/security/close", "email", " Ada@example.org").Leads("/account/sign-in")

	after := f.Principal(key.Key)
	require.NotNil(t, after.RevokedAt)
	require.Greater(t, after.Epoch, before.Epoch, "gateways that cached the key must notice")
	f.mail(b.Email, "account-closed", 1)
	for _, gone := range []*testkit.Person{b, elsewhere} {
		gone.Get("/account").Leads("/account/sign-in")
	}
	b.Get(reset).Shows(http.StatusGone)
	b.EnterPassword().Shows(422, "address or the password is wrong")
	require.Subset(t, f.Actions(t, b.Account), []string{"key.revoke", "account.close"})
	for table, rows := range f.Dump(t) {
		require.NotContains(t, rows, "ada@example.org", "table %s", table)
		require.False(t, table == "sessions" && strings.Contains(rows, "203.0.113"))
	}
	again := f.Visitor()
	again.Confirm(f.askFor(again, "/account/sign-up", "ada@example.org", "confirm-address", 2))
}

// Links sent to an old address stop working, except those that cancel something.
func TestLinksEndWithTheAddressTheyWentTo(t *testing.T) {
	f, b := member(t)
	half := b.Halfway()
	half.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
	sent := f.links(b.Email, "authenticator-reset-asked", 1)
	reset := f.askFor(half, "/account/forgot", b.Email, "reset-password", 1)
	b.Post("/account/security/email", "email", "lovelace@example.org").Leads("/account/security")
	link := f.links("lovelace@example.org", "new-address", 1)[0]
	b.Post("/account/new-address", "token", testkit.Token(b.Get(link))).Leads("/account/security")
	b.Get(f.links("ada@example.org", "address-change-asked", 1)[0]).Shows(http.StatusGone)
	b.Get(sent[0]).Shows(http.StatusGone)
	b.Get(reset).Shows(http.StatusGone)
	b.Get(sent[1]).Shows(http.StatusOK, "Keep the authenticator?")
}

// Resetting the password also ends the session of the browser, even of another account.
func TestANewPasswordEndsTheBrowsersSession(t *testing.T) {
	f, b := member(t)
	stranger := f.SignUp("grace@example.org")
	link := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 1)
	signedIn := stranger.Stolen()
	signedIn.Get("/account").Shows(http.StatusOK)
	stranger.Post("/account/reset", "token", testkit.Token(stranger.Get(link)), "password", otherPassword).
		Leads("/account/sign-in")
	signedIn.Get("/account").Leads("/account/sign-in")
}

func TestEverySecurityEventIsRecordedAndShown(t *testing.T) {
	f, b := member(t)
	o := b.Other()
	o.Post("/account/sign-in", "email", "unknown@example.org", "password", "a guess that is wrong")
	o.Post("/account/sign-in", "email", b.Email, "password", "a guess that is wrong")
	o.EnterPassword()
	o.Post("/account/sign-in/code", "code", o.WrongCode())
	o.Post("/account/lost-authenticator")
	found := f.links(b.Email, "authenticator-reset-asked", 1)
	o.Post("/account/lost-authenticator/confirm", "token", testkit.Token(o.Get(found[0])))
	o.Post("/account/sign-in/code", "code", o.Codes[0]).Leads("/account")
	o.Post("/account/recovery-codes").Shows(http.StatusOK)
	o.Post("/account/sign-out")
	link := f.askFor(o, "/account/forgot", b.Email, "reset-password", 1)
	o.Post("/account/reset", "token", testkit.Token(o.Get(link)), "password", otherPassword).Leads("/account/sign-in")
	require.Equal(t, []string{
		"person.sign_up", "factor.add", "person.sign_in", "person.sign_in_failed", "person.sign_in_failed",
		"factor.reset_asked", "factor.reset_begin",
		"recovery_code.use", "factor.reset_cancel", "person.sign_in", "recovery_code.renew", "session.end",
		"person.password_reset_asked", "person.password_change",
	}, f.Actions(t, b.Account))
	require.Len(t, f.Audit(t), len(f.Actions(t, b.Account)), "no entry for the unknown address")

	f.Suspend(b.Account, "a secret of operators")
	b.Password = otherPassword
	f.signInAgain(b)
	p := b.Get("/account/security").
		Shows(http.StatusOK, "Account created", "Second factor added authenticator", "Signed in authenticator set-up",
			"Failed to sign in code, ", "2 times in 30 days", "unknown", "Account suspended", "the operator").
		Lacks("a secret of operators")
	require.NotContains(t, p.Text(), testkit.Actor+" ", "operators have no name here")
}

func TestShownCodesCanBeDownloaded(t *testing.T) {
	_, b := person(t)
	b.Get("/account/recovery-codes").Shows(http.StatusOK, "10 of ten codes left")
	p := b.Post("/account/recovery-codes").
		Shows(http.StatusOK, "Save them now", "print this page with your browser", "ada@example.org")
	file := storetest.Must(base64.StdEncoding.DecodeString(p.Find(regexp.MustCompile(
		`href="data:text/plain;charset=utf-8;base64,([^"]+)" download="opportunity-recovery-codes.txt"`))))(t)
	require.Contains(t, string(file), "Account: ada@example.org\r\nCreated: 20 November 2026, 10:00 UTC\r\n")
	shown := codes.FindAllStringSubmatch(p.Body, -1)
	require.Len(t, shown, people.RecoveryCodeCount)
	for i, code := range shown {
		require.Contains(t, string(file), fmt.Sprintf("%2d. %s\r\n", i+1, code[1]))
	}
}

// person returns a site and a person who is signed in.
func person(t *testing.T, adjust ...func(*authquota.Config)) (*sitekit.Site, *testkit.Person) {
	t.Helper()
	s := sitekit.New(t, adjust...)
	return s, s.SignUp("ada@example.org")
}

func TestAccessLevels(t *testing.T) {
	s, b := person(t)
	leads := func(_ string, halfway, signedIn, recent string) { // empty: the page is shown
		t.Helper()
		b.Get("/account/sign-up").Shows(http.StatusOK)
		for path, target := range map[string]string{
			"/account/lost-authenticator": halfway, "/account/keys": signedIn, "/account/security/close": recent,
		} {
			if p := b.Get(path); target == "" {
				p.Shows(http.StatusOK)
			} else {
				p.Leads(target)
			}
		}
	}
	leads("full", "/account", "", "")
	s.Advance(people.RecentProof)
	leads("full, ten minutes after the last proof", "/account", "",
		"/account/security/confirm?next=%2Faccount%2Fsecurity%2Fclose")
	b.Cookies["__Host-session"] = "of yesterday"
	for range 2 {
		leads("with an ended session, and without", "/account/sign-in", "/account/sign-in?next=%2Faccount%2Fkeys",
			"/account/sign-in?next=%2Faccount%2Fsecurity%2Fclose")
		clear(b.Cookies)
	}
	b.EnterPassword()
	leads("halfway", "", "/account/sign-in/code?next=%2Faccount%2Fkeys",
		"/account/sign-in/code?next=%2Faccount%2Fsecurity%2Fclose")
}
