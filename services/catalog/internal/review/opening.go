package review

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// openingOf is the inverse of the share of unchanged reviews that are accepted only after their
// author opened a source.
const openingOf = 10

// NeedsOpening reports whether an unchanged review of a listing by an operator, on the sheet with
// the newest event eventID, is chosen for that check. The same arguments give the same result, so
// loading the sheet again does not draw again. Only the catalog knows secret.
func NeedsOpening(secret, id, operator, eventID string) bool {
	sum := sha256.Sum256([]byte(strings.Join([]string{secret, id, operator, eventID}, "\x00")))
	return binary.BigEndian.Uint64(sum[:8])%openingOf == 0
}
