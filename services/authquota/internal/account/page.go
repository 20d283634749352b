package account

import "time"

// Page is a page of a list: up to Limit entries after an ID. A Limit of 0 means all.
type Page struct {
	After string
	Limit int
}

// Search selects accounts. Email is an address or part of one.
type Search struct {
	Email string
	Page
}

// AuditSearch selects entries of the audit log, newest first. Empty fields match all.
type AuditSearch struct {
	Account string // by its person, or about it, its keys and its requests
	Action  string // a prefix of the action
	Actor   string
	Since   time.Time
	Before  int64 // an entry ID; 0 starts at the newest
	Limit   int
}

// AuditEntry is an entry of the audit log.
type AuditEntry struct {
	ID                             int64
	At                             time.Time
	Actor, Action, Subject, Detail string // Detail is JSON
}

// Details are the details of an account for operators.
type Details struct {
	Account

	Person    *Person // without an address once the account is closed; nil if there is none
	Sessions  int     // active ones
	Passkeys  int
	UsedToday int
	Keys      []Key
	Requests  []Request // open ones
	Audit     []AuditEntry
}
