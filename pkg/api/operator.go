package api

import (
	"encoding/json"
	"time"
)

// ReasonNotStated stands for the reason of an operator who gave none. It does not replace the
// reason of an account that is suspended already.
const ReasonNotStated = "not stated"

// IssuedKey is the response to issuing a key, and the only one that contains the key itself.
type IssuedKey struct {
	ID        string    `json:"id"`
	Key       string    `json:"key"`
	Account   string    `json:"account"`
	Tier      Tier      `json:"tier"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// ListedKey describes a key without revealing it.
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

	Name       string     `json:"name,omitempty"`       // chosen by the key's owner
	ReplacedAt *time.Time `json:"replacedAt,omitempty"` // when it was rotated; expiresAt is then the end of the overlap
	Successor  string     `json:"successor,omitempty"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"` // lags by a few seconds
}

// KeyList is a page of keys.
type KeyList struct {
	Keys []ListedKey `json:"keys"`
	Next string      `json:"next,omitempty"` // cursor of the next page; empty on the last
}

// OlderKey is a line of a file that imports keys issued by another system. Such a key is known by
// its hash only.
type OlderKey struct {
	SHA256    string    `json:"sha256"` // of the key, in hexadecimal
	Prefix    string    `json:"prefix"`
	LastFour  string    `json:"lastFour"`
	Name      string    `json:"name"` // optional
	UseCase   string    `json:"useCase"`
	Tier      Tier      `json:"tier"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// KeyOrder describes a key to issue.
type KeyOrder struct {
	Tier      Tier   `json:"tier,omitempty"` // empty: the account's tier, or free for a new account
	UseCase   string `json:"useCase"`
	Account   string `json:"account,omitempty"`   // empty: the key gets an account of its own
	ExpiresIn string `json:"expiresIn,omitempty"` // a duration such as 30d; empty: a year, the longest
	Test      bool   `json:"test"`                // a test key, which its prefix tells from others
}

// KeyRequest is a person's request for a key.
type KeyRequest struct {
	ID        string     `json:"id"`
	Account   string     `json:"account"`
	Name      string     `json:"name"`
	UseCase   string     `json:"useCase"`
	State     string     `json:"state"`  // asked (pending), approved, declined, collected or withdrawn
	Reason    string     `json:"reason"` // if declined
	AskedAt   time.Time  `json:"askedAt"`
	DecidedAt *time.Time `json:"decidedAt"`
	DecidedBy string     `json:"decidedBy"`
}

// KeyRequestList is a page of key requests.
type KeyRequestList struct {
	Requests []KeyRequest `json:"requests"`
	Next     string       `json:"next,omitempty"` // cursor of the next page; empty on the last
}

// Account is an account as operators see it.
type Account struct {
	ID            string     `json:"id"`
	Status        string     `json:"status"` // active, suspended, closed or merged
	Tier          Tier       `json:"tier"`   // in effect: the higher of the granted and the currently paid tier
	Suspended     bool       `json:"suspended"`
	SuspendedAt   *time.Time `json:"suspendedAt"`
	SuspendReason *string    `json:"suspendReason"`
	CreatedAt     time.Time  `json:"createdAt"`
	MergedInto    string     `json:"mergedInto,omitempty"` // account that took over its keys
	ClosedAt      *time.Time `json:"closedAt,omitempty"`   // when its owner closed it permanently

	Granted Tier         `json:"granted"` // by an operator, or free
	Paid    *Entitlement `json:"paid"`    // null if nothing was ever paid
}

// ListedAccount is an account with its usage.
type ListedAccount struct {
	Account

	Email     string `json:"email,omitempty"` // of the account's owner, if it has one
	UsedToday int    `json:"usedToday"`       // calls on this UTC day; lags by a few seconds
	Keys      int    `json:"keys"`            // number of active keys
}

// AccountList is a page of accounts.
type AccountList struct {
	Accounts []ListedAccount `json:"accounts"`
	Next     string          `json:"next,omitempty"` // cursor of the next page; empty on the last
}

// AuthenticatorReset is the reply to the report of a lost authenticator.
type AuthenticatorReset struct {
	ResetAt time.Time `json:"resetAt"` // when it is removed, unless its owner cancels that
}

// AccountPerson is the person who signs in to an account.
type AccountPerson struct {
	Email                  string     `json:"email"` // empty after the account was closed
	AuthenticatorConfirmed bool       `json:"authenticatorConfirmed"`
	Passkeys               int        `json:"passkeys"`
	RecoveryCodesLeft      int        `json:"recoveryCodesLeft"`
	ResetAt                *time.Time `json:"resetAt"` // when a lost authenticator is removed
	Sessions               int        `json:"sessions"`
	CreatedAt              time.Time  `json:"createdAt"`
	ClosedAt               *time.Time `json:"closedAt"`

	Terms *AcceptedTerms `json:"terms"` // latest accepted; null before the first key request
}

// AcceptedTerms is a version of the terms of use and when it was accepted.
type AcceptedTerms struct {
	Version    string    `json:"version"`
	AcceptedAt time.Time `json:"acceptedAt"`
}

// AccountDetail is the full view of an account for operators.
type AccountDetail struct {
	Account

	Person    *AccountPerson `json:"person"` // null if an operator created the account
	UsedToday int            `json:"usedToday"`
	PerDay    int            `json:"perDay"` // calls allowed by its tier
	Keys      []ListedKey    `json:"keys"`
	Requests  []KeyRequest   `json:"requests"` // open key requests
	Audit     []AuditEntry   `json:"audit"`    // latest entries, newest first
}

// AnnouncementRequest asks for a mail to the people of all accounts.
type AnnouncementRequest struct {
	ID      string `json:"id"`      // chosen by the operator; what has the same id is sent once
	Kind    string `json:"kind"`    // terms: to every person; api-change: unless switched off
	Subject string `json:"subject"` // one line
	Text    string `json:"text"`    // paragraphs, separated by empty lines
	DryRun  bool   `json:"dryRun"`  // creates nothing
}

// Announcement is a mail to the people of all accounts, and how far it is sent.
type Announcement struct {
	ID         string     `json:"id"`
	Kind       string     `json:"kind"`
	Subject    string     `json:"subject"`    // of the mail
	Text       string     `json:"text"`       // of the mail, with the links below it
	Recipients int        `json:"recipients"` // people who got or will get it
	Posted     int        `json:"posted"`     // mails that were passed to the outbox
	CreatedAt  *time.Time `json:"createdAt"`  // null if it does not exist
	FinishedAt *time.Time `json:"finishedAt"` // when the last mail was passed to the outbox
}

// AuditEntry is an entry of the audit log: one action of an operator or an account owner.
type AuditEntry struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"` // an operator's name, or the id of the account whose owner acted
	Action  string          `json:"action"`
	Subject string          `json:"subject"` // id of the changed account, key or request
	Detail  json.RawMessage `json:"detail"`
}

