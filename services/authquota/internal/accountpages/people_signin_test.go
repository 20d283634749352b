package accountpages_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

func TestSessionFixationIsPrevented(t *testing.T) {
	_, b := member(t)
	victim := b.Other()
	victim.Cookies["__Host-session"] = "chosen-by-an-attacker"
	victim.EnterPassword().Leads("/account/sign-in/code")
	first := victim.Cookies["__Host-session"]
	require.NotEqual(t, "chosen-by-an-attacker", first)
	victim.Post("/account/sign-in/code", "code", victim.Code()).Leads("/account")
	require.NotEqual(t, first, victim.Cookies["__Host-session"])
	thief := b.Other()
	for _, secret := range []string{first, "chosen-by-an-attacker"} {
		thief.Cookies["__Host-session"] = secret
		thief.Get("/account").Leads("/account/sign-in")
	}
}

func TestNewBrowserSendsMail(t *testing.T) {
	f, b := member(t)
	o := b.Other()
	o.Agent, o.Address = "Mozilla/5.0 (Windows NT 10.0) Chrome/156.0 Safari/537.36", "2001:db8::1"
	o.SignIn()
	m := f.mail(b.Email, "new-sign-in", 1)
	for _, w := range []string{"20 November 2026, 10:01 UTC", "Chrome on Windows", "2001:db8::/48"} {
		require.Contains(t, m.Text, w)
	}
	for _, known := range []*testkit.Person{b, o} { // both are known now
		f.Advance(time.Minute)
		known.Post("/account/sign-out")
		known.SignIn()
	}
	f.Advance(time.Minute)
	third := b.Other()
	third.SignIn()
	require.Contains(t, f.mail(b.Email, "new-sign-in", 2).Text, "10:04 UTC")
}

// atOnce sends from all browsers concurrently.
func atOnce(browsers []*testkit.Person, send func(b *testkit.Person) testkit.Page) []testkit.Page {
	pages := make([]testkit.Page, len(browsers))
	storetest.Together(len(browsers), func(i int) error {
		pages[i] = send(browsers[i])
		return nil
	})
	return pages
}

func count(pages []testkit.Page, status int) (n int) {
	for _, p := range pages {
		if p.Status == status {
			n++
		}
	}
	return n
}

func TestACodeOfTheSetUpWorksOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *feature) {
		b := f.Visitor()
		b.Confirm(f.askFor(b, "/account/sign-up", "ada@example.org", "confirm-address", 1))
		b.Email, b.Password = "ada@example.org", testkit.Password
		browsers := []*testkit.Person{b.Other(), b.Other(), b.Other()}
		shown := map[string]bool{testkit.Seed(b.Get("/account/authenticator")): true}
		for _, o := range browsers {
			o.EnterPassword()
			o.Seed = testkit.Seed(o.Get("/account/authenticator"))
			require.False(t, shown[o.Seed], "what one browser is shown the next must not know")
			for _, secondStep := range []string{"/account/sign-in/code", "/account/lost-authenticator"} {
				o.Get(secondStep).Leads("/account/authenticator")
			}
			shown[o.Seed] = true
		}
		got := atOnce(browsers, func(o *testkit.Person) testkit.Page {
			return o.Post("/account/authenticator", "code", o.Code())
		})
		require.Equal(t, 1, count(got, http.StatusOK))
		for i, o := range browsers {
			if got[i].Status == http.StatusOK {
				b.Seed = o.Seed
			}
		}
		code := b.Code()
		o := b.Halfway()
		o.Post("/account/sign-in/code", "code", code).Shows(http.StatusUnprocessableEntity, "already used")
	})
}

