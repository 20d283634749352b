package checkpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
)

// Head is how far the chain of one listing has come.
type Head struct {
	Chain  string // hash of its first event, which names the chain without telling whose it is: some listings are not public
	Slug   string // whose it is; for operators only, and not signed
	Events int64
	Hash   string // of its newest event
}

// WriteHeads writes a line for each head, ordered by chain: the chain, the number of events and the newest hash. It orders heads
// in place.
func WriteHeads(out io.Writer, heads []Head) error {
	slices.SortFunc(heads, func(a, b Head) int { return cmp.Compare(a.Chain, b.Chain) })
	for _, h := range heads {
		if _, err := fmt.Fprintf(out, "%s %d %s\n", h.Chain, h.Events, h.Hash); err != nil {
			return err
		}
	}
	return nil
}

// HeadsHash is the hexadecimal SHA-256 of what WriteHeads writes.
func HeadsHash(heads []Head) string {
	h := sha256.New()
	_ = WriteHeads(h, heads) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}
