package checkpoint

import (
	"fmt"
	"time"
)

// Document is a checkpoint as it is published. Only Checkpoint, HeadsURL's content and the proof are evidence; the other fields
// repeat what the signed text says, for reading.
type Document struct {
	Checkpoint    string    `json:"checkpoint"` // the signed text
	ID            string    `json:"id"`         // hexadecimal SHA-256 of the signed text; the next checkpoint names it
	Number        int64     `json:"number"`
	Time          time.Time `json:"time"`
	Events        int64     `json:"events"`
	Chains        int64     `json:"chains"`
	RootHash      []byte    `json:"rootHash"`    // base64
	Consistency   [][]byte  `json:"consistency"` // base64; proof that the checkpoint before is the beginning of this one
	PublicKeys    []string  `json:"publicKeys"`  // newest first
	Self          string    `json:"self"`
	Previous      *string   `json:"previous"`
	HeadsURL      string    `json:"heads"`
	Documentation string    `json:"documentation"`
}

// Path is where the newest checkpoint is published; below it lie the others, by their day or number.
const Path = "/.well-known/opportunity-history"

// HeadsSuffix behind the address of a checkpoint is the address of its heads.
const HeadsSuffix = ".heads"

// Publish is the document of k, whose note has been opened, for consumers that reach the API at base.
func (k Kept) Publish(base string, keys Keys) Document {
	at := func(number int64) string { return fmt.Sprintf("%s%s/%d", base, Path, number) }
	d := Document{
		Checkpoint: k.Note, ID: ID(k.Note), Number: k.Number, Time: k.Time, Events: k.Size, Chains: k.Chains, RootHash: k.Root,
		Consistency: k.Consistency, PublicKeys: keys.Public(), Self: at(k.Number), HeadsURL: at(k.Number) + HeadsSuffix,
		Documentation: base + "/docs/provable-history",
	}
	if d.Consistency == nil {
		d.Consistency = [][]byte{}
	}
	if k.Number > 1 {
		d.Previous = new(at(k.Number - 1))
	}
	return d
}