func TestWrongPasswordsDelayOnlyTheirSender(t *testing.T) {
	f := onSite(t)
	b := f.SignUp("ada@example.org")
	for _, email := range []string{"ada@example.org", "unknown@example.org"} {
		thief := f.Visitor()
		thief.Address = "198.51.100.1"
		for i := range 9 { // as the page counts them, without the time of a hash for each
			storetest.Must(f.People.CountAttempt(t.Context(),
				people.AttemptsOnAddress.Of(people.NetworkOf(fmt.Sprintf("198.51.100.%d", i)), email)))(t)
		}
		thief.Address = "198.51.100.9" // the same network
		thief.Post("/account/sign-in", "email", email, "password", "a guess that is wrong").
			Shows(http.StatusUnprocessableEntity, "address or the password is wrong")
		thief.Post("/account/sign-in", "email", email, "password", testkit.Password).
			Shows(http.StatusTooManyRequests, "30 seconds")
	}
	b.Halfway()
	f.Advance(30 * time.Second)
	late := b.Other()
	late.Address = "198.51.100.1"
	late.EnterPassword().Leads("/account/sign-in/code")

	for i := range 100 { // one network tries many addresses
		storetest.Must(f.People.CountAttempt(t.Context(),
			people.AttemptsFromNetwork.Of(people.NetworkOf("192.0.2.1")), people.AttemptsOnAddress.Of("", fmt.Sprint(i))))(t)
	}
	many := f.Visitor()
	many.Address = "192.0.2.1"
	for _, status := range []int{http.StatusUnprocessableEntity, http.StatusTooManyRequests} {
		many.Post("/account/sign-in", "email", "another@example.org", "password", "x").Shows(status)
	}
}

// Responses do not reveal which addresses have an account: not by status, text, headers or cookies.
func TestResponsesDoNotRevealAccounts(t *testing.T) {
	f := onSite(t)
	f.SignUp("ada@example.org")
	for _, form := range []struct {
		path   string
		fields []string
	}{
		{"/account/sign-up", nil}, {"/account/forgot", nil}, {"/account/sign-in", []string{
			"password", "a guess that is wrong",
		}},
	} {
		stranger := f.Visitor()
		known := stranger.Post(form.path, append([]string{"email", "ada@example.org"}, form.fields...)...)
		unknown := stranger.Post(form.path, append([]string{"email", "eve@example.org"}, form.fields...)...)
		for _, own := range []string{"Date", api.RequestIDHeader} {
			known.Header.Del(own)
			unknown.Header.Del(own)
		}
		require.Equal(t, known.Status, unknown.Status, form.path)
		require.Equal(t, known.Header, unknown.Header, form.path)
		require.Equal(t, known.Text(), unknown.Text(), form.path)
		require.Empty(t, stranger.Cookies)
	}
	f.mail("ada@example.org", "already-have-account", 1)
	f.mail("ada@example.org", "reset-password", 1)
	f.mail("eve@example.org", "confirm-address", 1)
	for _, m := range f.sent {
		require.False(t, m.Letter.To == "eve@example.org" && m.Template == "reset-password")
	}
	var purposes []string
	require.NoError(t, f.Raw("SELECT purpose FROM links WHERE used_at IS NULL ORDER BY purpose").Scan(&purposes).Error)
	require.Equal(t, []string{"confirm", "none", "none", "reset"}, purposes,
		"as much is written for one as for the other")
}

// An attacker with the password who tries codes from many networks delays new browsers, but not
// known browsers or open sessions.
func TestAttackerWithPasswordDoesNotDelayOwner(t *testing.T) {
	f, b := member(t)
	guesser := b.Halfway()
	for i := range 101 {
		guesser.Address = fmt.Sprintf("198.51.%d.1", i/10)
		guesser.Post("/account/sign-in/code", "code", guesser.WrongCode()).
			Shows(http.StatusUnprocessableEntity, "The code is wrong")
		if i == 9 {
			guesser.Post("/account/sign-in/code", "code", guesser.WrongCode()).Shows(http.StatusTooManyRequests)
		}
	}
	guesser.Address = "192.0.2.1"
	guesser.Post("/account/sign-in/code", "code", guesser.WrongCode()).Shows(http.StatusTooManyRequests)

	b.Post("/account/security/confirm", "code", b.Code()).Leads("/account/security")
	b.Post("/account/security/password", "current", testkit.Password, "password", otherPassword).
		Leads("/account/security")
	b.Password = otherPassword
	b.Post("/account/sign-out").Leads("/account/sign-in")
	f.Advance(30 * time.Second)
	guesser.Password = otherPassword
	guesser.EnterPassword().Leads("/account/sign-in/code")
	guesser.Post("/account/sign-in/code", "code", guesser.WrongCode()).Shows(http.StatusUnprocessableEntity)
	b.Address = "198.51.0.1" // even from where the guesser is
	b.SignIn()

	// a new browser waits and then signs in
	phone := b.Other()
	phone.Address = "192.0.2.77"
	phone.EnterPassword().Leads("/account/sign-in/code")
	phone.Post("/account/sign-in/code", "code", phone.Code()).Shows(http.StatusTooManyRequests)
	f.Advance(time.Minute)
	phone.Post("/account/sign-in/code", "code", phone.Code()).Leads("/account")
}