// AuditList is a page of the audit log, newest first.
type AuditList struct {
	Entries []AuditEntry `json:"entries"`
	Next    int64        `json:"next,omitempty"` // the next page has the entries before this id
}

// HistorySnapshot is a listing's history at a past time. It includes the events recorded by that
// time and no others.
type HistorySnapshot struct {
	Slug string    `json:"slug"`
	At   time.Time `json:"at"`
	// at that time, derived from events only: edits of the listing are unknown to the history
	Verification Verification    `json:"verification"`
	Facts        *Facts          `json:"facts"`  // of the latest review with facts; null if there is none
	Events       []RecordedEvent `json:"events"` // newest check first
}

// RecordedEvent is an event with the time and the actor of its append, and its private evidence.
type RecordedEvent struct {
	VerificationEvent

	RecordedAt time.Time `json:"recordedAt"`
	Actor      string    `json:"actor"`
	Evidence   *Evidence `json:"evidence,omitempty"` // nil if the event stored none
}

// TierUsage counts the calls of one UTC day by all accounts that have a tier now: the past tiers of
// accounts are not stored.
type TierUsage struct {
	Date    string              `json:"date"` // 2026-11-20
	Tier    Tier                `json:"tier"`
	Calls   int                 `json:"calls"`   // with any outcome
	Refused map[CallOutcome]int `json:"refused"` // calls that were rejected, by reason
	Failed  int                 `json:"failed"`  // calls with the outcome failed
}

// UsageReport has an entry for each day and tier with calls, oldest day and lowest tier first.
type UsageReport struct {
	Days []TierUsage `json:"days"`
}
