package testkit

import (
	"regexp"
	"testing"

	"github.com/descope/virtualwebauthn"
	"opportunity.internal/pkg/storetest"
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
		Authenticator: virtualwebauthn.NewAuthenticator(), Credential: newCredential(), t: t,
	}
	k.Authenticator.Options.UserHandle = []byte(owner)
	return k
}

var options = regexp.MustCompile(`data-options="([^"]+)"`)

// Make returns the response to a page that asks for a new passkey.
func (k *SecurityKey) Make(p Page) string { return k.Create(p.Find(options)) }

// Create returns the response to options for a new passkey.
func (k *SecurityKey) Create(options string) string {
	k.t.Helper()
	asked := storetest.Must(virtualwebauthn.ParseAttestationOptions(`{"publicKey":` + options + `}`))(k.t)
	return virtualwebauthn.CreateAttestationResponse(k.Party, k.Authenticator, k.Credential, *asked)
}

// Prove returns the response to a page that asks for the passkey.
func (k *SecurityKey) Prove(p Page) string {
	k.Credential.Counter++
	return k.Answer(p.Find(options))
}

// Answer returns the response to options for the passkey. It does not count.
func (k *SecurityKey) Answer(options string) string {
	k.t.Helper()
	asked := storetest.Must(virtualwebauthn.ParseAssertionOptions(`{"publicKey":` + options + `}`))(k.t)
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

// newCredential returns a credential with a new P-256 key. The library omits leading zeros of
// coordinates, unlike real devices, so one in 128 of its keys is malformed; newCredential discards
// these.
func newCredential() virtualwebauthn.Credential {
	const keyLength = 77 // in COSE
	for {
		c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		if len(c.Key.AttestationData()) == keyLength {
			return c
		}
	}
}
