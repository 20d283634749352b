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

// Config says which keys there are.
type Config struct {
	SigningKeys []string `env:"OPPORTUNITY_HISTORY_SIGNING_KEY" doc:"Secret. Seeds of the Ed25519 keys that sign checkpoints of the history, 32 bytes in hexadecimal each, newest first: the first signs, all are believed. Empty: no checkpoints are made."`
	PublicKeys  []string `env:"OPPORTUNITY_HISTORY_PUBLIC_KEYS" doc:"Public keys that are believed beside these, in the form in which checkpoints publish them: those of signing keys that were taken out. All that verify needs."`
}

// Keys reads the keys.
func (c Config) Keys() (Keys, error) { return ParseKeys(c.SigningKeys, c.PublicKeys) }

// Validate names what is wrong with the keys, without a seed.
func (c Config) Validate() error {
	if _, err := c.Keys(); err != nil {
		return fmt.Errorf("OPPORTUNITY_HISTORY_SIGNING_KEY, OPPORTUNITY_HISTORY_PUBLIC_KEYS: %w", err)
	}
	return nil
}

// Keys are the log's: one that signs, and all that are believed.
type Keys struct {
	signer note.Signer // nil where there is none
	known  note.Verifiers
	public []string
}

// ParseKeys reads the seeds of Ed25519 keys, each 32 bytes in hexadecimal, newest first, and the public keys of those that no
// longer sign. The newest seed signs; all are believed. Its error tells no seed.
func ParseKeys(seeds, retired []string) (Keys, error) {
	var k Keys
	var verifiers []note.Verifier
	believe := func(public string) error {
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
			return Keys{}, errors.New("a signing key must be 32 bytes in hexadecimal")
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
				return Keys{}, errors.New("a signing key cannot be used") // err may quote it
			}
		}
		if err := believe(public); err != nil {
			return Keys{}, err
		}
	}
	for _, public := range retired {
		if err := believe(strings.TrimSpace(public)); err != nil {
			return Keys{}, err
		}
	}
	k.known = note.VerifierList(verifiers...)
	return k, nil
}

// Signs reports whether there is a key to sign with.
func (k Keys) Signs() bool { return k.signer != nil }

// Public are the public keys, the signing one first, in the form of signed notes: name+hash+base64.
func (k Keys) Public() []string { return k.public }

// Sign is the signed text of c.
func (k Keys) Sign(c Checkpoint) (string, error) {
	signed, err := note.Sign(&note.Note{Text: c.text()}, k.signer)
	return string(signed), err
}

// Open is the checkpoint that was signed, if one of the keys signed it.
func (k Keys) Open(signed string) (Checkpoint, error) {
	n, err := note.Open([]byte(signed), k.known)
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) {
		return Checkpoint{}, errors.New("no key of this history signed it")
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("the signature is not valid: %w", err)
	}
	return parse(n.Text)
}
