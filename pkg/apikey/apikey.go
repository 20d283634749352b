// Package apikey is the format of API keys.
//
//	oda_live_ + 43 characters of base62, drawn at random + _ + 6 characters of base62: CRC-32 of all before the last underscore
//
// 43 random characters of base62 carry a little more than 256 bits. The checksum is no security: it refuses typing mistakes
// and scans without asking anybody, and lets secret scanners tell a key from noise.
//
// A key is shown once and kept nowhere. What is stored, and what is asked for, is its keyed hash (see Key.Digests).
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

// The prefixes of keys for real use and of keys for trying the service.
const (
	Live = "oda_live_"
	Test = "oda_test_"
)

// Alphabet is what keys are made of, beside underscores.
const Alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const (
	bodyLength  = 43
	sumLength   = 6
	totalLength = len(Live) + bodyLength + 1 + sumLength
)

// Key is a well-formed API key. It is a secret: printed, logged or encoded as a value it shows its prefix only, and Reveal is
// the one way to the whole. Do not use it as the key of a map, nor in an unexported field of something that is printed: there
// Go does not ask a type how it wants to appear.
type Key string

// Generate draws a new key. The prefix is Live or Test.
func Generate(prefix string) Key {
	body := make([]byte, 0, bodyLength)
	random := make([]byte, bodyLength)
	for len(body) < bodyLength {
		_, _ = rand.Read(random) // never fails: it ends the program instead
		for _, b := range random {
			// 248 is the largest multiple of 62 in a byte: taking the rest modulo 62 would favour some characters.
			if b < 248 && len(body) < bodyLength {
				body = append(body, Alphabet[b%62])
			}
		}
	}
	head := prefix + string(body)
	return Key(head + "_" + checksum(head))
}

// Parse reports whether s has the form and the checksum of a key. Whether the key was ever issued, it cannot say.
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

// Reveal is the key itself, for the one answer that shows it and for the header that carries it.
func (k Key) Reveal() string { return string(k) }

// Digests are the HMAC-SHA-256 of the key under each pepper, in hexadecimal and in the order of the peppers: newest first. The
// first is what a new key is stored under; the others find keys that were issued before the pepper changed.
func (k Key) Digests(peppers [][]byte) []string { return digests(string(k), peppers) }

func digests(of string, peppers [][]byte) []string {
	out := make([]string, len(peppers))
	for i, pepper := range peppers {
		mac := hmac.New(sha256.New, pepper)
		mac.Write([]byte(of))
		out[i] = hex.EncodeToString(mac.Sum(nil))
	}
	return out
}

// Preview is what lists show of a key, so that its owner can tell it from others: its prefix and its last four characters.
func (k Key) Preview() (prefix, last4 string) {
	return string(k[:len(Live)]), string(k[len(k)-4:])
}

// String is the prefix of the key and an ellipsis.
func (k Key) String() string {
	if len(k) != totalLength {
		return "…"
	}
	return string(k[:len(Live)]) + "…"
}

// Format prints String for every verb, also for those that would go round it (%d, %#v).
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// MarshalText is String: a structure that holds a key by mistake does not give it away when it is encoded or logged.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func checksum(head string) string {
	var digits [sumLength]byte
	for i, sum := sumLength-1, crc32.ChecksumIEEE([]byte(head)); i >= 0; i-- {
		digits[i] = Alphabet[sum%62]
		sum /= 62
	}
	return string(digits[:])
}
