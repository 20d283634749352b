package api

import "time"

// Kind is the kind of every record: a platform on which people earn money, not a single vacancy.
const Kind = "earning-platform"

// Opportunity is the record of one earning platform, as served by the list and detail endpoints.
// All fields are always present; a nil pointer is encoded as null and means "unknown".
type Opportunity struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Platform
	PublishedAt    *time.Time      `json:"publishedAt"`
	Facts          Facts           `json:"facts"`
	Verification   Verification    `json:"verification"`
	Sources        []Source        `json:"sources"`
	CompanyProfile *CompanyProfile `json:"companyProfile"`
}

// Platform describes a platform. Its fields are part of the record and of the listing that curators
// edit.
//
// The tag change, here and on the other fields of a listing, classifies an edit outside a review: a
// material one puts the latest review in doubt, an editorial one does not.
type Platform struct {
	Company        Company  `json:"company" change:"material"`
	ApplicationURL string   `json:"applicationUrl" change:"material"`
	Category       Category `json:"category" change:"material"`
	Subcategory    *string  `json:"subcategory" change:"editorial"`
	Summary        string   `json:"summary" change:"editorial"`
	Overview       string   `json:"overview" change:"editorial"`
	StartingCost   string   `json:"startingCost" change:"material"`
	WorkModel      string   `json:"workModel" change:"material"`
}

// Company is the company that runs the platform.
type Company struct {
	Name    string `json:"name"`
	Website string `json:"website"`
}

// Category is the primary way of earning on a platform.
type Category string

const (
	Online Category = "online"
	Sell   Category = "sell"
	Local  Category = "local"
	Host   Category = "host"
)

// Categories lists all categories in documentation order.
var Categories = []Category{Online, Sell, Local, Host}

// Source is a web page that supports the record, with the date or time of its latest check.
type Source struct {
	URL       string     `json:"url"`
	CheckedAt *CheckDate `json:"checkedAt"`
}

// CountryEligibility is the eligibility of residents of a country, or of some of its regions, to
// work on the platform. Regions are ISO 3166-2 codes ("CA-ON"). ExcludedRegions take precedence
// over IncludedRegions and AllRegions.
type CountryEligibility struct {
	Country         string      `json:"country"` // ISO 3166-1 alpha-2, upper case
	Status          Eligibility `json:"status"`
	AllRegions      *bool       `json:"allRegions"`
	IncludedRegions []string    `json:"includedRegions"`
	ExcludedRegions []string    `json:"excludedRegions"`
	SourceURLs      []string    `json:"sourceUrls"`
	Note            string      `json:"note"`
}

// Eligibility is the known eligibility of a country's residents.
type Eligibility string

const (
	Eligible           Eligibility = "eligible"
	Ineligible         Eligibility = "ineligible"
	EligibilityUnknown Eligibility = "unknown"
)

// Pay is a sourced pay range. Minimum and Maximum are amounts of Currency (ISO 4217) for one Unit.
type Pay struct {
	Minimum   float64 `json:"minimum"`
	Maximum   float64 `json:"maximum"`
	Currency  string  `json:"currency"`
	Unit      PayUnit `json:"unit"`
	SourceURL string  `json:"sourceUrl"`
}

// PayUnit is the unit of time or work that pay is quoted for.
type PayUnit string

const (
	PerHour        PayUnit = "hour"
	PerYear        PayUnit = "year"
	PerTask        PayUnit = "task"
	PerAudioMinute PayUnit = "audio-minute"
)

// PayUnits lists all units in documentation order.
var PayUnits = []PayUnit{PerHour, PerYear, PerTask, PerAudioMinute}

// ApplicationStatus is the state of applications at the platform.
type ApplicationStatus string

const (
	ApplicationOpen     ApplicationStatus = "open"
	ApplicationWaitlist ApplicationStatus = "waitlist"
	ApplicationClosed   ApplicationStatus = "closed"
	ApplicationUnknown  ApplicationStatus = "unknown"
)

// ApplicationStatuses lists all states in documentation order.
var ApplicationStatuses = []ApplicationStatus{ApplicationOpen, ApplicationWaitlist, ApplicationClosed,
	ApplicationUnknown}

// RiskIndicator is a sourced warning. A record without any is not necessarily safe.
type RiskIndicator struct {
	Code      string `json:"code"`
	Note      string `json:"note"`
	SourceURL string `json:"sourceUrl"`
}
