package accountpages_test

import (
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

func TestAPasskeyIsTheSecondStep(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		b.Get("/account/security").Shows(http.StatusOK, "You have none yet")
		k := b.AddPasskey(" Key ring ")
		b.Get("/account/security").
			Shows(http.StatusOK, "The passkey “Key ring” was added", "Key ring", "never",
				"Second factor added passkey, Key ring")
		require.Contains(t, f.mail(b.Email, "factor-changed", 1).Text, "“Key ring” was added")

		phone := b.Other()
		phone.EnterPassword().Leads("/account/sign-in/code")
		form := phone.Get("/account/sign-in/code").Shows(http.StatusOK, "Use a passkey")
		halfway := phone.Cookies["__Host-session"]
		phone.Post("/account/sign-in/code", "answer", k.Prove(form)).Leads("/account")
		require.NotEqual(t, halfway, phone.Cookies["__Host-session"])
		phone.Get("/account/security").Shows(http.StatusOK, "Signed in passkey")

		// and the proof before a sensitive action
		f.Advance(people.RecentProof)
		confirm := phone.Get("/account/security/confirm").Shows(http.StatusOK)
		old := phone.Cookies["__Host-session"]
		phone.Post("/account/security/confirm", "answer", k.Prove(confirm), "next", "/account/security/email").
			Leads("/account/security/email")
		phone.Get("/account/security/email").Shows(http.StatusOK)
		require.NotEqual(t, old, phone.Cookies["__Host-session"])
		require.NotContains(t, f.Log.String(), k.Prove(confirm)[:40])
	})
}

func TestPasskeyResponseIsSingleUse(t *testing.T) {
	onBoth(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		k := b.AddPasskey("Key ring")
		phone := b.Other()
		phone.EnterPassword()
		answer := k.Prove(phone.Get("/account/sign-in/code"))
		statuses := make([]int, 4)
		var all sync.WaitGroup
		for i := range statuses {
			all.Go(func() {
				o := phone.Other()
				o.Cookies["__Host-session"] = phone.Cookies["__Host-session"]
				statuses[i] = o.Post("/account/sign-in/code", "answer", answer).Status
			})
		}
		all.Wait()
		// later requests find the challenge used or the halfway session ended
		signIns := slices.DeleteFunc(f.Actions(t, b.Account), func(action string) bool { return action != "person.sign_in" })
		require.Len(t, signIns, 2, "the first is from signing up; %v", statuses)

		again := b.Other()
		again.EnterPassword()
		again.Get("/account/sign-in/code")
		again.Post("/account/sign-in/code", "answer", answer).Shows(422, "not accepted")
		again.Post("/account/sign-in/code", "answer", k.Prove(b.Get("/account/security/confirm"))).
			Shows(422, "not accepted")

		// of two challenges the last one counts, for a limited time
		first, second := again.Get("/account/sign-in/code"), again.Get("/account/sign-in/code")
		again.Post("/account/sign-in/code", "answer", k.Prove(first)).Shows(422, "not accepted")
		again.Post("/account/sign-in/code", "answer", k.Prove(second)).Shows(422, "not accepted")
		confirm := b.Get("/account/security/confirm")
		f.Advance(credential.ChallengeLife)
		b.Post("/account/security/confirm", "answer", k.Prove(confirm)).Shows(422, "not accepted")
	})
}

func TestAPasskeyOfAnotherIsNoProof(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		mine := b.AddPasskey("Key ring")
		stranger := f.SignUp("grace@example.org")
		theirs := stranger.AddPasskey("Phone")

		phone := b.Other()
		phone.EnterPassword()
		phone.Post("/account/sign-in/code", "answer", theirs.Prove(phone.Get("/account/sign-in/code"))).
			Shows(422, "not accepted")
		phone.Post("/account/sign-in/code", "answer", theirs.Prove(stranger.Get("/account/security/confirm"))).
			Shows(422, "not accepted")
		theirs.Credential.ID = mine.Credential.ID
		theirs.Authenticator.Options.UserHandle = []byte(b.Account)
		phone.Post("/account/sign-in/code", "answer", theirs.Prove(phone.Get("/account/sign-in/code"))).
			Shows(422, "not accepted")
		elsewhere := *mine
		elsewhere.Party.Origin = "https://api.example.evil.example"
		phone.Post("/account/sign-in/code", "answer", elsewhere.Prove(phone.Get("/account/sign-in/code"))).
			Shows(422, "not accepted")
		silent := *mine
		silent.Authenticator.Options.UserNotVerified = true
		phone.Post("/account/sign-in/code", "answer", silent.Prove(phone.Get("/account/sign-in/code"))).
			Shows(422, "not accepted")
		for _, rubbish := range []string{"x", "{}", `{"id":"AA","rawId":"AA","type":"public-key","response":{}}`} {
			phone.Get("/account/sign-in/code")
			phone.Post("/account/sign-in/code", "answer", rubbish).Shows(422, "not accepted")
		}
		phone.Get("/account").Leads("/account/sign-in/code")
		phone.Post("/account/sign-in/code", "answer", mine.Prove(phone.Get("/account/sign-in/code"))).Leads("/account")

		// a passkey is registered for one account
		f.Advance(people.RecentProof - 2*people.TouchEvery)
		mine.Authenticator.Options.UserHandle = []byte(stranger.Account)
		stranger.Post("/account/security/passkeys", "name", "Mine too", "answer",
			mine.Make(stranger.Get("/account/security/passkeys"))).Shows(422, "not accepted")
	})
}

