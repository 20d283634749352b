// Package cosignature implements the Ed25519 cosignatures of transparency log checkpoints (C2SP tlog-cosignature): a witness states the time
// at which it verified that a checkpoint extends everything that it has seen of the log. Both types implement the interfaces of
// golang.org/x/mod/sumdb/note, so a cosignature is a further signature of the checkpoint's note.
package cosignature

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

const (
	kind     = 4 // of Ed25519 cosignatures in key ids and verifier keys
	timeSize = 8 // bytes of the time before the signature
)

// PublicKey returns the verifier key of a witness, name+id+base64.
func PublicKey(name string, key ed25519.PublicKey) string {
	return fmt.Sprintf("%s+%08x+%s", name, keyHash(name, key), base64.StdEncoding.EncodeToString(append([]byte{kind}, key...)))
}

func keyHash(name string, key ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"+string(rune(kind))), key...))
	return binary.BigEndian.Uint32(sum[:])
}

// message returns the message of a cosignature of text at a time in seconds since 1970 UTC.
func message(text []byte, seconds uint64) []byte {
	return append([]byte("cosignature/v1\ntime "+strconv.FormatUint(seconds, 10)+"\n"), text...)
}

// Verifier verifies the cosignatures of one witness.
type Verifier struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

// NewVerifier returns the verifier of a verifier key.
func NewVerifier(public string) (Verifier, error) {
	name, rest, _ := strings.Cut(public, "+")
	id, encoded, _ := strings.Cut(rest, "+")
	data, err := base64.StdEncoding.DecodeString(encoded)
	v := Verifier{name: name}
	if err == nil && len(data) == 1+ed25519.PublicKeySize && data[0] == kind {
		v.key = data[1:]
		v.hash = keyHash(name, v.key)
	}
	if name == "" || v.key == nil || PublicKey(name, v.key) != public || id == "" || strings.ContainsAny(name, " \n\t") {
		return Verifier{}, fmt.Errorf("%q is not the key of a witness, such as witness.example+0badc0de+base64 of type 4 (Ed25519)", public)
	}
	return v, nil
}

// Name implements note.Verifier.
func (v Verifier) Name() string { return v.name }

// KeyHash implements note.Verifier.
func (v Verifier) KeyHash() uint32 { return v.hash }

// Verify implements note.Verifier.
func (v Verifier) Verify(text, signature []byte) bool {
	if len(signature) != timeSize+ed25519.SignatureSize {
		return false
	}
	seconds := binary.BigEndian.Uint64(signature)
	return seconds>>63 == 0 && ed25519.Verify(v.key, message(text, seconds), signature[timeSize:])
}

// Signer signs as a witness.
type Signer struct {
	Verifier

	private ed25519.PrivateKey
	now     func() time.Time
}

// NewSigner returns the signer of a witness.
func NewSigner(name string, key ed25519.PrivateKey, now func() time.Time) (Signer, error) {
	v, err := NewVerifier(PublicKey(name, key.Public().(ed25519.PublicKey)))
	return Signer{v, key, now}, err
}

// PublicKey returns the verifier key of the signer.
func (s Signer) PublicKey() string { return PublicKey(s.name, s.key) }

// Sign implements note.Signer. It signs the current time.
func (s Signer) Sign(text []byte) ([]byte, error) {
	seconds := s.now().Unix()
	if seconds < 0 {
		return nil, errors.New("clock is before 1970")
	}
	signed := binary.BigEndian.AppendUint64(nil, uint64(seconds))
	return append(signed, ed25519.Sign(s.private, message(text, uint64(seconds)))...), nil
}

// Time returns the time of a cosignature that a Verifier has verified.
func Time(s note.Signature) (time.Time, error) {
	data, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(data) < 4+timeSize {
		return time.Time{}, errors.New("cosignature has no time")
	}
	return time.Unix(int64(binary.BigEndian.Uint64(data[4:])), 0).UTC(), nil //nolint:gosec // Verify limits it to 63 bits
}
