package api

import "time"

// CallerHeader carries the Caller, as JSON, from the gateway to a service. The gateway drops it from inbound requests, and a
// service believes it only beside the internal token.
const CallerHeader = "X-Opportunity-Caller"

// ActorHeader carries the name of the operator on whose behalf a verb runs; trusted as CallerHeader is.
const ActorHeader = "X-Opportunity-Actor"

// ClientHeader carries the address of the person whose browser asks for a page, as the gateway found it; trusted as CallerHeader is.
const ClientHeader = "X-Opportunity-Client"

// RequestIDHeader carries the id of a request through every service and back to the caller.
const RequestIDHeader = "X-Request-Id"

// Caller is what a service needs to know of who asks.
type Caller struct {
	Tier     Tier `json:"tier"`
	PageSize int  `json:"pageSize"`
	History  bool `json:"history"`
}

// Principal is an API key resolved to its account, as authquota answers the gateway.
type Principal struct {
	Key       string     `json:"key"`     // id of the key
	Account   string     `json:"account"` // id of the account
	Tier      Tier       `json:"tier"`
	Limits    Limits     `json:"limits"`
	Epoch     int64      `json:"epoch"` // of the account; another one in the counter store means that this answer is out of date
	ExpiresAt time.Time  `json:"expiresAt"`
	RevokedAt *time.Time `json:"revokedAt"`
	Suspended bool       `json:"suspended"`

	Next *PrincipalChange `json:"next,omitempty"` // nil: nothing changes by itself
}

// Caller is the part of the principal that services are told.
func (p Principal) Caller() Caller {
	return Caller{Tier: p.Tier, PageSize: p.Limits.PageSize, History: p.Limits.History}
}

// PrincipalQuery asks authquota who a key belongs to: the key's digests under every pepper in use, newest first.
type PrincipalQuery struct {
	Digests []string `json:"digests"`
}

// DayUsage is what was used on one UTC day, as the ledger has it.
type DayUsage struct {
	Day      string         `json:"day"`      // 2026-11-20
	Service  int            `json:"service"`  // calls of all accounts
	Accounts map[string]int `json:"accounts"` // calls by account id; accounts without any are left out
}

// ListingState is what the catalog tells the history service of one listing.
type ListingState struct {
	Sequence       int64  `json:"sequence"`
	ID             string `json:"id"`
	Published      bool   `json:"published"`
	ApplicationURL string `json:"applicationUrl"`
}

// ListingFeed is one pull of listing states with a sequence above the one asked for, in that order.
type ListingFeed struct {
	Listings []ListingState `json:"listings"`
}

// SummaryFeed is one pull of summaries with a sequence above the one asked for, in that order.
type SummaryFeed struct {
	Rules     int       `json:"rules"` // SummaryRules of the service that derived them; 0 before there were any
	Summaries []Summary `json:"summaries"`
}

// KeyDigestLength is the length of a shortened key digest: the first characters of the hexadecimal digest under which authquota
// stores the key. 64 bits are too many for an accidental match and too few to be of use elsewhere.
const KeyDigestLength = 16

// KeyPosition is a place in the list of all keys: the sequence of a key and its shortened digest. The digest shows whether the
// sequence still names the same key after the database was restored. The zero value is the beginning.
type KeyPosition struct {
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
}

// KeyDigests is a page of the shortened digests of all keys that authquota has, revoked and expired ones included, in the order in
// which they were added.
type KeyDigests struct {
	After   KeyPosition `json:"after"` // where the page begins: the position asked for, or the beginning if the database does not have it
	Digests []string    `json:"digests"`
	Last    KeyPosition `json:"last"` // where the next page begins
	More    bool        `json:"more"` // keys follow
}

// SummaryRules is the version of the rules by which events become a summary. During a rolling upgrade the catalog takes none that
// an older history has derived.
const SummaryRules = 1
