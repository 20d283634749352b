package authquota_test

import (
	"html"
	"net/http"
	"regexp"
	"sync"
	"testing"

	"github.com/descope/virtualwebauthn"
	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/people/passkey"
	"opportunity.internal/services/authquota/internal/people/passkey/passkeytest"
	"opportunity.internal/services/authquota/internal/people/session"
)

// securityKey is an authenticator with one passkey, as used by a browser with scripts.
type securityKey struct {
	t             testing.TB
	party         virtualwebauthn.RelyingParty
	authenticator virtualwebauthn.Authenticator
	credential    virtualwebauthn.Credential
}

func newSecurityKey(t testing.TB, owner string) *securityKey {
	k := &securityKey{
		t: t, party: virtualwebauthn.RelyingParty{Name: "Opportunity Data API", ID: "api.example", Origin: "https://api.example"},
		authenticator: virtualwebauthn.NewAuthenticator(), credential: passkeytest.NewCredential(),
	}
	k.authenticator.Options.UserHandle = []byte(owner)
	return k
}

var asked = regexp.MustCompile(`data-options="([^"]+)"`)

// options returns the WebAuthn options in the form of a page.
func (p page) options() string {
	p.t.Helper()
	found := asked.FindStringSubmatch(p.body)
	require.NotNil(p.t, found, "%s", p.body)
	return `{"publicKey":` + html.UnescapeString(found[1]) + `}`
}

func (k *securityKey) make(p page) string {
	k.t.Helper()
	options, err := virtualwebauthn.ParseAttestationOptions(p.options())
	require.NoError(k.t, err)
	return virtualwebauthn.CreateAttestationResponse(k.party, k.authenticator, k.credential, *options)
}

func (k *securityKey) prove(p page) string {
	k.t.Helper()
	options, err := virtualwebauthn.ParseAssertionOptions(p.options())
	require.NoError(k.t, err)
	k.credential.Counter++
	return virtualwebauthn.CreateAssertionResponse(k.party, k.authenticator, k.credential, *options)
}

// addPasskey adds a passkey to the account.
func (b *browser) addPasskey(name string) *securityKey {
	b.svc.t.Helper()
	k := newSecurityKey(b.svc.t, b.account)
	b.post("/account/security/passkeys", "name", name, "answer", k.make(b.get("/account/security/passkeys"))).leads("/account/security")
	return k
}

func TestAPasskeyIsTheSecondStep(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		b.get("/account/security").shows(http.StatusOK, "You have none yet")
		k := b.addPasskey(" Key ring ")
		b.get("/account/security").shows(http.StatusOK, "The passkey “Key ring” was added", "Key ring", "never", "Second factor added passkey, Key ring")
		require.Contains(t, b.svc.mail(b.email, "factor-changed", 1).plain, "“Key ring” was added")

		phone := b.other()
		phone.enterPassword().leads("/account/sign-in/code")
		form := phone.get("/account/sign-in/code").shows(http.StatusOK, "Use a passkey")
		halfway := phone.cookies["__Host-session"]
		phone.post("/account/sign-in/passkey", "answer", k.prove(form)).leads("/account")
		require.NotEqual(t, halfway, phone.cookies["__Host-session"])
		phone.get("/account/security").shows(http.StatusOK, "Signed in passkey")

		// and the proof before a sensitive action
		clock.move(session.RecentProof)
		confirm := phone.get("/account/security/confirm").shows(http.StatusOK)
		old := phone.cookies["__Host-session"]
		phone.post("/account/security/confirm", "answer", k.prove(confirm), "next", "/account/security/email").leads("/account/security/email")
		phone.get("/account/security/email").shows(http.StatusOK)
		require.NotEqual(t, old, phone.cookies["__Host-session"])
		require.NotContains(t, b.svc.log.String(), k.prove(confirm)[:40])
	})
}

