package api

import "time"

// Version is the version of the API: it stands in every answer and in the path prefix.
const Version = "1"

// ContractVersion is the version of the interface description, openapi.yaml.
const ContractVersion = "1.0.0"

// Pagination places one page among all records that the caller may see.
type Pagination struct {
	Page    int     `json:"page"`
	Limit   int     `json:"limit"` // the effective limit: what was asked for, but at most the tier's cap
	Total   int     `json:"total"`
	HasMore bool    `json:"hasMore"`
	Next    *string `json:"next"` // absolute URL of the next page, null on the last
}

// Meta describes an answer. GeneratedAt is the instant at which every verification status in it is true.
type Meta struct {
	Version       string    `json:"version"`
	GeneratedAt   time.Time `json:"generatedAt"`
	FreshnessDays int       `json:"freshnessDays"`
	Kind          string    `json:"kind"`
	Tier          Tier      `json:"tier"`
}

// NewMeta describes an answer made at now for a caller of that tier.
func NewMeta(tier Tier, now time.Time) Meta {
	return Meta{Version: Version, GeneratedAt: now.UTC(), FreshnessDays: FreshnessDays, Kind: Kind, Tier: tier}
}

// OpportunityList is the body of a list answer.
type OpportunityList struct {
	Data       []Opportunity `json:"data"`
	Pagination Pagination    `json:"pagination"`
	Meta       Meta          `json:"meta"`
}

// OpportunityDetail is the body of a detail answer.
type OpportunityDetail struct {
	Data Opportunity `json:"data"`
	Meta Meta        `json:"meta"`
}

// EventList is the body of a history answer.
type EventList struct {
	Data       []VerificationEvent `json:"data"`
	Pagination Pagination          `json:"pagination"`
	Meta       Meta                `json:"meta"`
}

// Error is the body of every answer that is not a success.
type Error struct {
	Error         ErrorDetail `json:"error"`
	Documentation string      `json:"documentation"` // absolute URL of the page that explains the code
}

// ErrorDetail says what was wrong: Code for programs, Message for people.
type ErrorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}
