package api

import "time"

// CallerHeader carries the Caller, as JSON, from the gateway to a service. The gateway drops it
// from inbound requests; a service trusts it only in requests with the token of the gateway.
const CallerHeader = "X-Opportunity-Caller"

// ActorHeader carries the name of the operator who sent the request. It is trusted like
// CallerHeader.
const ActorHeader = "X-Opportunity-Actor"

// ClientHeader carries the client IP address of a page request, as determined by the gateway. It is
// trusted like CallerHeader.
const ClientHeader = "X-Opportunity-Client"

// RequestIDHeader carries the request id through all services and back to the caller.
const RequestIDHeader = "X-Request-Id"

// Caller describes the caller of a request to the services behind the gateway.
type Caller struct {
	Tier     Tier `json:"tier"`
	PageSize int  `json:"pageSize"`
	History  bool `json:"history"`
}

// Principal is an API key resolved to its account, as authquota returns it to the gateway.
type Principal struct {
	Key       string     `json:"key"`     // id of the key
	Account   string     `json:"account"` // id of the account
	Tier      Tier       `json:"tier"`
	Limits    Limits     `json:"limits"`
	Epoch     int64      `json:"epoch"` // of the account; the principal is stale if the counter store has another
	ExpiresAt time.Time  `json:"expiresAt"`
	RevokedAt *time.Time `json:"revokedAt"`
	Suspended bool       `json:"suspended"`

	Next *PrincipalChange `json:"next,omitempty"` // nil if no change is scheduled
}

// Caller returns the part of the principal that the gateway passes on to services.
func (p Principal) Caller() Caller {
	return Caller{Tier: p.Tier, PageSize: p.Limits.PageSize, History: p.Limits.History}
}

// PrincipalQuery is the request for the principal of a key. Digests are the key's digests under all
// peppers in use, newest first.
type PrincipalQuery struct {
	Digests []string `json:"digests"`
}

// ListingState is the state of one listing, as the catalog publishes it to the history service.
type ListingState struct {
	Sequence       int64    `json:"sequence"`
	ID             string   `json:"id"`
	Published      bool     `json:"published"`
	ApplicationURL string   `json:"applicationUrl"`
	Pages          []string `json:"pages"` // its application page, website and sources, each once
	// id of the change with this sequence; only in the last state of a page
	Change string `json:"change,omitempty"`
}

// UnpublishedListings has the ids of the listings that are not public, as the history knows the
// catalog.
type UnpublishedListings struct {
	Listings []string `json:"listings"`
}

// KeyDigestLength is the length of a shortened key digest: the first characters of the hexadecimal
// digest under which authquota stores the key. 64 bits are too many for an accidental match and too
// few to be of use elsewhere.
const KeyDigestLength = 16

// KeyPosition is a position in the list of all keys: the sequence of a key and its shortened
// digest. The digest shows whether the sequence still identifies the same key after a database
// restore. The zero value is the start of the list.
type KeyPosition struct {
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
}

// KeyDigests is a page of the shortened digests of keys, including those that ended lately, in the
// order of creation.
type KeyDigests struct {
	// start of the page: the requested position, or the start of the list if the position is
	// unknown
	After   KeyPosition `json:"after"`
	Digests []string    `json:"digests"`
	Last    KeyPosition `json:"last"` // start of the next page
	More    bool        `json:"more"` // whether there is a next page
}
