package api

import (
	"encoding/json"
	"time"
)

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