func TestARemovedPasskeyIsNoProof(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		k := b.AddPasskey("Key ring")
		phone := b.Other()
		phone.EnterPassword()
		form := phone.Get("/account/sign-in/code")
		id := regexp.MustCompile(`name="id" value="(pky_[0-9a-f]+)"`).FindStringSubmatch(b.Get("/account/security").Body)[1]
		stranger := f.SignUp("grace@example.org")
		stranger.Post("/account/security/passkeys/remove", "id", id).Shows(http.StatusNotFound)
		for _, bad := range []string{"", "x", id + "\x00", "pky_\xff"} {
			b.Post("/account/security/passkeys/remove", "id", bad).Shows(http.StatusNotFound)
			b.Post("/account/security/sessions/end", "id", bad).Shows(http.StatusNotFound)
		}
		b.Get("/account/security").Shows(http.StatusOK, "Key ring")
		b.Post("/account/security/passkeys/remove", "id", id).Leads("/account/security")
		b.Post("/account/security/passkeys/remove", "id", id).Shows(http.StatusNotFound, "already removed")
		b.Get("/account/security").Shows(http.StatusOK, "You have none yet", "Second factor removed passkey, Key ring")
		require.Contains(t, f.mail(b.Email, "factor-changed", 2).Text, "“Key ring” was removed")
		phone.Post("/account/sign-in/code", "answer", k.Prove(form)).Shows(422, "not accepted")
		require.NotContains(t, phone.Get("/account/sign-in/code").Body, "data-options")
		phone.Get("/account").Leads("/account/sign-in/code")
	})
}

func TestInvalidPasskeysAreRejected(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		k := testkit.NewSecurityKey(t, b.Account)
		answer := k.Make(b.Get("/account/security/passkeys"))
		b.Post("/account/security/passkeys", "name", "  ", "answer", answer).Shows(422, "The name must not be empty.")
		// the challenge was used
		b.Post("/account/security/passkeys", "name", "Key ring", "answer", answer).Shows(422, "not accepted")
		b.Post("/account/security/passkeys", "name", "Key ring").Shows(422, "not accepted")
		k.Party.ID = "evil.example"
		b.Post("/account/security/passkeys", "name", "Key ring", "answer", k.Make(b.Get("/account/security/passkeys"))).
			Shows(422, "not accepted")
		for range credential.MaxPasskeys {
			b.AddPasskey("One of many")
		}
		b.Get("/account/security/passkeys").Leads("/account/security")
		require.NotContains(t, b.Get("/account/security").Body, `href="/account/security/passkeys"`)
	})
}

// Removing a lost authenticator also removes the passkeys, which may have been on the same device.
func TestPasskeysEndWithALostAuthenticator(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		b.AddPasskey("Key ring")
		half := b.Other()
		half.EnterPassword()
		require.Equal(t, http.StatusSeeOther, half.Post("/account/lost-authenticator").Status)
		link := f.mail(b.Email, "authenticator-reset-asked", 1).links()[0]
		half.Post("/account/lost-authenticator/confirm", "token", testkit.Token(half.Get(link))).Leads("/account/sign-in")
		f.Advance(73 * people.SessionLife)
		half.EnterPassword()
		half.Get("/account").Leads("/account/authenticator")
		left, err := f.People.Passkeys(t.Context(), b.Account)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

func TestWithoutAHostNameThereAreNoPasskeys(t *testing.T) {
	_, b := person(t, func(c *authquota.Config) { c.PublicURL = "http://192.0.2.1:8080" })
	b.Get("/account/security").Shows(http.StatusOK, "Passkeys do not work at this address")
	b.Get("/account/security/passkeys").Leads("/account/security")
	b.Send(http.MethodPost, "/account/security/confirm", map[string][]string{"answer": {"{}"}}, nil).
		Shows(422, "not accepted")
}
