package testkit

import "github.com/descope/virtualwebauthn"

// keyLength is the length in bytes of a P-256 key in COSE.
const keyLength = 77

// NewCredential returns a credential with a new P-256 key. The library omits leading zeros of
// coordinates, unlike real devices, so one in 128 of its keys is malformed; NewCredential discards
// these.
func NewCredential() virtualwebauthn.Credential {
	for {
		c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		if len(c.Key.AttestationData()) == keyLength {
			return c
		}
	}
}
