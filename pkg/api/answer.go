package api

import (
	"bytes"
	"encoding/json"
	"time"
)

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
