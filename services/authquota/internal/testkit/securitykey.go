package testkit

import (
	"regexp"
	"testing"

	"github.com/descope/virtualwebauthn"
	"github.com/stretchr/testify/require"
)

// SecurityKey is an authenticator with one passkey, as used by a browser with scripts.
type SecurityKey struct {
	Party         virtualwebauthn.RelyingParty
	Authenticator virtualwebauthn.Authenticator
	Credential    virtualwebauthn.Credential

	t testing.TB
}

// NewSecurityKey returns a key of an account.
func NewSecurityKey(t testing.TB, owner string) *SecurityKey {
	k := &SecurityKey{
		Party:         virtualwebauthn.RelyingParty{Name: "Opportunity Data API", ID: "api.example", Origin: PublicURL},
		Authenticator: virtualwebauthn.NewAuthenticator(), Credential: NewCredential(), t: t,
	}
	k.Authenticator.Options.UserHandle = []byte(owner)
	return k
}

var options = regexp.MustCompile(`data-options="([^"]+)"`)

func optionsOf(p Page) string { return `{"publicKey":` + p.Find(options) + `}` }

// Make returns the response to a page that asks for a new passkey.
func (k *SecurityKey) Make(p Page) string {
	k.t.Helper()
	asked, err := virtualwebauthn.ParseAttestationOptions(optionsOf(p))
	require.NoError(k.t, err)
	return virtualwebauthn.CreateAttestationResponse(k.Party, k.Authenticator, k.Credential, *asked)
}

// Prove returns the response to a page that asks for the passkey.
func (k *SecurityKey) Prove(p Page) string {
	k.t.Helper()
	asked, err := virtualwebauthn.ParseAssertionOptions(optionsOf(p))
	require.NoError(k.t, err)
	k.Credential.Counter++
	return virtualwebauthn.CreateAssertionResponse(k.Party, k.Authenticator, k.Credential, *asked)
}

// AddPasskey adds a passkey to the account and returns its key.
func (p *Person) AddPasskey(name string) *SecurityKey {
	p.t.Helper()
	k := NewSecurityKey(p.t, p.Account)
	p.Post("/account/security/passkeys", "name", name, "answer", k.Make(p.Get("/account/security/passkeys"))).
		Leads("/account/security")
	return k
}
