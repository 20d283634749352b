// Package recovery is the codes that stand in for a lost authenticator, each once.
package recovery

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// Count is how many codes a person gets at a time.
const Count = 10

// codeBytes: with more than 112 random bits nobody finds a code from its hash, so a fast hash without a salt will do.
const codeBytes = 15

// letters leave out what can be taken for another: i, l, o and u.
const letters = "0123456789abcdefghjkmnpqrstvwxyz"

var encoding = base32.NewEncoding(letters).WithPadding(base32.NoPadding)

// Generate draws a set of codes, written in groups.
func Generate() []string {
	codes := make([]string, Count)
	for i := range codes {
		random := make([]byte, codeBytes)
		_, _ = rand.Read(random) // never fails
		text := encoding.EncodeToString(random)
		var groups []string
		for ; text != ""; text = text[4:] {
			groups = append(groups, text[:4])
		}
		codes[i] = strings.Join(groups, "-")
	}
	return codes
}

// Hash is what is kept of a code. It is the same however the code was typed: case, spaces, hyphens and the letters that are taken
// for digits do not matter. Whatever is no code has a hash that no code has.
func Hash(code string) string {
	sum := sha256.Sum256([]byte("recovery code " + normal(code)))
	return hex.EncodeToString(sum[:])
}

// Like reports whether text has the form of a code, so that a form can tell it from a code of the authenticator.
func Like(text string) bool {
	code := normal(text)
	_, err := encoding.DecodeString(code)
	return err == nil && len(code) == encoding.EncodedLen(codeBytes)
}

var typed = strings.NewReplacer(" ", "", "-", "", "\t", "", "\u00a0", "", "\u2010", "", "\u2011", "", "\u2013", "", "o", "0", "i", "1", "l", "1")

func normal(code string) string { return typed.Replace(strings.ToLower(code)) }
