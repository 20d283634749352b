package api

import (
	"reflect"
	"slices"
)

// Facts are the known facts about working on the platform. A nil boolean is unknown: it matches neither true nor false.
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

// BoolFact is a fact that is true, false or unknown, and the query parameter that filters by it.
type BoolFact struct {
	Param string // query parameter
	Name  string // JSON field of Facts
	Label string // for people
	Value func(f *Facts) **bool
}

// BoolFacts lists the three-valued facts in the order of Facts. The parser, the index, the reference implementations of tests, the command
// and the tests of the documentation are made from it.
var BoolFacts = [...]BoolFact{
	{"remote", "remote", "Remote", func(f *Facts) **bool { return &f.Remote }},
	{"degree_required", "degreeRequired", "Degree required", func(f *Facts) **bool { return &f.DegreeRequired }},
	{"experience_required", "experienceRequired", "Experience required", func(f *Facts) **bool { return &f.ExperienceRequired }},
	{"flexible", "flexibleSchedule", "Flexible schedule", func(f *Facts) **bool { return &f.FlexibleSchedule }},
}

// FactNames are the JSON names of all facts, in the order of Facts.
var FactNames = func() (names []string) {
	for f := range reflect.TypeFor[Facts]().Fields() {
		names = append(names, f.Tag.Get("json"))
	}
	return names
}()

// UnknownFacts returns facts that are all unknown.
func UnknownFacts() Facts {
	var f Facts
	f.Complete()
	return f
}

// Complete replaces nil slices by empty ones and an empty application status by "unknown". The contract has no null arrays, so
// call it after decoding Facts from an external source.
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

// Known reports whether any fact is known.
func (f Facts) Known() bool {
	for _, b := range BoolFacts {
		if *b.Value(&f) != nil {
			return true
		}
	}
	return f.Pay != nil || f.ApplicationURL != nil || f.ApplicationStatus != "" && f.ApplicationStatus != ApplicationUnknown ||
		len(f.Languages) > 0 || len(f.Requirements) > 0 || len(f.RiskIndicators) > 0 ||
		slices.ContainsFunc(f.CountryEligibility, CountryEligibility.known)
}

func (c CountryEligibility) known() bool {
	return c.Status == Eligible || c.Status == Ineligible || c.AllRegions != nil || len(c.IncludedRegions) > 0 || len(c.ExcludedRegions) > 0
}