func TestPasskeyResponseIsSingleUse(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		k := b.addPasskey("Key ring")
		phone := b.other()
		phone.enterPassword()
		answer := k.prove(phone.get("/account/sign-in/code"))
		statuses := make([]int, 4)
		var all sync.WaitGroup
		for i := range statuses {
			all.Go(func() {
				o := phone.other()
				o.cookies["__Host-session"] = phone.cookies["__Host-session"]
				statuses[i] = o.post("/account/sign-in/passkey", "answer", answer).status
			})
		}
		all.Wait()
		// later requests find the challenge used or the halfway session ended
		in := 0
		require.NoError(t, s.open(t).Raw("SELECT count(*) FROM audit_log WHERE action = 'person.sign_in' AND detail LIKE '%passkey%'").Scan(&in).Error)
		require.Equal(t, 1, in, "%v", statuses)

		again := b.other()
		again.enterPassword()
		again.get("/account/sign-in/code")
		again.post("/account/sign-in/passkey", "answer", answer).shows(422, "not accepted")
		again.post("/account/sign-in/passkey", "answer", k.prove(b.get("/account/security/confirm"))).shows(422, "not accepted")

		// of two challenges the last one counts, for a limited time
		first, second := again.get("/account/sign-in/code"), again.get("/account/sign-in/code")
		again.post("/account/sign-in/passkey", "answer", k.prove(first)).shows(422, "not accepted")
		again.post("/account/sign-in/passkey", "answer", k.prove(second)).shows(422, "not accepted")
		confirm := b.get("/account/security/confirm")
		clock.move(passkey.ChallengeLife)
		b.post("/account/security/confirm", "answer", k.prove(confirm)).shows(422, "not accepted")
	})
}

func TestAPasskeyOfAnotherIsNoProof(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		mine := b.addPasskey("Key ring")
		stranger := b.svc.browser()
		stranger.signUp("grace@example.org")
		theirs := stranger.addPasskey("Phone")

		phone := b.other()
		phone.enterPassword()
		phone.post("/account/sign-in/passkey", "answer", theirs.prove(phone.get("/account/sign-in/code"))).shows(422, "not accepted")
		phone.post("/account/sign-in/passkey", "answer", theirs.prove(stranger.get("/account/security/confirm"))).shows(422, "not accepted")
		theirs.credential.ID = mine.credential.ID
		theirs.authenticator.Options.UserHandle = []byte(b.account)
		phone.post("/account/sign-in/passkey", "answer", theirs.prove(phone.get("/account/sign-in/code"))).shows(422, "not accepted")
		elsewhere := *mine
		elsewhere.party.Origin = "https://api.example.evil.example"
		phone.post("/account/sign-in/passkey", "answer", elsewhere.prove(phone.get("/account/sign-in/code"))).shows(422, "not accepted")
		silent := *mine
		silent.authenticator.Options.UserNotVerified = true
		phone.post("/account/sign-in/passkey", "answer", silent.prove(phone.get("/account/sign-in/code"))).shows(422, "not accepted")
		for _, rubbish := range []string{"x", "{}", `{"id":"AA","rawId":"AA","type":"public-key","response":{}}`} {
			phone.get("/account/sign-in/code")
			phone.post("/account/sign-in/passkey", "answer", rubbish).shows(422, "not accepted")
		}
		phone.get("/account").leads("/account/sign-in/code")
		phone.post("/account/sign-in/passkey", "answer", mine.prove(phone.get("/account/sign-in/code"))).leads("/account")

		// a passkey is registered for one account
		clock.move(session.RecentProof - 2*session.TouchEvery)
		mine.authenticator.Options.UserHandle = []byte(stranger.account)
		stranger.post("/account/security/passkeys", "name", "Mine too", "answer", mine.make(stranger.get("/account/security/passkeys"))).shows(422, "not accepted")
	})
}

func TestClonedPasskeyCannotSignIn(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		k := b.addPasskey("Key ring")
		copied := *k
		for range 3 {
			b.post("/account/security/confirm", "answer", k.prove(b.get("/account/security/confirm"))).leads("/account/security")
		}
		b.post("/account/security/confirm", "answer", copied.prove(b.get("/account/security/confirm"))).shows(422, "not accepted")
		b.post("/account/security/confirm", "answer", k.prove(b.get("/account/security/confirm"))).leads("/account/security")
	})
}

