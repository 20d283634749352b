// Package setback notices that a database was set back: restored from a backup, or replaced by a
// replica that lagged.
//
// The owner of a database numbers its changes and gives each a random id. Its mark names the newest
// one and the generation of the database. Keepers outside the database remember the newest mark:
// followers with the position of their copy, gateways in memory, and Redis. They present it to the
// owner, which stops serving if its database lacks what the mark names, until an operator has
// decided. A decision begins a generation, and marks of the generations before are given up. See
// docs/decisions/0027-marks.md.
package setback

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ErrSetBack is the error of a service whose database lacks what a keeper has seen, and no operator
// has decided what to do.
var ErrSetBack = errors.New("the database was set back")

// Mark names a change of a store.
type Mark struct {
	Generation string // of the store
	Sequence   int64  // 0 before the first change
	ID         string // random, so only the store that made the change, and copies of it, have it
}

// form is the form of a mark, of at most 85 bytes.
var form = regexp.MustCompile(`^[0-9a-f]{16}\.(0|[1-9][0-9]{0,17})\.[0-9A-Za-z_-]{0,48}$`)

// String returns the text of a mark, or "" for the zero mark.
func (m Mark) String() string {
	if m == (Mark{}) {
		return ""
	}
	return fmt.Sprintf("%s.%d.%s", m.Generation, m.Sequence, m.ID)
}

// Parse returns the mark with a text. ok is false if the text has another form.
func Parse(text string) (m Mark, ok bool) {
	if !form.MatchString(text) {
		return m, false
	}
	parts := strings.Split(text, ".")
	m = Mark{Generation: parts[0], ID: parts[2]}
	m.Sequence, _ = strconv.ParseInt(parts[1], 10, 64) // at most 18 digits
	return m, true
}
