package api

import (
	"encoding/json"
	"time"
)

// ListedListing is a listing in a list for curators, published or not.
type ListedListing struct {
	ID         string   `json:"id"`
	Company    string   `json:"company"`
	Category   Category `json:"category"`
	Visibility string   `json:"visibility"` // private, published or withdrawn
	// of the record, or what it would be if the listing were published
	Status            VerificationStatus `json:"status"`
	ApplicationStatus ApplicationStatus  `json:"applicationStatus"` // in the facts that consumers see
	Sources           int                `json:"sources"`           // how many the listing cites
	PublishedAt       *time.Time         `json:"publishedAt"`
	LastCheckedAt     *time.Time         `json:"lastCheckedAt"` // latest factual review
	UpdatedAt         time.Time          `json:"updatedAt"`     // latest change of the listing
	Host              string             `json:"host"`          // of the company's website, without www.
	DueAt             *time.Time         `json:"dueAt"`         // when it falls due for a review; null unless published
	Lease             *Lease             `json:"lease,omitempty"`
}

// ListingList is a page of listings in the order of their ids.
type ListingList struct {
	Listings []ListedListing `json:"listings"`
	Next     string          `json:"next,omitempty"` // pass it as after to get the next page; empty on the last
}

// ListingDetail is everything about one listing, published or not.
type ListingDetail struct {
	GeneratedAt time.Time       `json:"generatedAt"`
	Version     string          `json:"version"` // of Listing: the entity tag of the response without quotes
	Listing     json.RawMessage `json:"listing"` // a line of a listings file, with visibility and curation
	Record      Opportunity     `json:"record"`  // what consumers see, or would if the listing were published
	CreatedAt   time.Time       `json:"createdAt"`
	UpdatedAt   time.Time       `json:"updatedAt"`
	ChangedAt   *time.Time      `json:"changedAt"` // latest change, outside a review, of a field on which reviews rest
	Changes     []ListingAct    `json:"changes"`   // the latest 100, newest first
}

// ListingAct is something that an operator did to a listing.
type ListingAct struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"` // imported, updated, published or withdrawn
	Fields []string  `json:"fields"` // that it changed
	Reason string    `json:"reason,omitempty"`
}

// CatalogStatus describes what consumers can see.
type CatalogStatus struct {
	GeneratedAt time.Time `json:"generatedAt"`
	FreeSet     FreeSet   `json:"freeSet"`
}

// FreeSet counts the records that the free tier sees, and the other published records by the reason
// why it does not.
type FreeSet struct {
	Records       int `json:"records"`
	Limit         int `json:"limit"`         // most records that it can have
	Published     int `json:"published"`     // the sum of Records and the counts below
	NeverReviewed int `json:"neverReviewed"` // no factual review
	NeedsReview   int `json:"needsReview"`
	Stale         int `json:"stale"`
	NotOpen       int `json:"notOpen"`     // verified, and takes no applications
	BeyondLimit   int `json:"beyondLimit"` // qualifies, and was published later than those in the set
}
