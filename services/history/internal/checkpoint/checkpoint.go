// Package checkpoint is the noun of what the history signs: how many events there were at an instant and what they hash to, as a
// checkpoint of a transparency log (C2SP tlog-checkpoint, a signed note with Ed25519). The log's leaves are all events in the
// order of their sequence, hashed as in RFC 6962, so that of any two checkpoints the later is provably an extension of the
// earlier.
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

// Origin names the log, in every checkpoint and in the names of its keys.
const Origin = "opportunity-history"

// none stands where there is no checkpoint before.
const none = "none"

// Checkpoint is what is signed.
type Checkpoint struct {
	Number   int64     // counted from 1
	Time     time.Time // when it was made; microseconds, UTC
	Size     int64     // events in the log; they have the sequences 1 to Size
	Root     []byte    // hash of the Merkle tree over them
	Chains   int64     // listings that have events
	Heads    string    // HeadsHash of the chains that grew since the checkpoint before
	Previous string    // ID of the checkpoint before; empty for the first
}

// Kept is a checkpoint as it is stored.
type Kept struct {
	Checkpoint

	Note        string   // the signed text
	Consistency [][]byte // proof that the log of the checkpoint before is the beginning of this one's (RFC 6962, 2.1.2)
	Frontier    [][]byte // of the tree; what the next checkpoint grows from
}

// ID names a signed text for ever: the hexadecimal SHA-256 of its bytes.
func ID(note string) string {
	sum := sha256.Sum256([]byte(note))
	return hex.EncodeToString(sum[:])
}

// text is what the signature covers. The lines after the root are this log's own.
func (c Checkpoint) text() string {
	previous := c.Previous
	if previous == "" {
		previous = none
	}
	base := formats.Checkpoint{Origin: Origin, Size: uint64(c.Size), Hash: c.Root} //nolint:gosec // sizes are counts
	return string(base.Marshal()) + fmt.Sprintf("number %d\ntime %s\nchains %d\nheads %s\nprevious %s\n",
		c.Number, c.Time.Format(time.RFC3339Nano), c.Chains, c.Heads, previous)
}

var errText = errors.New("not a checkpoint of this log")

// parse reads what text wrote; anything else is an error.
func parse(text string) (Checkpoint, error) {
	var base formats.Checkpoint
	rest, err := base.Unmarshal([]byte(text))
	if err != nil {
		return Checkpoint{}, err
	}
	lines := strings.Split(string(rest), "\n")
	if len(lines) != 6 {
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
	c := Checkpoint{Size: int64(base.Size), Root: base.Hash, Heads: values[3], Previous: values[4]} //nolint:gosec // compared below
	var wrong [3]error
	c.Number, wrong[0] = strconv.ParseInt(values[0], 10, 64)
	c.Time, wrong[1] = time.Parse(time.RFC3339Nano, values[1])
	c.Chains, wrong[2] = strconv.ParseInt(values[2], 10, 64)
	if c.Previous == none {
		c.Previous = ""
	}
	if errors.Join(wrong[:]...) != nil || c.Size < 0 || c.text() != text { // there is one way to write a checkpoint
		return Checkpoint{}, errText
	}
	return c, nil
}
