package api

import (
	"encoding/json"
	"net/http"
	"time"
)

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

// SetBackCondition is the name of the readiness condition that a service lacks while its database
// is set back, see package setback.
const SetBackCondition = "set back"

// MarkPath is the path of the newest mark of a service's database. Each parameter "seen" of the
// query is a mark that the caller remembers. The response is the newest mark, or 503 while the
// database is set back.
const MarkPath = "/internal/v1/mark"

// ExplorerPath is the page on which a signed-in person makes calls without a key in the browser.
// Each operation has a form below it.
const ExplorerPath = "/account/explorer"

// ExplorerHeader marks the messages about a call of the explorer. In authquota's response to a
// submitted form it is the call that the gateway has to make, an ExplorerCall as JSON. In the
// gateway's next request it means that the body is the ExplorerResult. It is trusted like
// CallerHeader.
const ExplorerHeader = "X-Opportunity-Explorer"

// ExplorerCall is a call for a signed-in person.
type ExplorerCall struct {
	Principal Principal   `json:"principal"` // of the person's key
	Target    string      `json:"target"`    // path and query
	Header    http.Header `json:"header"`
}

// ExplorerResult is the response to a call of the explorer.
type ExplorerResult struct {
	Form    []byte      `json:"form"` // the submitted form
	Status  int         `json:"status"`
	Header  http.Header `json:"header"`
	Body    []byte      `json:"body"` // at most MaxExplorerBody
	Size    int         `json:"size"` // of the whole body, in bytes
	Charged bool        `json:"charged"`
}

// Value returns the value of a header, or an empty string. Name has the case in which the gateway
// sends it.
func (r ExplorerResult) Value(name string) string {
	if v := r.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// CatalogOverview describes the published records at one time, for the front page of the service.
type CatalogOverview struct {
	GeneratedAt  time.Time        `json:"generatedAt"`
	LastChangeAt *time.Time       `json:"lastChangeAt"` // the latest factual review or publication; nil without records
	Categories   []CategoryCounts `json:"categories"`   // in the order of Categories
	Countries    []CountryCount   `json:"countries"`    // most records first
	// the first record of the free set, an Opportunity; null if the set is empty
	Example json.RawMessage `json:"example"`
}

// PermalinkEvents is the largest number of events of a PublicRecord.
const PermalinkEvents = 20

// PublicRecord is a published record for its permalink.
type PublicRecord struct {
	Record json.RawMessage     `json:"record"` // an Opportunity
	At     time.Time           `json:"at"`     // of its status
	Free   bool                `json:"free"`   // in the free set: readers without a key see everything
	Events []VerificationEvent `json:"events"` // the latest PermalinkEvents, newest first
}

// CategoryCounts counts the published records of a category by status.
type CategoryCounts struct {
	Category Category                   `json:"category"`
	Statuses map[VerificationStatus]int `json:"statuses"` // has every status
}

// CountryCount counts the published records for which residents of a country are eligible.
type CountryCount struct {
	Country string `json:"country"` // ISO 3166-1 alpha-2
	Records int    `json:"records"`
}

// Total returns the number of records.
func (c CategoryCounts) Total() (n int) {
	for _, records := range c.Statuses {
		n += records
	}
	return n
}
