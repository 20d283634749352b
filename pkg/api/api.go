// Package api defines the API contract: the OpenAPI description in openapi.yaml, and the Go types
// of all request and response bodies. It has no behavior beyond validation and values derived from
// these types.
//
// An Opportunity is the record that consumers read, with its Facts and its Verification, which is
// derived from a Summary of its VerificationEvents. A Tier and its Limits say what an account may
// read. Operators and the desk send a Review and get, for example, a ReviewSheet or a
// ListingDetail. services.go has what only services exchange, such as the Principal of a key.
// Problems collects the mistakes in what a person sent.
package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"time"
)

// OpenAPIYAML is the OpenAPI 3.1 description that the gateway serves.
//
//go:embed openapi.yaml
var OpenAPIYAML []byte

// Version is the version of the API, as in the metadata of every response and in the path prefix.
const Version = "1"

// ContractVersion is the version of the interface description, openapi.yaml.
const ContractVersion = "1.0.0"

// Pagination describes the position of one page among all records visible to the caller.
type Pagination struct {
	Page    int     `json:"page"`
	Limit   int     `json:"limit"` // limit in effect: the requested one, at most the tier's page size
	Total   int     `json:"total"`
	HasMore bool    `json:"hasMore"`
	Next    *string `json:"next"` // absolute URL of the next page, null on the last
}

// Meta describes a response. Every verification status in the response is computed for GeneratedAt.
type Meta struct {
	Version       string    `json:"version"`
	GeneratedAt   time.Time `json:"generatedAt"`
	FreshnessDays int       `json:"freshnessDays"`
	Kind          string    `json:"kind"`
	Tier          Tier      `json:"tier"`
}

// NewMeta returns the Meta of a response generated at now for a caller of the given tier.
func NewMeta(tier Tier, now time.Time) Meta {
	return Meta{Version: Version, GeneratedAt: now.UTC(), FreshnessDays: FreshnessDays, Kind: Kind, Tier: tier}
}

// OpportunityList is the body of a list response.
type OpportunityList struct {
	Data       []Opportunity `json:"data"`
	Pagination Pagination    `json:"pagination"`
	Meta       Meta          `json:"meta"`
}

// OpportunityDetail is the body of a detail response.
type OpportunityDetail struct {
	Data Opportunity `json:"data"`
	Meta Meta        `json:"meta"`
}

// EventList is the body of a history response.
type EventList struct {
	Data       []VerificationEvent `json:"data"`
	Pagination Pagination          `json:"pagination"`
	Meta       Meta                `json:"meta"`
}

// Error is the body of every error response.
type Error struct {
	Error         ErrorDetail `json:"error"`
	Documentation string      `json:"documentation"` // absolute URL of the page that explains the code
}

// OperatorError is the body of an error response to an operator.
type OperatorError struct {
	Error         Problem `json:"error"`
	Documentation string  `json:"documentation,omitempty"` // as in Error
}

// ErrorDetail describes an error: Code for programs, Message for people.
type ErrorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Encode returns v as JSON in the form of every response: without HTML escapes, because browsers do
// not render JSON as HTML, and without a final newline.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// ChangeKind is the kind of a change of a record.
type ChangeKind string

const (
	ChangePublished ChangeKind = "published" // it became public, for the first time or again
	ChangeUpdated   ChangeKind = "updated"
	ChangeWithdrawn ChangeKind = "withdrawn"
)

// ChangesKept is the time for which changes can be read. A cursor before an older change has
// expired.
const ChangesKept = 90 * 24 * time.Hour

// RecordChange is the latest change of a record that is or was public.
type RecordChange struct {
	ID     string     `json:"id"` // of the record
	Change ChangeKind `json:"change"`
	At     time.Time  `json:"at"`
	Cursor string     `json:"cursor"` // position behind this change
}

// CursorPagination describes the position of one page of changes.
type CursorPagination struct {
	Limit   int     `json:"limit"` // limit in effect: the requested one, at most the tier's page size
	HasMore bool    `json:"hasMore"`
	Next    *string `json:"next"`   // absolute URL of the next page, null on the last
	Cursor  string  `json:"cursor"` // position behind the page
}

// ChangeList is the body of a response with changes.
type ChangeList struct {
	Data       []RecordChange   `json:"data"`
	Pagination CursorPagination `json:"pagination"`
	Meta       Meta             `json:"meta"`
}

// Timeouts of the gateway. A service behind it must finish earlier to have its own response, error
// included, reach the client.
const (
	// GatewayTimeout limits how long the gateway waits for a service to start its response.
	GatewayTimeout = 10 * time.Second
	// OperatorTimeout limits how long the gateway waits for a service to carry out an operator
	// request.
	OperatorTimeout = 5 * time.Minute
	// FileTimeout limits how long the gateway waits for a service to carry out the import of a
	// file, once it has sent the file.
	FileTimeout = 15 * time.Minute
	// UploadStall limits how long an upload from an operator may take for UploadBlock bytes. It
	// also limits the time without any byte.
	UploadStall = 10 * time.Second
)

// Sizes of request bodies in bytes. The gateway and the service behind it enforce the same.
const (
	MaxForm           = 64 << 10  // a form of a page
	MaxWebhookEvent   = 256 << 10 // an event of a payment processor
	MaxExplorerBody   = 256 << 10 // a response body that the explorer shows; the rest is cut off
	MaxExplorerResult = 512 << 10 // an ExplorerResult
	MaxFile           = 64 << 20  // a file of keys, which is held in memory; files of listings and events have no limit
	UploadBlock       = 64 << 10  // a part of an upload, see UploadStall
)

// Sizes of pages.
const (
	MaxPageSize         = 100  // records: the largest limit of the public API, and of a tier
	MaxOperatorPageSize = 1000 // entries of a list for operators
)

// MaxReported bounds the rejected lines of a file that a response lists. Further ones are only
// counted.
const MaxReported = 200

// ClockTolerance bounds how far a time from a curator may be ahead of the service's clock.
const ClockTolerance = time.Second
