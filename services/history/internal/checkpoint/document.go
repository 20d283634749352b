package checkpoint

import (
	"fmt"
	"time"
)

// Document is a published checkpoint. Checkpoint, Consistency and the heads at HeadsURL are evidence; the other fields repeat the
// signed text for convenience.
type Document struct {
	Checkpoint    string    `json:"checkpoint"` // the signed text
	ID            string    `json:"id"`         // hexadecimal SHA-256 of the signed text; the next checkpoint includes it
	Number        int64     `json:"number"`
	Time          time.Time `json:"time"`
	Events        int64     `json:"events"`
	Chains        int64     `json:"chains"`
	RootHash      []byte    `json:"rootHash"`    // base64
	Consistency   [][]byte  `json:"consistency"` // base64; proof that this checkpoint extends the previous one
	PublicKeys    []string  `json:"publicKeys"`  // newest first
	Self          string    `json:"self"`
	Previous      *string   `json:"previous"`
	Generation    int64     `json:"generation"`
	HeadsURL      string    `json:"heads"`
	Log           LogInfo   `json:"log"`
	Documentation string    `json:"documentation"`
}

// LogInfo is the address of the log of single events, and the keys that verify it.
type LogInfo struct {
	Origin     string   `json:"origin"`     // of the current generation
	PublicKeys []string `json:"publicKeys"` // of that origin, newest first
	Checkpoint string   `json:"checkpoint"` // URL
}

// Path is the URL path of the newest checkpoint. A day or number appended as a path element selects another one.
const Path = "/.well-known/opportunity-history"

// HeadsSuffix turns the URL of a checkpoint into the URL of its heads.
const HeadsSuffix = ".heads"

// Publish returns the document of s for an API at the URL base, with the origin of the log. The caller must have verified the note with
// Keys.Open.
func (s Stored) Publish(base string, keys Keys, origin string) Document {
	url := func(number int64) string { return fmt.Sprintf("%s%s/%d", base, Path, number) }
	d := Document{
		Checkpoint: s.Note, ID: ID(s.Note), Number: s.Number, Time: s.Time, Events: s.Size, Chains: s.Chains, RootHash: s.Root,
		Consistency: s.Consistency, PublicKeys: keys.Public(), Self: url(s.Number), HeadsURL: url(s.Number) + HeadsSuffix,
		Documentation: base + "/docs/provable-history", Generation: s.Generation,
		Log: LogInfo{Origin: origin, PublicKeys: keys.PublicAs(origin), Checkpoint: base + LogPath + "/checkpoint"},
	}
	if d.Consistency == nil {
		d.Consistency = [][]byte{}
	}
	if s.Before > 0 {
		d.Previous = new(url(s.Before))
	}
	return d
}