// A known browser is delayed by its own attempts only.
func TestAKnownBrowserIsCountedAlone(t *testing.T) {
	f, b := member(t)
	b.Post("/account/sign-out").Leads("/account/sign-in")
	b.EnterPassword().Leads("/account/sign-in/code")
	for i := range 10 {
		b.Address = fmt.Sprintf("198.51.%d.1", i)
		b.Post("/account/sign-in/code", "code", b.WrongCode()).Shows(http.StatusUnprocessableEntity)
	}
	b.Post("/account/sign-in/code", "code", b.Code()).Shows(http.StatusTooManyRequests)
	phone := b.Other()
	phone.SignIn()

	// another account does not know the browser
	grace := f.SignUp("grace@example.org")
	stranger := grace.Other()
	stranger.Cookies["__Host-device"] = phone.Cookies["__Host-device"]
	stranger.EnterPassword().Leads("/account/sign-in/code")
	for range 10 {
		stranger.Post("/account/sign-in/code", "code", stranger.WrongCode()).Shows(http.StatusUnprocessableEntity)
	}
	delete(stranger.Cookies, "__Host-device")
	stranger.Post("/account/sign-in/code", "code", stranger.Code()).Shows(http.StatusTooManyRequests)
}

// Requesting many mails for an address does not block its owner from the forms or from signing in.
// Excess mails are dropped silently.
func TestMailFormsAreNeverBlocked(t *testing.T) {
	f := onSite(t)
	b, bob := f.member("ada@example.org"), f.member("bob@example.org")
	links := func(email string) (n int) {
		require.NoError(t, f.Raw("SELECT count(*) FROM links WHERE email = ?", email).Scan(&n).Error)
		return n
	}
	stranger := f.Visitor()
	before := links(b.Email)
	for i := range 15 {
		stranger.Address = fmt.Sprintf("198.51.%d.1", i)
		stranger.Post("/account/sign-up", "email", "eve@example.org").Leads("/account/sign-up/sent")
		stranger.Post("/account/forgot", "email", b.Email).Leads("/account/forgot/sent")
	}
	require.Equal(t, 10, links("eve@example.org"))
	require.Equal(t, 10, links(b.Email)-before)
	stranger.Get(f.links("eve@example.org", "confirm-address", 1)[0]).Shows(http.StatusOK)
	stranger.Get(f.links(b.Email, "reset-password", 1)[0]).Shows(http.StatusOK)
	half := b.Halfway()
	half.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
	f.mail(b.Email, "authenticator-reset-asked", 1)

	neighbour := b.Other()
	neighbour.Address = "192.0.2.1"
	for i := range 101 {
		neighbour.Post("/account/forgot", "email", fmt.Sprintf("unknown%d@example.org", i)).Leads("/account/forgot/sent")
	}
	neighbour.Post("/account/forgot", "email", "another@example.org").Leads("/account/forgot/sent")
	require.Zero(t, links("another@example.org"))
	had := links(bob.Email)
	neighbour.Post("/account/forgot", "email", bob.Email).Leads("/account/forgot/sent")
	require.Equal(t, had+1, links(bob.Email), "resets of existing accounts have a share of their own")
	neighbour.EnterPassword().Leads("/account/sign-in/code")
}

// Without the key of a seed no code is right. The other second factors still are.
func TestRecoveryCodeSignsInWithoutTheEncryptionKey(t *testing.T) {
	s := sitekit.New(t, func(c *authquota.Config) { c.Encryption = []string{strings.Repeat("a1", 32)} })
	b := s.SignUp("ada@example.org").Halfway()
	b.Post("/account/sign-in/code", "code", b.Code()).Shows(http.StatusInternalServerError)
	require.Contains(t, s.Log.String(), "encryption key missing")
	b.Post("/account/sign-in/code", "code", b.Codes[0]).Leads("/account")
	b.Get("/account").Shows(http.StatusOK)
}

