// Package checkpoint proves the history. A checkpoint is signed and states the number of events and the root hash over them (C2SP
// tlog-checkpoint, a signed note with Ed25519). The leaves of the tree are all events in sequence order, hashed as in RFC 6962, so a
// checkpoint provably extends every earlier one. There are two kinds over the same leaves:
//
//   - Checkpoint is signed once a day by Notary, in a text of our own that names the one before it. Document publishes it.
//   - LogCheckpoint is signed by Log soon after each event, in the plain form that witnesses cosign (witness.go). Log stores the tree as
//     tiles and proves single events.
//
// Keys sign both, each under its own name.
package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	formats "github.com/transparency-dev/formats/log"
)

// Origin is the name of the log in every checkpoint and every key.
const Origin = "opportunity-history"

// none is the signed text's value for a missing previous checkpoint.
const none = "none"

// Checkpoint is the content of the signed text.
type Checkpoint struct {
	Number   int64     // counted from 1
	Time     time.Time // of signing, UTC, in whole microseconds
	Size     int64     // events in the log; they have the sequences 1 to Size
	Root     []byte    // hash of the Merkle tree over the events
	Chains   int64     // listings with events
	Heads    string    // HeadsHash of the chains that grew since the previous checkpoint
	Previous string    // ID of the previous checkpoint; empty for the first

	// Generation of the log, counted from 1. A generation begins when an operator accepts that events or checkpoints were lost. Only the
	// checkpoints of one generation extend each other, and the numbers of lost checkpoints are left out.
	Generation int64
	Loss       string // identifies the losses with which the generation began, so that two generations of the same number differ; empty for the first
}

// Stored is a checkpoint with the data that the store holds for it.
type Stored struct {
	Checkpoint

	Day         string   // UTC day of a daily checkpoint; empty for one on demand
	Before      int64    // number of the stored checkpoint before it; 0 if there is none
	Note        string   // the signed text
	Consistency [][]byte // proof that this checkpoint's log extends the previous one's (RFC 6962, 2.1.2)
	Frontier    [][]byte // of the tree; the next checkpoint continues from it
}

// ID returns the permanent ID of a signed text: the hexadecimal SHA-256 of its bytes.
func ID(note string) string {
	sum := sha256.Sum256([]byte(note))
	return hex.EncodeToString(sum[:])
}

// ID returns the permanent ID of s; empty for the zero value.
func (s Stored) ID() string {
	if s.Note == "" {
		return ""
	}
	return ID(s.Note)
}

// text returns the text that the signature covers. The lines after the root are this log's extension of the format.
func (c Checkpoint) text() string {
	previous := c.Previous
	if previous == "" {
		previous = none
	}
	generation := ""
	if c.Generation > 1 {
		generation = fmt.Sprintf("generation %d\n", c.Generation)
		if c.Loss != "" { // releases before it wrote none
			generation += fmt.Sprintf("loss %s\n", c.Loss)
		}
	}
	base := formats.Checkpoint{Origin: Origin, Size: uint64(c.Size), Hash: c.Root} //nolint:gosec // sizes are counts
	return string(base.Marshal()) + fmt.Sprintf("number %d\ntime %s\nchains %d\nheads %s\nprevious %s\n%s",
		c.Number, c.Time.Format(time.RFC3339Nano), c.Chains, c.Heads, previous, generation)
}

var errText = errors.New("not a checkpoint of this log")

// parse reads the output of text. It returns an error for any other input.
func parse(text string) (Checkpoint, error) {
	var base formats.Checkpoint
	rest, err := base.Unmarshal([]byte(text))
	if err != nil {
		return Checkpoint{}, err
	}
	lines := strings.Split(string(rest), "\n")
	if len(lines) < 6 || len(lines) > 8 {
		return Checkpoint{}, errText
	}
	var values [5]string
	for i, name := range []string{"number", "time", "chains", "heads", "previous"} {
		value, ok := strings.CutPrefix(lines[i], name+" ")
		if !ok {
			return Checkpoint{}, errText
		}
		values[i] = value
	}
	c := Checkpoint{Size: int64(base.Size), Root: base.Hash, Heads: values[3], Previous: values[4], Generation: 1} //nolint:gosec // compared below
	var errs [4]error
	c.Number, errs[0] = strconv.ParseInt(values[0], 10, 64)
	c.Time, errs[1] = time.Parse(time.RFC3339Nano, values[1])
	c.Chains, errs[2] = strconv.ParseInt(values[2], 10, 64)
	if len(lines) > 6 {
		c.Generation, errs[3] = strconv.ParseInt(strings.TrimPrefix(lines[5], "generation "), 10, 64)
	}
	if len(lines) > 7 {
		c.Loss = strings.TrimPrefix(lines[6], "loss ")
	}
	if c.Previous == none {
		c.Previous = ""
	}
	if errors.Join(errs[:]...) != nil || c.Size < 0 || c.text() != text { // a checkpoint has exactly one encoding
		return Checkpoint{}, errText
	}
	return c, nil
}
