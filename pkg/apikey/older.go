package apikey

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

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
