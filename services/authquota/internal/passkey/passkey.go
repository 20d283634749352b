// Package passkey is passkeys and security keys as a second factor, by WebAuthn: what is asked of a browser, and whether its answer
// is right.
//
// Each ceremony is an ask and an answer. What was asked must be kept by the caller, for one session, and be taken away as it is
// used, whatever the answer is: a challenge counts once.
package passkey

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"opportunity.internal/pkg/problem"
)

// Passkey is one that a person has added.
type Passkey struct {
	ID      string
	Account string
	Name    string // the person's
	AddedAt time.Time
	UsedAt  *time.Time

	Credential string // its id, as browsers write it; unique among everybody's
	Record     string // what answers are checked with: its public key and its state; no secret
	Count      uint32 // of its uses, as it counts them itself; 0 where it does not count
}

// Most is how many passkeys an account may have.
const Most = 10

// Patience is how long an ask waits for its answer.
const Patience = 10 * time.Minute

// What is asked for. A challenge for one is of no use for the other.
const (
	Add   = "add"   // a new passkey
	Prove = "prove" // the use of one
)

// ErrRefused is the refusal of an answer. What it wraps is for the log.
var ErrRefused = errors.New("the passkey's answer is refused")

// ErrTooMany is the refusal of one more than Most.
var ErrTooMany = errors.New("the account has as many passkeys as it may")

// Owner is whose passkeys they are.
type Owner struct {
	Account, Email string
}

// Name is a name that a person gave, without spaces around it, and whether it can be one: a line of 1 to 60 characters.
func Name(s string) (string, bool) {
	s = strings.TrimSpace(s)
	n := utf8.RuneCountInString(s)
	return s, n >= 1 && n <= 60 && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// NewID makes the id of a passkey.
func NewID() string { return "pky_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "") }

var id = regexp.MustCompile(`^pky_[0-9a-f]{32}$`)

// Known reports whether s has the form of a passkey's id.
func Known(s string) bool { return id.MatchString(s) }

// NotFound is the refusal of a passkey that an account does not have.
func NotFound() error {
	return problem.New(problem.NotFound, "You have no such passkey, or it was removed already.")
}

// Site is where passkeys are used: they are bound to the host that browsers see.
type Site struct {
	library *webauthn.WebAuthn
}

// At makes the Site of a public URL. Where browsers have no passkeys, the Site is not Possible: on an IP address, on a host that is no
// domain name, and without TLS elsewhere than on localhost.
func At(publicURL, name string) Site {
	u, err := url.Parse(publicURL)
	if err != nil {
		return Site{}
	}
	host := u.Hostname()
	if net.ParseIP(host) != nil || u.Scheme != "https" && host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		return Site{}
	}
	library, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: name, RPOrigins: []string{u.Scheme + "://" + u.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return Site{}
	}
	return Site{library}
}

// Possible reports whether passkeys can be used here.
func (s Site) Possible() bool { return s.library != nil }

// AskNew is what a browser is asked for a new passkey, and what must be kept for Added. Authenticators that have one already are
// left out.
func (s Site) AskNew(owner Owner, has []Passkey) (options, kept string, err error) {
	user, err := newUser(owner, has)
	if err != nil {
		return "", "", err
	}
	ask, session, err := s.library.BeginRegistration(user, webauthn.WithExclusions(webauthn.Credentials(user.credentials).CredentialDescriptors()))
	if err != nil {
		return "", "", err
	}
	return both(ask.Response, session)
}

// Added is the passkey that a browser made, without a name. An answer that is not right is ErrRefused.
func (s Site) Added(owner Owner, kept, answer string, now time.Time) (Passkey, error) {
	var session webauthn.SessionData
	if err := json.Unmarshal([]byte(kept), &session); err != nil {
		return Passkey{}, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(answer))
	if err != nil {
		return Passkey{}, refused(err)
	}
	credential, err := s.library.CreateCredential(user{owner: owner}, session, parsed)
	if err != nil {
		return Passkey{}, refused(err)
	}
	credential.Attestation = webauthn.CredentialAttestation{} // tells of the device, and nothing here asks
	p := Passkey{ID: NewID(), Account: owner.Account, AddedAt: now}
	return p, p.keep(*credential)
}

// AskProof is what a browser is asked to prove that it has one of these passkeys, and what must be kept for Proven.
func (s Site) AskProof(owner Owner, has []Passkey) (options, kept string, err error) {
	user, err := newUser(owner, has)
	if err != nil {
		return "", "", err
	}
	ask, session, err := s.library.BeginLogin(user, webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", "", err
	}
	return both(ask.Response, session)
}

// Proven is the passkey that was used, as it must be kept from now on: only where its Count is greater than what is kept, or both
// are 0. An answer that is not right, or of a copied passkey that has counted less, is ErrRefused.
func (s Site) Proven(owner Owner, has []Passkey, kept, answer string, now time.Time) (Passkey, error) {
	var session webauthn.SessionData
	if err := json.Unmarshal([]byte(kept), &session); err != nil {
		return Passkey{}, err
	}
	user, err := newUser(owner, has)
	if err != nil {
		return Passkey{}, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(answer))
	if err != nil {
		return Passkey{}, refused(err)
	}
	credential, err := s.library.ValidateLogin(user, session, parsed)
	if err != nil {
		return Passkey{}, refused(err)
	}
	if credential.Authenticator.CloneWarning {
		return Passkey{}, refused(errors.New("the passkey has counted fewer uses than we have"))
	}
	for i, c := range user.credentials {
		if string(c.ID) == string(credential.ID) {
			used := has[i]
			used.UsedAt = &now
			return used, used.keep(*credential)
		}
	}
	return Passkey{}, refused(errors.New("not one of the account's"))
}

func refused(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) {
		err = errors.New(e.Details) // not DevInfo, which repeats what was sent
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

func both(options any, session *webauthn.SessionData) (string, string, error) {
	ask, err := json.Marshal(options)
	if err != nil {
		return "", "", err
	}
	keep, err := json.Marshal(session)
	return string(ask), string(keep), err
}

func (p *Passkey) keep(c webauthn.Credential) error {
	record, err := json.Marshal(c)
	p.Record, p.Credential, p.Count = string(record), protocol.URLEncodedBase64(c.ID).String(), c.Authenticator.SignCount
	return err
}

// user is an owner as the library asks for it.
type user struct {
	owner       Owner
	credentials []webauthn.Credential // in the order of the passkeys
}

func newUser(owner Owner, has []Passkey) (user, error) {
	u := user{owner, make([]webauthn.Credential, len(has))}
	for i, p := range has {
		if p.Account != owner.Account {
			return u, errors.New("a passkey of another account")
		}
		if err := json.Unmarshal([]byte(p.Record), &u.credentials[i]); err != nil {
			return u, fmt.Errorf("passkey %s: %w", p.ID, err)
		}
	}
	return u, nil
}

func (u user) WebAuthnID() []byte                         { return []byte(u.owner.Account) }
func (u user) WebAuthnName() string                       { return u.owner.Email }
func (u user) WebAuthnDisplayName() string                { return u.owner.Email }
func (u user) WebAuthnCredentials() []webauthn.Credential { return u.credentials }
