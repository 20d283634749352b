package account

import "time"

// Page is a piece of a list: at most Limit entries after an id. The zero Limit is everything.
type Page struct {
	After string
	Limit int
}

// Search asks for accounts; Email is an address, or a part of one.
type Search struct {
	Email string
	Page
}

// AuditSearch asks for entries of the audit log, newest first. What is empty finds all.
type AuditSearch struct {
	Account string // done by its person, to it, or to what belongs to it
	Action  string // the beginning of the action's name
	Actor   string
	Since   time.Time
	Before  int64 // an entry's id; 0: from the newest on
	Limit   int
}

// AuditEntry is something that was done.
type AuditEntry struct {
	ID                             int64
	At                             time.Time
	Actor, Action, Subject, Detail string // Detail is JSON
}

// Seen is an account as an operator sees it, with its person where it has one.
type Seen struct {
	Account

	Person    *Person // without an address once the account is closed
	Sessions  int     // that live
	Passkeys  int
	UsedToday int
	Keys      []Key
	Requests  []Request // open ones
	Audit     []AuditEntry
}
