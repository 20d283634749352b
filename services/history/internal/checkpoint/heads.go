package checkpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
)

// Head is the state of one listing's chain of events.
type Head struct {
	Chain  string // hash of the first event; identifies the chain without revealing the listing, which may not be public
	Slug   string // of the listing; for operators only, not signed
	Events int64
	Hash   string // of the newest event
}

// WriteHeads writes one line for each head, ordered by chain: the chain, the number of events and the newest hash. It sorts
// heads in place.
func WriteHeads(out io.Writer, heads []Head) error {
	slices.SortFunc(heads, func(a, b Head) int { return cmp.Compare(a.Chain, b.Chain) })
	for _, h := range heads {
		if _, err := fmt.Fprintf(out, "%s %d %s\n", h.Chain, h.Events, h.Hash); err != nil {
			return err
		}
	}
	return nil
}

// HeadsHash returns the hexadecimal SHA-256 of the output of WriteHeads. Like WriteHeads, it sorts heads in place.
func HeadsHash(heads []Head) string {
	h := sha256.New()
	_ = WriteHeads(h, heads) // a hash never fails to write
	return hex.EncodeToString(h.Sum(nil))
}
