package accountpages_test

import (
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

func TestAPasskeyIsTheSecondStep(t *testing.T) {
	f, b := member(t)
	b.Get("/account/security").Shows(http.StatusOK, "You have none yet")
	k := b.AddPasskey(" Key ring ")
	b.Get("/account/security").
		Shows(http.StatusOK, "The passkey “Key ring” was added", "Key ring", "never",
			"Second factor added passkey, Key ring")
	require.Contains(t, f.mail(b.Email, "factor-changed", 1).Text, "“Key ring” was added")

	phone := b.Halfway()
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
}

func TestPasskeyResponseIsSingleUse(t *testing.T) {
	onBoth(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		k := b.AddPasskey("Key ring")
		phone := b.Halfway()
		answer := k.Prove(phone.Get("/account/sign-in/code"))
		statuses := make([]int, 4)
		storetest.Together(len(statuses), func(i int) error {
			statuses[i] = phone.Stolen().Post("/account/sign-in/code", "answer", answer).Status
			return nil
		})
		// later requests find the challenge used or the halfway session ended
		signIns := slices.DeleteFunc(f.Actions(t, b.Account), func(action string) bool { return action != "person.sign_in" })
		require.Len(t, signIns, 2, "the first is from signing up; %v", statuses)

		again := b.Halfway()
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

// What makes a response invalid is tested in package credential.
func TestAPasskeyOfAnotherIsNoProof(t *testing.T) {
	f := onSite(t)
	b, stranger := f.member("ada@example.org"), f.SignUp("grace@example.org")
	mine, theirs := b.AddPasskey("Key ring"), stranger.AddPasskey("Phone")
	phone := b.Halfway()
	const code = "/account/sign-in/code"
	for _, answer := range []string{theirs.Prove(phone.Get(code)),
		theirs.Prove(stranger.Get("/account/security/confirm")), "{}"} {
		phone.Post(code, "answer", answer).Shows(422, "not accepted")
		phone.Get(code)
	}
	phone.Get("/account").Leads(code)
	phone.Post(code, "answer", mine.Prove(phone.Get(code))).Leads("/account")

	// a passkey is registered for one account
	mine.Authenticator.Options.UserHandle = []byte(stranger.Account)
	stranger.Post("/account/security/passkeys", "name", "Mine too", "answer",
		mine.Make(stranger.Get("/account/security/passkeys"))).Shows(422, "not accepted")
}

func TestARemovedPasskeyIsNoProof(t *testing.T) {
	f, b := member(t)
	k := b.AddPasskey("Key ring")
	phone := b.Halfway()
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
}

func TestInvalidPasskeysAreRejected(t *testing.T) {
	_, b := member(t)
	answer := testkit.NewSecurityKey(t, b.Account).Make(b.Get("/account/security/passkeys"))
	b.Post("/account/security/passkeys", "name", "  ", "answer", answer).Shows(422, "The name must not be empty.")
	for _, answer := range []string{answer, ""} { // the challenge was used
		b.Post("/account/security/passkeys", "name", "Key ring", "answer", answer).Shows(422, "not accepted")
	}
	for range credential.MaxPasskeys {
		b.AddPasskey("One of many")
	}
	b.Get("/account/security/passkeys").Leads("/account/security")
	require.NotContains(t, b.Get("/account/security").Body, `href="/account/security/passkeys"`)
}

func TestWithoutAHostNameThereAreNoPasskeys(t *testing.T) {
	_, b := person(t, func(c *authquota.Config) { c.PublicURL = "http://192.0.2.1:8080" })
	b.Get("/account/security").Shows(http.StatusOK, "Passkeys do not work at this address")
	b.Get("/account/security/passkeys").Leads("/account/security")
	b.Send(http.MethodPost, "/account/security/confirm", map[string][]string{"answer": {"{}"}}, nil).
		Shows(422, "not accepted")
}
