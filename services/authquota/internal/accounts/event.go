package accounts

import (
	"time"
)

// Event is an audit log entry for the account's person.
type Event struct {
	At     time.Time
	Action string
	Own    bool // by the person, as far as is known
	Detail map[string]any
	Times  int // number of occurrences, if it stands for several
}
