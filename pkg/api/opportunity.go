package api

import "time"

// Kind is the kind of every record: a platform on which people earn, never a single vacancy.
const Kind = "earning-platform"

// Opportunity is one maintained record of an earning platform, as the list and the detail endpoint serve it.
// Every field is always present; a nil pointer is encoded as null and means "unknown".
type Opportunity struct {
	ID             string          `json:"id"`
	Kind           string          `json:"kind"`
	Company        Company         `json:"company"`
	ApplicationURL string          `json:"applicationUrl"`
	Category       Category        `json:"category"`
	Subcategory    *string         `json:"subcategory"`
	Summary        string          `json:"summary"`
	Overview       string          `json:"overview"`
	StartingCost   string          `json:"startingCost"`
	WorkModel      string          `json:"workModel"`
	PublishedAt    *time.Time      `json:"publishedAt"`
	Facts          Facts           `json:"facts"`
	Verification   Verification    `json:"verification"`
	Sources        []Source        `json:"sources"`
	CompanyProfile *CompanyProfile `json:"companyProfile"`
}

// Company names who runs the platform.
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

// Categories lists every category, in the order in which the documentation names them.
var Categories = []Category{Online, Sell, Local, Host}

// Source is a page that supports the record, with the day or the instant at which it was last checked.
type Source struct {
	URL       string     `json:"url"`
	CheckedAt *CheckDate `json:"checkedAt"`
}

// Facts are what is known about working on the platform. Unknown stays unknown: a nil boolean matches neither true nor false.
type Facts struct {
	CountryEligibility []CountryEligibility `json:"countryEligibility"`
	Remote             *bool                `json:"remote"`
	DegreeRequired     *bool                `json:"degreeRequired"`
	ExperienceRequired *bool                `json:"experienceRequired"`
	FlexibleSchedule   *bool                `json:"flexibleSchedule"`
	Pay                *Pay                 `json:"pay"`
	Languages          []string             `json:"languages"`
	ApplicationStatus  ApplicationStatus    `json:"applicationStatus"`
	ApplicationURL     *string              `json:"applicationUrl"`
	Requirements       []string             `json:"requirements"`
	RiskIndicators     []RiskIndicator      `json:"riskIndicators"`
}

// UnknownFacts are the facts of a record about which nothing was recorded.
func UnknownFacts() Facts {
	var f Facts
	f.Complete()
	return f
}

// Complete gives what was left out its explicit form: empty arrays instead of null, and the application status "unknown".
// The contract has no null arrays, so whoever decodes Facts from outside calls it once.
func (f *Facts) Complete() {
	f.CountryEligibility = present(f.CountryEligibility)
	for i := range f.CountryEligibility {
		c := &f.CountryEligibility[i]
		c.IncludedRegions, c.ExcludedRegions, c.SourceURLs = present(c.IncludedRegions), present(c.ExcludedRegions), present(c.SourceURLs)
	}
	f.Languages, f.Requirements, f.RiskIndicators = present(f.Languages), present(f.Requirements), present(f.RiskIndicators)
	if f.ApplicationStatus == "" {
		f.ApplicationStatus = ApplicationUnknown
	}
}

func present[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// CountryEligibility says whether residents of a country, or of some of its regions, may work on the platform.
// Regions are ISO 3166-2 codes ("CA-ON"); exclusions take precedence over inclusions and over AllRegions.
type CountryEligibility struct {
	Country         string      `json:"country"` // ISO 3166-1 alpha-2, upper case
	Status          Eligibility `json:"status"`
	AllRegions      *bool       `json:"allRegions"`
	IncludedRegions []string    `json:"includedRegions"`
	ExcludedRegions []string    `json:"excludedRegions"`
	SourceURLs      []string    `json:"sourceUrls"`
	Note            string      `json:"note"`
}

// Eligibility is what is known of a country's residents.
type Eligibility string

const (
	Eligible           Eligibility = "eligible"
	Ineligible         Eligibility = "ineligible"
	EligibilityUnknown Eligibility = "unknown"
)

// Pay is a sourced range of pay. Minimum and Maximum are amounts of Currency (ISO 4217) for one Unit.
type Pay struct {
	Minimum   float64 `json:"minimum"`
	Maximum   float64 `json:"maximum"`
	Currency  string  `json:"currency"`
	Unit      PayUnit `json:"unit"`
	SourceURL string  `json:"sourceUrl"`
}

// PayUnit is what one payment is for.
type PayUnit string

const (
	PerHour        PayUnit = "hour"
	PerYear        PayUnit = "year"
	PerTask        PayUnit = "task"
	PerAudioMinute PayUnit = "audio-minute"
)

// ApplicationStatus says whether the platform takes applications.
type ApplicationStatus string

const (
	ApplicationOpen     ApplicationStatus = "open"
	ApplicationWaitlist ApplicationStatus = "waitlist"
	ApplicationClosed   ApplicationStatus = "closed"
	ApplicationUnknown  ApplicationStatus = "unknown"
)

// RiskIndicator is an evidenced caution. A record without any is not thereby safe.
type RiskIndicator struct {
	Code      string `json:"code"`
	Note      string `json:"note"`
	SourceURL string `json:"sourceUrl"`
}
