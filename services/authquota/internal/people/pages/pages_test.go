package pages_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/password"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
)

const goodPassword = "ploughing-under-seven-lanterns"

// goodHash computes the hash of goodPassword once, because that is slow.
var goodHash = sync.OnceValue(func() string {
	hash, err := password.Hash(context.Background(), goodPassword)
	if err != nil {
		panic(err)
	}
	return hash
})

// store is a fake of the stores behind the pages. Only the methods that a test needs are implemented.
type store struct {
	pages.Resets
	pages.Authenticators
	pages.Losses
	pages.Challenges
	pages.Proofs
	pages.AddressLinks
	pages.Replacements

	*sitetest.Site
	hash    string        // of goodPassword
	wait    time.Duration // before the next attempt
	events  []accountview.Event
	failed  []accountview.Event
	pending people.Link
	changes []string
}

func (s *store) change(name string) error {
	s.changes = append(s.changes, name)
	return nil
}

func (s *store) CountAttempt(context.Context, ...people.AttemptSubject) (time.Duration, error) {
	return s.wait, nil
}
func (s *store) KnownDevice(context.Context, string, string) (bool, error) { return true, nil }
func (s *store) EndSession(_ context.Context, _, _ string) error           { return s.change("end session") }
func (s *store) EndSessions(context.Context, string) error                 { return s.change("end sessions") }
func (s *store) OpenSessions(context.Context, string) ([]people.Session, error) {
	return []people.Session{s.Current}, nil
}
func (s *store) RequestSignUp(context.Context, people.FreshLink, mail.Message, mail.Message) error {
	return s.change("request sign-up")
}
func (s *store) SignUp(context.Context, string, string, people.Entry) (people.Admitted, error) {
	return people.Admitted{Session: "new", Device: "device"}, s.change("sign up")
}
func (s *store) Link(_ context.Context, secret string, _ people.LinkPurpose) (people.Link, error) {
	if secret != "valid" {
		return people.Link{}, people.LinkGone()
	}
	return people.Link{Email: "grace@example.org"}, nil
}
func (s *store) Credentials(_ context.Context, email string) (id, hash string, err error) {
	if email != s.Person.Email {
		return "", "", nil
	}
	return s.Person.Account, s.hash, nil
}
func (s *store) Rehash(context.Context, string, string, string) error { return s.change("rehash") }
func (s *store) SignInHalfway(context.Context, string, people.Entry, ...people.AttemptSubject) (people.Admitted, error) {
	return people.Admitted{Session: "halfway"}, s.change("sign in halfway")
}
func (s *store) SignInFailed(context.Context, string, string, people.Client, people.AttemptSubject) error {
	return s.change("sign-in failed")
}
func (s *store) Seed(context.Context, string) (string, error) { return "", nil }
func (s *store) SignInByCode(context.Context, people.Session, people.Entry, int64, ...people.AttemptSubject) (people.Admitted, error) {
	return people.Admitted{}, s.change("sign in by code")
}
func (s *store) SignInByRecoveryCode(context.Context, people.Session, people.Entry, string, ...people.AttemptSubject) (people.Admitted, error) {
	return people.Admitted{Session: "full", Device: "device"}, s.change("sign in by recovery code")
}
func (s *store) NewSeed(context.Context, people.Session) (people.NewSeed, error) {
	return people.NewSeed{Seed: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"}, nil
}
func (s *store) Events(context.Context, string, []string, int) ([]accountview.Event, error) {
	return s.events, nil
}
func (s *store) Failures(context.Context, string, []string, time.Time) ([]accountview.Event, error) {
	return s.failed, nil
}
func (s *store) PasswordHash(context.Context, string) (string, error) { return s.hash, nil }
func (s *store) ChangePassword(context.Context, people.Session, string, string, ...people.AttemptSubject) (string, error) {
	return "new", s.change("change password")
}
func (s *store) RequestAddressChange(context.Context, people.FreshLink, people.FreshLink, mail.Message, mail.Message, mail.Message) error {
	return s.change("request address change")
}
func (s *store) AddressChange(context.Context, string) (people.Link, error) { return s.pending, nil }
func (s *store) CancelAddressChange(context.Context, string) error {
	return s.change("cancel address change")
}
func (s *store) CloseAccount(context.Context, string) error { return s.change("close") }
func (s *store) ConfirmFailed(context.Context, people.Session, string) error {
	return s.change("confirm failed")
}

// start returns a site without passkeys.
func start(t *testing.T) (*sitetest.Site, *store) {
	t.Helper()
	fake := &store{hash: goodHash()}
	fake.Site = sitetest.New(t, func(s *sitetest.Site) []site.Feature {
		fake.Site = s
		p := &pages.Pages{
			PublicURL: sitetest.PublicURL, RelyingParty: passkey.At("http://127.0.0.1", pages.Issuer), TermsVersion: "2", Log: s.Logger(),
			Apply:    func(context.Context, string) error { return nil },
			Sessions: fake, Attempts: fake, Links: fake, SignUps: fake, Passwords: fake, Codes: fake, Resets: fake, Authenticators: fake, Losses: fake,
			Passkeys: noPasskeys{}, Challenges: fake, Proofs: fake, Events: fake, PasswordChanges: fake, AddressChanges: fake, AddressLinks: fake,
			Replacements: fake, Closing: fake,
		}
		return []site.Feature{p.Feature()}
	})
	return fake.Site, fake
}

// noPasskeys is a store of a person without passkeys.
type noPasskeys struct{ passkeys }

type passkeys = pages.Passkeys // a field of this name does not hide the method Passkeys

func (noPasskeys) Passkeys(context.Context, string) ([]passkey.Passkey, error) { return nil, nil }

func TestSignUpForm(t *testing.T) {
	s, store := start(t)
	clear(s.Cookies)
	for _, email := range []string{"", "ada", "ada@example", "ada@example.org\nBcc: x"} {
		s.Post("/account/sign-up", "email", email).Shows(http.StatusUnprocessableEntity, "Enter an e-mail address")
	}
	require.Empty(t, store.changes)
	s.Post("/account/sign-up", "email", " Ada@Example.org ").Leads("/account/sign-up/sent")
	require.Equal(t, []string{"request sign-up"}, store.changes)
	store.wait = time.Hour
	s.Post("/account/sign-up", "email", "ada@example.org").Leads("/account/sign-up/sent")
	require.Len(t, store.changes, 1, "the page does not say that no further mail is sent")
}

func TestPasswordOfANewAccount(t *testing.T) {
	s, store := start(t)
	clear(s.Cookies)
	s.Get("/account/confirm?token=unknown").Shows(http.StatusGone, "This link has expired")
	s.Post("/account/confirm", "token", "unknown", "password", goodPassword).Shows(http.StatusGone)
	form := s.Get("/account/confirm?token=valid").Shows(http.StatusOK, "Choose a password")
	require.NotContains(t, form.Body, "maxlength", "a browser would cut a password without a word")
	for given, message := range map[string]string{
		"short": "Use at least 12 characters", strings.Repeat("walnut-harbour ", 9): "Use at most 128 characters.",
		"grace@example.org": "Do not use your e-mail address", "passwordpassword": "too easy to guess",
	} {
		s.Post("/account/confirm", "token", "valid", "password", given).Shows(http.StatusUnprocessableEntity, message)
	}
	require.Empty(t, store.changes)
	s.Post("/account/confirm", "token", "valid", "password", goodPassword).Leads("/account/authenticator")
	require.Equal(t, "new", s.Cookies["__Host-session"])
	require.Equal(t, "device", s.Cookies["__Host-device"])
}

// A person who cannot set up the authenticator can sign out.
func TestAuthenticatorPageHasASignOut(t *testing.T) {
	s, _ := start(t)
	s.Current.Stage, s.Person.AuthenticatorConfirmed = people.Halfway, false
	require.Contains(t, s.Get("/account/authenticator").Shows(http.StatusOK, "JBSW Y3DP", "Sign out").Body, `action="/account/sign-out"`)
	s.Post("/account/authenticator", "code", "000000").Shows(http.StatusUnprocessableEntity, "Scan the QR code on this page")
	s.Post("/account/sign-out").Leads("/account/sign-in")
	require.Empty(t, s.Cookies["__Host-session"])
}

func TestSignInContinuesToRequestedPage(t *testing.T) {
	s, store := start(t)
	const page = "/account/recovery-codes?x=1"
	signIn := func(path, next string) sitetest.Page {
		delete(s.Cookies, "__Host-session")
		return s.Post(path, "email", s.Person.Email, "password", goodPassword, "next", next)
	}
	code := func(path, next string) sitetest.Page {
		s.Cookies["__Host-session"], s.Current.Stage = sitetest.Secret, people.Halfway
		return s.Post(path, "code", people.GenerateRecoveryCodes()[0], "next", next)
	}
	to := signIn("/account/sign-in", page).Leads("/account/sign-in/code?next=%2Faccount%2Frecovery-codes%3Fx%3D1").Header.Get("Location")
	s.Cookies["__Host-session"], s.Current.Stage = sitetest.Secret, people.Halfway
	require.Contains(t, s.Get(to).Body, `value="`+page+`"`)
	code("/account/sign-in/code", page).Leads(page)
	require.Equal(t, []string{"sign in halfway", "sign in by recovery code"}, store.changes)

	for _, evil := range []string{"https://evil.example", "//evil.example", "/docs", "/account/../docs", "/\\evil.example", "javascript:alert(1)", "/account\r\nX: y"} {
		query := "?next=" + url.QueryEscape(evil)
		signIn("/account/sign-in"+query, evil).Leads("/account/sign-in/code")
		code("/account/sign-in/code"+query, evil).Leads("/account")
		delete(s.Cookies, "__Host-session")
		require.NotContains(t, s.Get("/account/sign-in"+query).Body, `name="next"`, evil)
	}
}

// The response does not reveal whether the address or the password is wrong.
func TestWrongPasswordOrAddress(t *testing.T) {
	s, store := start(t)
	clear(s.Cookies)
	for _, email := range []string{"ada@example.org", "nobody@example.org"} {
		p := s.Post("/account/sign-in", "email", email, "password", "another password").Shows(http.StatusUnprocessableEntity, "The e-mail address or the password is wrong.")
		require.Empty(t, p.Header.Values("Set-Cookie"))
	}
	require.Equal(t, []string{"sign-in failed", "sign-in failed"}, store.changes)
	store.wait = 30 * time.Second
	p := s.Post("/account/sign-in", "email", "ada@example.org", "password", goodPassword).Shows(http.StatusTooManyRequests, "Wait 30 seconds")
	require.Equal(t, "30", p.Header.Get("Retry-After"))
	require.Len(t, store.changes, 2)
}

func TestCookiesAreForThisHostAlone(t *testing.T) {
	s, _ := start(t)
	s.Current.Stage = people.Halfway
	for _, p := range []sitetest.Page{
		s.Post("/account/sign-in/code", "code", people.GenerateRecoveryCodes()[0]), s.Post("/account/sign-out"),
		s.Post("/account/sign-in", "email", s.Person.Email, "password", goodPassword),
	} {
		require.NotEmpty(t, p.Header.Values("Set-Cookie"))
		for _, c := range p.Header.Values("Set-Cookie") {
			require.True(t, strings.HasPrefix(c, "__Host-"), c)
			for _, flag := range []string{"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} {
				require.Contains(t, c, "; "+flag)
			}
			require.NotContains(t, c, "Domain")
		}
	}
}

func TestSensitivePagesNeedRecentProof(t *testing.T) {
	s, store := start(t)
	s.Now = s.Now.Add(people.RecentProof)
	for _, page := range []string{"email", "password", "authenticator", "passkeys", "close"} {
		confirm := "/account/security/confirm?next=%2Faccount%2Fsecurity%2F" + page
		s.Get("/account/security/" + page).Leads(confirm)
		s.Post("/account/security/" + page).Leads(confirm)
	}
	s.Post("/account/security/passkeys/remove", "id", "x").Leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2Fpasskeys")
	for _, act := range []string{"sessions/end", "sessions/end-all"} {
		s.Post("/account/security/"+act, "id", "x").Leads("/account/security/confirm?next=%2Faccount%2Fsecurity")
	}
	s.Get("/account/security").Shows(http.StatusOK, "Security", "ada@example.org")
	require.Empty(t, store.changes)
}

func TestSecurityFormsExplainWrongInput(t *testing.T) {
	s, store := start(t)
	for _, c := range []struct {
		path    string
		fields  []string
		message string
	}{
		{"email", []string{"email", "ada"}, "Enter an e-mail address"},
		{"email", []string{"email", "ADA@example.org"}, "This is already your address."},
		{"password", []string{"current", goodPassword, "password", "short"}, "Use at least 12 characters"},
		{"password", []string{"current", "another one", "password", goodPassword + "!"}, "This is not the password of the account."},
		{"authenticator", []string{"code", "000000"}, "The code is wrong."},
		{"confirm", []string{"password", "another one"}, "This is not the password of the account."},
		{"confirm", []string{"code", people.GenerateRecoveryCodes()[0]}, "Recovery codes work only at sign-in."},
		{"close", []string{"email", "bob@example.org"}, "This is not the e-mail address of the account."},
	} {
		s.Post("/account/security/"+c.path, c.fields...).Shows(http.StatusUnprocessableEntity, "There is a problem", c.message)
	}
	require.Equal(t, []string{"confirm failed", "confirm failed", "confirm failed"}, store.changes)
	s.Post("/account/security/sessions/end", "id", "x").Shows(http.StatusNotFound)
	s.Post("/account/security/passkeys/remove", "id", "x").Shows(http.StatusNotFound)
	s.Get("/account/security/passkeys").Leads("/account/security") // impossible without a host name
}

func TestAccountIsClosedAfterItsAddressWasEntered(t *testing.T) {
	s, store := start(t)
	s.Post("/account/security/close", "email", " Ada@example.org").Leads("/account/sign-in")
	require.Equal(t, []string{"close"}, store.changes)
	require.Empty(t, s.Cookies["__Host-session"])
}

func TestEventsSayWhatHappened(t *testing.T) {
	s, store := start(t)
	at := func(minutes int) time.Time { return s.Now.Add(time.Duration(minutes) * time.Minute) }
	store.events = []accountview.Event{
		{At: at(3), Action: "account.suspend", Detail: map[string]any{"reason": "a secret of operators"}},
		{At: at(2), Action: "factor.add", Own: true, Detail: map[string]any{"factor": "authenticator"}},
		{At: at(1), Action: "person.sign_up", Own: true},
	}
	store.failed = []accountview.Event{{At: at(4), Action: "person.sign_in_failed", Times: 25, Detail: map[string]any{"with": "code", "agent": "Firefox on Linux", "network": "198.51.2.0/24"}}}
	s.Person.Terms = &account.Terms{Version: "1", AcceptedAt: s.Now}
	p := s.Get("/account/security").Shows(http.StatusOK, "Account created", "Second factor added authenticator", "Account suspended", "the operator",
		"Failed to sign in code, Firefox on Linux, 198.51.2.0/24, 25 times in 30 days", "You accepted version 1", "Version 2 is in effect now.")
	require.NotContains(t, p.Text(), "a secret of operators")
	require.Less(t, strings.Index(p.Text(), "Failed to sign in"), strings.Index(p.Text(), "Account suspended"), "the last first")
}

func TestSignOutEndsTheSession(t *testing.T) {
	s, store := start(t)
	s.Post("/account/sign-out").Leads("/account/sign-in")
	require.Equal(t, []string{"end session"}, store.changes)
	s.Outage = problem.Unavailable(context.DeadlineExceeded)
	s.Post("/account/sign-out").Shows(http.StatusServiceUnavailable)
}