func TestARemovedPasskeyIsNoProof(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		k := b.addPasskey("Key ring")
		phone := b.other()
		phone.enterPassword()
		form := phone.get("/account/sign-in/code")
		id := regexp.MustCompile(`name="id" value="(pky_[0-9a-f]+)"`).FindStringSubmatch(b.get("/account/security").body)[1]
		stranger := b.svc.browser()
		stranger.signUp("grace@example.org")
		stranger.post("/account/security/passkeys/remove", "id", id).shows(http.StatusNotFound)
		for _, bad := range []string{"", "x", id + "\x00", "pky_\xff"} {
			b.post("/account/security/passkeys/remove", "id", bad).shows(http.StatusNotFound)
			b.post("/account/security/sessions/end", "id", bad).shows(http.StatusNotFound)
		}
		b.get("/account/security").shows(http.StatusOK, "Key ring")
		b.post("/account/security/passkeys/remove", "id", id).leads("/account/security")
		b.post("/account/security/passkeys/remove", "id", id).shows(http.StatusNotFound, "already removed")
		b.get("/account/security").shows(http.StatusOK, "You have none yet", "Second factor removed passkey, Key ring")
		require.Contains(t, b.svc.mail(b.email, "factor-changed", 2).plain, "“Key ring” was removed")
		phone.post("/account/sign-in/passkey", "answer", k.prove(form)).shows(422, "not accepted")
		require.NotContains(t, phone.get("/account/sign-in/code").body, "data-options")
		phone.get("/account").leads("/account/sign-in/code")
	})
}

func TestInvalidPasskeysAreRejected(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		k := newSecurityKey(t, b.account)
		answer := k.make(b.get("/account/security/passkeys"))
		b.post("/account/security/passkeys", "name", "  ", "answer", answer).shows(422, "Enter a name")
		b.post("/account/security/passkeys", "name", "Key ring", "answer", answer).shows(422, "not accepted") // the challenge was used
		b.post("/account/security/passkeys", "name", "Key ring").shows(422, "not accepted")
		k.party.ID = "evil.example"
		b.post("/account/security/passkeys", "name", "Key ring", "answer", k.make(b.get("/account/security/passkeys"))).shows(422, "not accepted")
		for range passkey.MaxPasskeys {
			b.addPasskey("One of many")
		}
		b.get("/account/security/passkeys").leads("/account/security")
		require.NotContains(t, b.get("/account/security").body, `href="/account/security/passkeys"`)
	})
}

// Removing a lost authenticator also removes the passkeys, which may have been on the same device.
func TestPasskeysEndWithALostAuthenticator(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		b.addPasskey("Key ring")
		half := b.other()
		half.enterPassword()
		require.Equal(t, http.StatusSeeOther, half.post("/account/lost-authenticator").status)
		link := b.svc.mail(b.email, "authenticator-reset-asked", 1).links()[0]
		half.post("/account/lost-authenticator/confirm", "token", half.get(link).token()).leads("/account/sign-in")
		clock.move(73 * session.Life)
		half.enterPassword()
		half.get("/account").leads("/account/authenticator")
		n := -1
		require.NoError(t, s.open(t).Raw("SELECT count(*) FROM passkeys").Scan(&n).Error)
		require.Zero(t, n)
	})
}

func TestWithoutAHostNameThereAreNoPasskeys(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t, func(c *authquota.Config) { c.PublicURL = "http://192.0.2.1:8080" })
		b := svc.browser()
		b.signIn("ada@example.org")
		b.get("/account/security").shows(http.StatusOK, "Passkeys do not work at this address")
		b.get("/account/security/passkeys").leads("/account/security")
		b.send(http.MethodPost, "/account/security/confirm", map[string][]string{"answer": {"{}"}}, nil).shows(422, "not accepted")
	})
}
