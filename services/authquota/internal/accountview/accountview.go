// Package accountview defines what operators and people see of accounts: the list, the details and the audit log.
package accountview

import (
	"time"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/people"
)

// Search selects accounts. Email is an address or part of one.
type Search struct {
	Email string
	account.Page
}

// AuditSearch selects entries of the audit log, newest first. Empty fields match all.
type AuditSearch struct {
	Account string // by its person, or about it, its keys and its requests
	Action  string // a prefix of the action
	Actor   string
	Since   time.Time // at or after
	Until   time.Time // before
	Before  int64     // an entry ID; 0 starts at the newest
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
	account.Account

	Person    *people.Person // without an address once the account is closed; nil if there is none
	Sessions  int            // active ones
	Passkeys  int
	UsedToday int
	Keys      []keys.Key
	Requests  []keys.Request // open ones
	Audit     []AuditEntry
}

// Listed is an account in the operators' list.
type Listed struct {
	account.Account

	Email      string // of the person; empty if there is none
	UsedToday  int    // requests on the current UTC day, as of the ledger
	ActiveKeys int
}