func TestAFormThatIsSentTwice(t *testing.T) {
	const confirm, email = "/account/security/confirm", "/account/security/email"
	f, b := member(t)
	f.Advance(people.RecentProof)
	again := b.Stolen()
	code := b.Code()
	for _, p := range []*testkit.Person{b, again} {
		p.Post(confirm, "code", code, "next", email).Leads(email)
	}
	again.Get("/account").Shows(http.StatusOK)
	// the old secret comes without the proof
	again.Get(email).Leads(confirm + "?next=%2Faccount%2Fsecurity%2Femail")
	b.Get(email).Shows(http.StatusOK)
	f.Advance(people.SecretOverlap)
	again.Get("/account").Leads("/account/sign-in")
	require.NotEmpty(t, again.Cookies["__Host-session"], "the browser may have a newer cookie by now")

	// a new password invalidates the old secret immediately
	again.Cookies["__Host-session"] = b.Cookies["__Host-session"]
	b.Post("/account/security/password", "current", testkit.Password, "password", otherPassword).
		Leads("/account/security")
	again.Get("/account").Leads("/account/sign-in")
	b.Get("/account").Shows(http.StatusOK)

	// the second step, twice: the response to the second form arrives last
	phone := b.Other()
	phone.Password = otherPassword
	phone.EnterPassword().Leads("/account/sign-in/code")
	half := phone.Cookies["__Host-session"]
	f.Advance(people.TouchEvery)
	code = phone.Code()
	phone.Post("/account/sign-in/code", "code", code).Leads("/account")
	full := phone.Cookies["__Host-session"]
	phone.Cookies["__Host-session"] = half
	second := phone.Post("/account/sign-in/code", "code", code).Leads("/account/sign-in")
	require.Empty(t, second.Header.Values("Set-Cookie"))
	phone.Cookies["__Host-session"] = full
	phone.Get("/account/sign-in").Leads("/account")
}

func TestMain(m *testing.M) { sitekit.Main(m, "templates") }

const otherPassword = "marmalade-on-a-quiet-glacier"

// feature is a site whose mails are collected.
type feature struct {
	*sitekit.Site

	t    *testing.T
	sent []mail.Posted // so far
}

// onBoth runs a test of concurrent requests on each database.
func onBoth(t *testing.T, test func(t *testing.T, f *feature)) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		test(t, &feature{Site: sitekit.On(t, db), t: t})
	})
}

// onSite returns a site on SQLite. What depends on the database is tested beside each store.
func onSite(t *testing.T) *feature {
	t.Helper()
	t.Parallel()
	return &feature{Site: sitekit.New(t), t: t}
}

// member returns a site and a person who has been signed in for a minute.
func member(t *testing.T) (*feature, *testkit.Person) {
	t.Helper()
	f := onSite(t)
	return f, f.member("ada@example.org")
}

func (f *feature) member(email string) *testkit.Person {
	f.t.Helper()
	p := f.SignUp(email)
	f.Advance(time.Minute)
	return p
}

// signInAgain takes both steps of signing in.
func (f *feature) signInAgain(p *testkit.Person) {
	f.t.Helper()
	f.Advance(time.Minute) // a code signs in once
	p.SignIn()
}

// mail returns the n-th mail of a template to an address, counted from 1.
func (f *feature) mail(to, template string, n int) mail.Letter {
	f.t.Helper()
	f.sent = append(f.sent, f.TakePosted(f.t)...)
	for _, m := range f.sent {
		if m.Letter.To == to && m.Template == template {
			if n--; n == 0 {
				return m.Letter
			}
		}
	}
	require.FailNow(f.t, "no such mail", "%s to %s", template, to)
	return mail.Letter{}
}

// links returns the paths in a mail.
func (f *feature) links(to, template string, n int) []string {
	f.t.Helper()
	return testkit.Links(f.mail(to, template, n).Text)
}

// askFor submits an address to a page and returns the link in the n-th mail of a template.
func (f *feature) askFor(p *testkit.Person, path, email, template string, n int) string {
	f.t.Helper()
	require.Equal(f.t, http.StatusSeeOther, p.Post(path, "email", email).Status)
	return f.links(email, template, n)[0]
}
