package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

// Passkey is a registered passkey.
type Passkey struct {
	ID      string     `gorm:"primaryKey"`
	Account string     `gorm:"column:account_id"`
	Name    string     // chosen by the person
	AddedAt time.Time  `gorm:"serializer:column"`
	UsedAt  *time.Time `gorm:"serializer:column"`

	Credential string // the credential ID as browsers encode it; globally unique
	Record     string // public key and state, with which responses are verified; not secret
	Count      uint32 // signature counter; 0 if the authenticator has none
}

// MaxPasskeys is the maximum number of passkeys of an account, and MaxPasskeyName the maximum
// length of a name in characters.
const (
	MaxPasskeys    = 10
	MaxPasskeyName = 60
)

// ChallengeLife is the lifetime of a challenge.
const ChallengeLife = 10 * time.Minute

// Purposes of a challenge. A challenge is valid for one purpose only.
const (
	PurposeAdd   = "add"   // register a new passkey
	PurposeProve = "prove" // the use of one
)

// ErrPasskeyRejected is returned for an invalid response. It wraps the reason, for the log.
var ErrPasskeyRejected = errors.New("invalid passkey response")

// ErrTooManyPasskeys is returned when an account already has Most passkeys.
var ErrTooManyPasskeys = errors.New("passkey limit reached (10)")

// PasskeyOwner is the account that the passkeys belong to.
type PasskeyOwner struct {
	Account, Email string
}

// PasskeySite is the relying party of WebAuthn. Passkeys are bound to its host.
//
// A ceremony has two steps: the options sent to the browser and the verification of its response.
// Between them the caller must store the challenge for one session, and delete it on first use
// whether or not verification succeeds.
type PasskeySite struct {
	library *webauthn.WebAuthn
}

// PasskeysAt returns the PasskeySite of a public URL. The PasskeySite does not support passkeys on
// an IP address, on a host that is not a domain name, or without TLS except on localhost.
func PasskeysAt(publicURL, name string) PasskeySite {
	u, err := url.Parse(publicURL)
	if err != nil {
		return PasskeySite{}
	}
	host := u.Hostname()
	if net.ParseIP(host) != nil || u.Scheme != "https" && host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		return PasskeySite{}
	}
	library, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: name, RPOrigins: []string{u.Scheme + "://" + u.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return PasskeySite{}
	}
	return PasskeySite{library}
}

// Possible reports whether browsers support passkeys on this site.
func (s PasskeySite) Possible() bool { return s.library != nil }

// BeginAdd returns the options for registering a new passkey, and the challenge to store for
// FinishAdd. It excludes authenticators that are already registered.
func (s PasskeySite) BeginAdd(owner PasskeyOwner, has []Passkey) (options, challenge string, err error) {
	passkeyUser, err := newUser(owner, has)
	if err != nil {
		return "", "", err
	}
	ask, session, err := s.library.BeginRegistration(passkeyUser,
		webauthn.WithExclusions(webauthn.Credentials(passkeyUser.credentials).CredentialDescriptors()))
	if err != nil {
		return "", "", err
	}
	return encodeBoth(ask.Response, session)
}

// FinishAdd verifies the browser's response and returns the new passkey, without an ID and a name.
// It returns
// ErrPasskeyRejected if the response is invalid.
func (s PasskeySite) FinishAdd(owner PasskeyOwner, challenge, response string, now time.Time) (Passkey, error) {
	var session webauthn.SessionData
	if err := json.Unmarshal([]byte(challenge), &session); err != nil {
		return Passkey{}, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(response))
	if err != nil {
		return Passkey{}, rejectedPasskey(err)
	}
	credential, err := s.library.CreateCredential(passkeyUser{owner: owner}, session, parsed)
	if err != nil {
		return Passkey{}, rejectedPasskey(err)
	}
	credential.Attestation = webauthn.CredentialAttestation{} // identifies the device model, which is not needed
	p := Passkey{Account: owner.Account, AddedAt: now}
	return p, p.setCredential(*credential)
}

// BeginProof returns the options for proving possession of one of the passkeys, and the challenge
// to store for FinishProof.
func (s PasskeySite) BeginProof(owner PasskeyOwner, has []Passkey) (options, challenge string, err error) {
	passkeyUser, err := newUser(owner, has)
	if err != nil {
		return "", "", err
	}
	ask, session, err := s.library.BeginLogin(passkeyUser, webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", "", err
	}
	return encodeBoth(ask.Response, session)
}

// FinishProof verifies the browser's response and returns the used passkey with its new state. Save
// it only if its Count is greater than the stored one or both are 0. FinishProof returns
// ErrPasskeyRejected if the response is invalid or the counter shows a cloned passkey.
func (s PasskeySite) FinishProof(owner PasskeyOwner, has []Passkey, challenge, response string,
	now time.Time) (Passkey, error) {
	var session webauthn.SessionData
	if err := json.Unmarshal([]byte(challenge), &session); err != nil {
		return Passkey{}, err
	}
	passkeyUser, err := newUser(owner, has)
	if err != nil {
		return Passkey{}, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(response))
	if err != nil {
		return Passkey{}, rejectedPasskey(err)
	}
	credential, err := s.library.ValidateLogin(passkeyUser, session, parsed)
	if err != nil {
		return Passkey{}, rejectedPasskey(err)
	}
	if credential.Authenticator.CloneWarning {
		return Passkey{}, rejectedPasskey(errors.New("signature counter is lower than the stored one"))
	}
	for i, c := range passkeyUser.credentials {
		if string(c.ID) == string(credential.ID) {
			used := has[i]
			used.UsedAt = &now
			return used, used.setCredential(*credential)
		}
	}
	return Passkey{}, rejectedPasskey(errors.New("passkey of another account"))
}

func rejectedPasskey(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) {
		err = errors.New(e.Details) // not DevInfo, which repeats the input
	}
	return fmt.Errorf("%w: %w", ErrPasskeyRejected, err)
}

func encodeBoth(options any, session *webauthn.SessionData) (string, string, error) {
	ask, err := json.Marshal(options)
	if err != nil {
		return "", "", err
	}
	keep, err := json.Marshal(session)
	return string(ask), string(keep), err
}

func (p *Passkey) setCredential(c webauthn.Credential) error {
	record, err := json.Marshal(c)
	p.Record, p.Credential, p.Count = string(record), protocol.URLEncodedBase64(c.ID).String(), c.Authenticator.SignCount
	return err
}

// passkeyUser adapts an PasskeyOwner to the library.
type passkeyUser struct {
	owner       PasskeyOwner
	credentials []webauthn.Credential // in the order of the passkeys
}

func newUser(owner PasskeyOwner, has []Passkey) (passkeyUser, error) {
	u := passkeyUser{owner, make([]webauthn.Credential, len(has))}
	for i, p := range has {
		if p.Account != owner.Account {
			return u, errors.New("passkey of another account")
		}
		if err := json.Unmarshal([]byte(p.Record), &u.credentials[i]); err != nil {
			return u, fmt.Errorf("passkey %s: %w", p.ID, err)
		}
	}
	return u, nil
}

func (u passkeyUser) WebAuthnID() []byte                         { return []byte(u.owner.Account) }
func (u passkeyUser) WebAuthnName() string                       { return u.owner.Email }
func (u passkeyUser) WebAuthnDisplayName() string                { return u.owner.Email }
func (u passkeyUser) WebAuthnCredentials() []webauthn.Credential { return u.credentials }
