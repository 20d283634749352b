package apikey

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ours begins every key that this service issues. Keys of other systems with that prefix cannot be
// imported.
const ours = "oda_"

// OlderForm is the format of keys issued by another system. Operators import the hashes of such
// keys. It never matches a key that begins like our own, so a Key with a typing mistake is rejected
// instead of looked up. The zero value matches no key.
type OlderForm struct {
	whole  *regexp.Regexp
	prefix string // with which every match begins
}

// Maximum lengths of a token and of the pattern. The time to match a token is proportional to their
// product.
const (
	maxOlder   = 256
	maxPattern = 512
)

// ParseOlderForm compiles a regular expression for whole keys. An empty pattern gives the zero
// OlderForm.
func ParseOlderForm(pattern string) (OlderForm, error) {
	if pattern == "" {
		return OlderForm{}, nil
	}
	if len(pattern) > maxPattern {
		return OlderForm{}, fmt.Errorf("must have at most %d characters", maxPattern)
	}
	part, err := regexp.Compile(pattern) // on its own: the pattern could close the group below
	if err != nil {
		return OlderForm{}, err
	}
	prefix, _ := part.LiteralPrefix()
	if strings.HasPrefix(prefix, ours) {
		return OlderForm{}, errors.New("must not begin with " + ours + ", like keys of this API")
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return OlderForm{}, err
	}
	if whole.MatchString("") {
		return OlderForm{}, errors.New("must not match an empty key")
	}
	return OlderForm{whole, prefix}, nil
}

// Set reports whether f is not the zero value.
func (f OlderForm) Set() bool { return f.whole != nil }

// Matches reports whether token has the format.
func (f OlderForm) Matches(token string) bool {
	return f.whole != nil && len(token) <= maxOlder && !strings.HasPrefix(token, ours) && f.whole.MatchString(token)
}

// CouldMatch reports whether a token that begins with prefix could have the format. It may report
// true if none does.
func (f OlderForm) CouldMatch(prefix string) bool {
	return f.whole != nil && !strings.HasPrefix(prefix, ours) &&
		(strings.HasPrefix(prefix, f.prefix) || strings.HasPrefix(f.prefix, prefix))
}

// Older is a key that another system issued, represented by its SHA-256 in lower-case hexadecimal.
// The hash suffices to import keys from a system that stores nothing else. Like a Key, it is stored
// and looked up by its Digests.
type Older string

// OlderOf returns the Older of a presented key. It does not check whether the key was issued.
func OlderOf(presented string) Older { return OlderSum(sha256.Sum256([]byte(presented))) }

// OlderSum returns the Older of the key with that SHA-256.
func OlderSum(sum [sha256.Size]byte) Older { return Older(hex.EncodeToString(sum[:])) }

// ParseOlder parses a SHA-256 in hexadecimal, upper or lower case. It reports false if s is none.
func ParseOlder(s string) (Older, bool) {
	sum, err := hex.DecodeString(s)
	if err != nil || len(sum) != sha256.Size {
		return "", false
	}
	return Older(strings.ToLower(s)), true
}

// Digests returns the HMAC-SHA-256 of the hash with each pepper, in hexadecimal and in the order of
// the peppers. They never collide with those of a Key, because a Key has a different length.
func (o Older) Digests(peppers [][]byte) []string { return digests(string(o), peppers) }
