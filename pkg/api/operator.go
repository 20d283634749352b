package api

import (
	"encoding/json"
	"time"
)

// What the operators' verbs for keys and accounts answer.

// IssuedKey is a new key. Key itself is shown this once.
type IssuedKey struct {
	ID        string    `json:"id"`
	Key       string    `json:"key"`
	Account   string    `json:"account"`
	Tier      Tier      `json:"tier"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// ListedKey is a key by what may be shown of it.
type ListedKey struct {
	ID        string     `json:"id"`
	Account   string     `json:"account"`
	Tier      Tier       `json:"tier"`
	Prefix    string     `json:"prefix"`
	LastFour  string     `json:"lastFour"`
	UseCase   string     `json:"useCase"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt time.Time  `json:"expiresAt"`
	RevokedAt *time.Time `json:"revokedAt"`
	Status    string     `json:"status"` // active, expired or revoked

	Name       string     `json:"name,omitempty"`       // that its holder gave it
	ReplacedAt *time.Time `json:"replacedAt,omitempty"` // when it got its successor; expiresAt is the end of its grace then
	Successor  string     `json:"successor,omitempty"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"` // some seconds old at most
}

// KeyList is a page of keys.
type KeyList struct {
	Keys []ListedKey `json:"keys"`
	Next string      `json:"next,omitempty"` // what comes after this page, where there is more
}

// OlderKey is a line of an import of keys of another form than ours: such a key is known by its hash alone.
type OlderKey struct {
	SHA256    string    `json:"sha256"` // of the whole key, in hexadecimal
	Prefix    string    `json:"prefix"`
	LastFour  string    `json:"lastFour"`
	Name      string    `json:"name"` // may be left out
	UseCase   string    `json:"useCase"`
	Tier      Tier      `json:"tier"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// KeyRequest is a person's request for a key.
type KeyRequest struct {
	ID        string     `json:"id"`
	Account   string     `json:"account"`
	Name      string     `json:"name"`
	UseCase   string     `json:"useCase"`
	State     string     `json:"state"`  // asked, approved, declined, collected or withdrawn
	Reason    string     `json:"reason"` // of a declined one
	AskedAt   time.Time  `json:"askedAt"`
	DecidedAt *time.Time `json:"decidedAt"`
	DecidedBy string     `json:"decidedBy"`
}

// KeyRequestList is every request that was asked for.
type KeyRequestList struct {
	Requests []KeyRequest `json:"requests"`
	Next     string       `json:"next,omitempty"` // what comes after this page, where there is more
}

// Account is an account as operators see it.
type Account struct {
	ID            string     `json:"id"`
	Status        string     `json:"status"` // active, suspended, closed or merged
	Tier          Tier       `json:"tier"`   // in effect: the better of what is granted and what is paid for now
	Suspended     bool       `json:"suspended"`
	SuspendedAt   *time.Time `json:"suspendedAt"`
	SuspendReason *string    `json:"suspendReason"`
	CreatedAt     time.Time  `json:"createdAt"`
	MergedInto    string     `json:"mergedInto,omitempty"` // the account that has taken over its keys
	ClosedAt      *time.Time `json:"closedAt,omitempty"`   // when its person closed it, for good

	Granted Tier         `json:"granted"` // by an operator, or free
	Paid    *Entitlement `json:"paid"`    // null where nothing was ever paid
}

// ListedAccount is an account with what it uses.
type ListedAccount struct {
	Account

	Email     string `json:"email,omitempty"` // of the person, where there is one
	UsedToday int    `json:"usedToday"`       // calls on this UTC day, some seconds old at most
	Keys      int    `json:"keys"`            // active ones
}

// AccountList is a page of accounts.
type AccountList struct {
	Accounts []ListedAccount `json:"accounts"`
	Next     string          `json:"next,omitempty"` // what comes after this page, where there is more
}

// AccountPerson is who signs in to an account.
type AccountPerson struct {
	Email                  string     `json:"email"` // empty once the account was closed
	AuthenticatorConfirmed bool       `json:"authenticatorConfirmed"`
	Passkeys               int        `json:"passkeys"`
	RecoveryCodesLeft      int        `json:"recoveryCodesLeft"`
	ResetAt                *time.Time `json:"resetAt"` // when a lost authenticator is removed
	Sessions               int        `json:"sessions"`
	CreatedAt              time.Time  `json:"createdAt"`
	ClosedAt               *time.Time `json:"closedAt"`

	Terms *AcceptedTerms `json:"terms"` // accepted last; null before the first key request
}

// AcceptedTerms is a version of the terms of use and when it was accepted.
type AcceptedTerms struct {
	Version    string    `json:"version"`
	AcceptedAt time.Time `json:"acceptedAt"`
}

// AccountDetail is all that an operator may need to know of an account.
type AccountDetail struct {
	Account

	Person    *AccountPerson `json:"person"` // null where an operator made the account
	UsedToday int            `json:"usedToday"`
	PerDay    int            `json:"perDay"` // calls that its tier allows
	Keys      []ListedKey    `json:"keys"`
	Requests  []KeyRequest   `json:"requests"` // for keys, that are open
	Audit     []AuditEntry   `json:"audit"`    // the latest, newest first
}

// AuditEntry is something that was done.
type AuditEntry struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"` // an operator's name, or the id of the account whose person did it
	Action  string          `json:"action"`
	Subject string          `json:"subject"` // the id of what it was done to
	Detail  json.RawMessage `json:"detail"`
}

// AuditList is a page of the audit log, newest first.
type AuditList struct {
	Entries []AuditEntry `json:"entries"`
	Next    int64        `json:"next,omitempty"` // the entries before this id are the next page
}

// KnownThen is what the history knew of a listing at an instant: from the events that had been recorded by then, and no others.
type KnownThen struct {
	Slug         string          `json:"slug"`
	At           time.Time       `json:"at"`
	Verification Verification    `json:"verification"` // at that instant, as far as events tell: the history knows no edits of the listing
	Facts        *Facts          `json:"facts"`        // of the latest review that carries facts; null before any
	Events       []RecordedEvent `json:"events"`       // newest check first
}

// RecordedEvent is an event with who appended it and when.
type RecordedEvent struct {
	VerificationEvent

	RecordedAt time.Time `json:"recordedAt"`
	Actor      string    `json:"actor"`
}
