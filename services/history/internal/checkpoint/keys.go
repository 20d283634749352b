package checkpoint

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Config holds the settings for signing and verification keys.
type Config struct {
	SigningKeys []string `env:"OPPORTUNITY_HISTORY_SIGNING_KEY" doc:"Secret. Seeds of the Ed25519 keys that sign checkpoints of the history, 32 bytes in hexadecimal each, newest first. The first key signs; all keys verify. Empty: no checkpoints are made."`
	PublicKeys  []string `env:"OPPORTUNITY_HISTORY_PUBLIC_KEYS" doc:"Public keys of retired signing keys, as checkpoints publish them; signatures of these keys stay valid. Enough for the verb verify, which needs no signing key."`
}

// Keys parses the configured keys.
func (c Config) Keys() (Keys, error) { return ParseKeys(c.SigningKeys, c.PublicKeys) }

// Validate returns an error if a key is malformed. The error never contains a seed.
func (c Config) Validate() error {
	if _, err := c.Keys(); err != nil {
		return fmt.Errorf("OPPORTUNITY_HISTORY_SIGNING_KEY, OPPORTUNITY_HISTORY_PUBLIC_KEYS: %w", err)
	}
	return nil
}

// Keys holds the keys of the log: at most one signing key, and every trusted public key.
type Keys struct {
	signer  note.Signer // nil without a signing key
	trusted note.Verifiers
	public  []string
}

// ParseKeys parses the seeds of Ed25519 signing keys, each 32 bytes in hexadecimal, newest first, and the public keys of retired
// signing keys. The first seed signs; all keys are trusted. The error never contains a seed.
func ParseKeys(seeds, retired []string) (Keys, error) {
	var k Keys
	var verifiers []note.Verifier
	trust := func(public string) error {
		v, err := note.NewVerifier(public)
		if err != nil || v.Name() != Origin {
			return fmt.Errorf("%q is not a public key of %s, such as %s+0badc0de+base64", public, Origin, Origin)
		}
		verifiers = append(verifiers, v)
		k.public = append(k.public, public)
		return nil
	}
	for _, text := range seeds {
		seed, err := hex.DecodeString(strings.TrimSpace(text))
		if err != nil || len(seed) != ed25519.SeedSize {
			return Keys{}, errors.New("signing key must be 32 bytes in hexadecimal")
		}
		public, err := note.NewEd25519VerifierKey(Origin, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
		if err != nil {
			return Keys{}, err
		}
		if k.signer == nil {
			_, rest, _ := strings.Cut(public, "+")
			hash, _, _ := strings.Cut(rest, "+")
			const ed25519Kind = 1
			secret := base64.StdEncoding.EncodeToString(append([]byte{ed25519Kind}, seed...))
			if k.signer, err = note.NewSigner("PRIVATE+KEY+" + Origin + "+" + hash + "+" + secret); err != nil {
				return Keys{}, errors.New("signing key cannot be used") // err may quote the key
			}
		}
		if err := trust(public); err != nil {
			return Keys{}, err
		}
	}
	for _, public := range retired {
		if err := trust(strings.TrimSpace(public)); err != nil {
			return Keys{}, err
		}
	}
	k.trusted = note.VerifierList(verifiers...)
	return k, nil
}

// Signs reports whether a signing key is configured.
func (k Keys) Signs() bool { return k.signer != nil }

// Public returns the trusted public keys, the signing key first, in the format of signed notes: name+hash+base64.
func (k Keys) Public() []string { return k.public }

// Sign returns the signed text of c.
func (k Keys) Sign(c Checkpoint) (string, error) {
	signed, err := note.Sign(&note.Note{Text: c.text()}, k.signer)
	return string(signed), err
}

// Open verifies a signed text and returns its checkpoint. It returns an error unless a trusted key signed the text.
func (k Keys) Open(signed string) (Checkpoint, error) {
	n, err := note.Open([]byte(signed), k.trusted)
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) {
		return Checkpoint{}, errors.New("no key of this history signed it")
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("the signature is not valid: %w", err)
	}
	return parse(n.Text)
}
