package apikey

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Older is a key of another form than ours, issued before by something else: the SHA-256 of it, in lower-case hexadecimal. So it
// can be imported from a system that kept no more than that. It is kept, and asked for, by its Digests, as our own keys are.
type Older string

// OlderOf is the Older of a key as its holder presents it. Whether the key was ever issued, it cannot say.
func OlderOf(presented string) Older { return OlderSum(sha256.Sum256([]byte(presented))) }

// OlderSum is the Older of a key by its SHA-256.
func OlderSum(sum [sha256.Size]byte) Older { return Older(hex.EncodeToString(sum[:])) }

// ParseOlder reports whether s, in either case, is a SHA-256 in hexadecimal.
func ParseOlder(s string) (Older, bool) {
	sum, err := hex.DecodeString(s)
	if err != nil || len(sum) != sha256.Size {
		return "", false
	}
	return Older(strings.ToLower(s)), true
}

// Digests are the HMAC-SHA-256 of the hash under each pepper, in hexadecimal and in the order of the peppers. They never meet
// those of a Key of ours, which has another length.
func (o Older) Digests(peppers [][]byte) []string { return digests(string(o), peppers) }
