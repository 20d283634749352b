package account

import "time"

// Event is an entry of the audit log as the account's person sees it.
type Event struct {
	At     time.Time
	Action string
	Own    bool // the person's own act, as far as we know
	Detail map[string]any
	Times  int // how often it happened, where it is the last of several
}
