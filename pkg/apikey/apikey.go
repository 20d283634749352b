// Package apikey implements the format of API keys:
//
//	oda_live_ + 43 random base62 characters + _ + 6 base62 characters
//
// The random part has just over 256 bits of entropy. The last part is a checksum, the CRC-32 of
// everything before the last underscore. It adds no security. It rejects typing mistakes and random
// guesses without a lookup, and lets secret scanners recognize keys.
//
// A key is shown once and never stored. Keys are stored and looked up by their keyed hash; see
// Key.Digests.
package apikey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
)

// Prefixes of production keys and of test keys.
const (
	Live = "oda_live_"
	Test = "oda_test_"
)

// Alphabet contains the base62 digits.
const Alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const (
	bodyLength  = 43
	sumLength   = 6
	totalLength = len(Live) + bodyLength + 1 + sumLength
)

// Key is a well-formed API key. It is a secret: printing, logging or encoding it shows only its
// prefix, and only Reveal returns the whole key. Do not use it as a map key or in an unexported
// field of a printed struct: fmt and encoding/json do not call its methods there.
type Key string

// Generate returns a new random key. The prefix is Live or Test.
func Generate(prefix string) Key {
	body := make([]byte, 0, bodyLength)
	random := make([]byte, bodyLength)
	for len(body) < bodyLength {
		_, _ = rand.Read(random) // never returns an error: it crashes the program instead
		for _, b := range random {
			// Bytes from 248, the largest multiple of 62, are skipped: they would make some
			// characters more likely.
			if b < 248 && len(body) < bodyLength {
				body = append(body, Alphabet[b%62])
			}
		}
	}
	head := prefix + string(body)
	return Key(head + "_" + checksum(head))
}

// Parse returns s as a Key. It reports false if the format or the checksum is wrong. It does not
// check whether the key was issued.
func Parse(s string) (Key, bool) {
	if len(s) != totalLength || !strings.HasPrefix(s, Live) && !strings.HasPrefix(s, Test) {
		return "", false
	}
	head, sum := s[:totalLength-sumLength-1], s[totalLength-sumLength:]
	if strings.Trim(head[len(Live):], Alphabet) != "" || s[len(head)] != '_' || sum != checksum(head) {
		return "", false
	}
	return Key(s), true
}

// Reveal returns the whole key, for the response that issues it and for the Authorization header.
func (k Key) Reveal() string { return string(k) }

// Digests returns the HMAC-SHA-256 of the key with each pepper, in hexadecimal and in the order of
// the peppers, newest first. New keys are stored under the first digest; the others find keys
// issued before a pepper change.
func (k Key) Digests(peppers [][]byte) []string { return digests(string(k), peppers) }

// Fingerprints returns a text for each pepper that identifies it without revealing it.
func Fingerprints(peppers [][]byte) []string { return digests("fingerprint of a pepper", peppers) }

func digests(text string, peppers [][]byte) []string {
	out := make([]string, len(peppers))
	for i, pepper := range peppers {
		mac := hmac.New(sha256.New, pepper)
		mac.Write([]byte(text))
		out[i] = hex.EncodeToString(mac.Sum(nil))
	}
	return out
}

// Preview returns the key's prefix and last four characters, by which lists identify it.
func (k Key) Preview() (prefix, last4 string) {
	return string(k[:len(Live)]), string(k[len(k)-4:])
}

// String returns the prefix of the key and an ellipsis.
func (k Key) String() string {
	if len(k) != totalLength {
		return "…"
	}
	return string(k[:len(Live)]) + "…"
}

// Format prints String for every verb, including those that would not call String (%d, %#v).
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// MarshalText returns String, so that encoding or logging a struct never leaks a key in it.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func checksum(head string) string {
	var digits [sumLength]byte
	for i, sum := sumLength-1, crc32.ChecksumIEEE([]byte(head)); i >= 0; i-- {
		digits[i] = Alphabet[sum%62]
		sum /= 62
	}
	return string(digits[:])
}

const minPepper = 32

// MaxPeppers limits the number of peppers in use. A key lookup uses each of them.
const MaxPeppers = 8

// Peppers decodes the peppers for Digests from hexadecimal. Each must have at least 32 bytes. An
// error has the number of the invalid pepper, never its value.
func Peppers(encoded []string) ([][]byte, error) {
	if len(encoded) == 0 || len(encoded) > MaxPeppers {
		return nil, fmt.Errorf("use 1 to %d peppers", MaxPeppers)
	}
	peppers := make([][]byte, len(encoded))
	for i, e := range encoded {
		pepper, err := hex.DecodeString(e)
		if err != nil || len(pepper) < minPepper {
			return nil, fmt.Errorf("pepper %d must be at least %d bytes in hexadecimal", i+1, minPepper)
		}
		peppers[i] = pepper
	}
	return peppers, nil
}
