package api

import (
	"reflect"
	"slices"
)

// Facts are the known facts about working on the platform. A nil boolean is unknown: it matches
// neither true nor false.
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

// BoolFacts lists the three-valued facts in the order of Facts. The parser, the index, the
// reference implementations of tests, the command and the tests of the documentation are made from
// it.
var BoolFacts = [...]BoolFact{
	{"remote", "remote", "Remote", func(f *Facts) **bool { return &f.Remote }},
	{"degree_required", "degreeRequired", "Degree required", func(f *Facts) **bool { return &f.DegreeRequired }},
	{"experience_required", "experienceRequired", "Experience required",
		func(f *Facts) **bool { return &f.ExperienceRequired }},
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

// Complete replaces nil slices by empty ones and an empty application status by "unknown". The
// contract has no null arrays, so call it after decoding Facts from an external source.
func (f *Facts) Complete() {
	f.CountryEligibility = present(f.CountryEligibility)
	for i := range f.CountryEligibility {
		c := &f.CountryEligibility[i]
		c.IncludedRegions, c.ExcludedRegions, c.SourceURLs = present(c.IncludedRegions), present(c.ExcludedRegions),
			present(c.SourceURLs)
	}
	f.Languages, f.Requirements, f.RiskIndicators = present(f.Languages), present(f.Requirements),
		present(f.RiskIndicators)
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
func (f Facts) Known() bool { return slices.ContainsFunc(FactNames, f.Knows) }

// Knows reports whether the fact with the name, one of FactNames, is known.
func (f Facts) Knows(name string) bool {
	switch name {
	case "countryEligibility":
		return slices.ContainsFunc(f.CountryEligibility, CountryEligibility.known)
	case "pay":
		return f.Pay != nil
	case "languages":
		return len(f.Languages) > 0
	case "applicationStatus":
		return f.ApplicationStatus != "" && f.ApplicationStatus != ApplicationUnknown
	case "applicationUrl":
		return f.ApplicationURL != nil
	case "requirements":
		return len(f.Requirements) > 0
	case "riskIndicators":
		return len(f.RiskIndicators) > 0
	}
	i := slices.IndexFunc(BoolFacts[:], func(b BoolFact) bool { return b.Name == name })
	return i >= 0 && *BoolFacts[i].Value(&f) != nil
}

// Cites returns the source URLs that the facts with the names cite themselves, without repetition.
func (f Facts) Cites(names ...string) (urls []string) {
	add := func(more ...string) {
		for _, u := range more {
			if u != "" && !slices.Contains(urls, u) {
				urls = append(urls, u)
			}
		}
	}
	for _, name := range names {
		switch name {
		case "countryEligibility":
			for _, c := range f.CountryEligibility {
				add(c.SourceURLs...)
			}
		case "pay":
			if f.Pay != nil {
				add(f.Pay.SourceURL)
			}
		case "riskIndicators":
			for _, r := range f.RiskIndicators {
				add(r.SourceURL)
			}
		}
	}
	return urls
}

func (c CountryEligibility) known() bool {
	return c.Status == Eligible || c.Status == Ineligible || c.AllRegions != nil || len(c.IncludedRegions) > 0 ||
		len(c.ExcludedRegions) > 0
}
