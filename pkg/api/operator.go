package api

import "time"

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

// KeyList is every key that was asked for.
type KeyList struct {
	Keys []ListedKey `json:"keys"`
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
}

// Account is an account as operators see it.
type Account struct {
	ID            string     `json:"id"`
	Tier          Tier       `json:"tier"`
	Suspended     bool       `json:"suspended"`
	SuspendedAt   *time.Time `json:"suspendedAt"`
	SuspendReason *string    `json:"suspendReason"`
	CreatedAt     time.Time  `json:"createdAt"`
	MergedInto    string     `json:"mergedInto,omitempty"` // the account that has taken over its keys
}

// ListedAccount is an account with what it uses.
type ListedAccount struct {
	Account

	UsedToday int `json:"usedToday"` // calls on this UTC day, some seconds old at most
	Keys      int `json:"keys"`      // active ones
}

// AccountList is every account.
type AccountList struct {
	Accounts []ListedAccount `json:"accounts"`
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
