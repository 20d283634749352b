// Package people generates and hashes the single-use codes that replace a lost authenticator.
package people

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// Count is the number of codes in a set.
const RecoveryCodeCount = 10

// codeBytes gives more than 112 random bits, so a fast hash without salt is safe.
const codeBytes = 15

// letters omits characters that are easily confused: i, l, o and u.
const codeLetters = "0123456789abcdefghjkmnpqrstvwxyz"

var codeEncoding = base32.NewEncoding(codeLetters).WithPadding(base32.NoPadding)

// GenerateRecoveryCodes returns a new set of codes, written in groups.
func GenerateRecoveryCodes() []string {
	codes := make([]string, RecoveryCodeCount)
	for i := range codes {
		random := make([]byte, codeBytes)
		_, _ = rand.Read(random) // never fails
		text := codeEncoding.EncodeToString(random)
		var groups []string
		for ; text != ""; text = text[4:] {
			groups = append(groups, text[:4])
		}
		codes[i] = strings.Join(groups, "-")
	}
	return codes
}

// NewRecoveryCodes returns a new set of codes and their hashes.
func NewRecoveryCodes() (codes, hashes []string) {
	codes = GenerateRecoveryCodes()
	for _, c := range codes {
		hashes = append(hashes, HashRecoveryCode(c))
	}
	return codes, hashes
}

// HashRecoveryCode returns the stored form of a code. It ignores case, spaces and hyphens, and maps letters that look like digits to these.
// The hash of text that is not a code never equals that of a code.
func HashRecoveryCode(code string) string {
	sum := sha256.Sum256([]byte("recovery code " + normalizeCode(code)))
	return hex.EncodeToString(sum[:])
}

// IsRecoveryCode reports whether text has the form of a recovery code, as opposed to a code of the authenticator.
func IsRecoveryCode(text string) bool {
	code := normalizeCode(text)
	_, err := codeEncoding.DecodeString(code)
	return err == nil && len(code) == codeEncoding.EncodedLen(codeBytes)
}

var codeReplacer = strings.NewReplacer(" ", "", "-", "", "\t", "", "\u00a0", "", "\u2010", "", "\u2011", "", "\u2013", "", "o", "0", "i", "1", "l", "1")

func normalizeCode(code string) string { return codeReplacer.Replace(strings.ToLower(code)) }
