package api

import "time"

// ProfileFreshnessWindow is how long the evidence of a company profile counts as fresh after its oldest included check.
const ProfileFreshnessWindow = 90 * 24 * time.Hour

// CompanyProfile is sourced background on the company. It is evidence of its own: it neither refreshes nor is refreshed by
// the eligibility review, and nothing in it is averaged or scored. Null and empty mean unknown or not yet reviewed.
type CompanyProfile struct {
	Bio                *ProfileText       `json:"bio"`
	FoundedYear        *ProfileYear       `json:"foundedYear"`
	ExperienceSources  []ExperienceSource `json:"experienceSources"`
	EvidenceAssessment *Assessment        `json:"evidenceAssessment"`
	Freshness          ProfileFreshness   `json:"freshness"`
	FreshUntil         *time.Time         `json:"freshUntil"`
}

// ProfileText is a sourced statement in words.
type ProfileText struct {
	Text      string    `json:"text"`
	SourceURL string    `json:"sourceUrl"`
	CheckedAt CheckDate `json:"checkedAt"`
}

// ProfileYear is a sourced calendar year.
type ProfileYear struct {
	Value     int       `json:"value"`
	SourceURL string    `json:"sourceUrl"`
	CheckedAt CheckDate `json:"checkedAt"`
}

// ExperienceSource is an independent place where people describe the company. A community source never has a Rating.
type ExperienceSource struct {
	URL           string         `json:"url"`
	Publisher     string         `json:"publisher"`
	Kind          ExperienceKind `json:"kind"`
	ReviewerGroup ReviewerGroup  `json:"reviewerGroup"`
	Rating        *Rating        `json:"rating"`
	CheckedAt     CheckDate      `json:"checkedAt"`
}

// ExperienceKind tells a source that rates from one that discusses.
type ExperienceKind string

const (
	Ratings   ExperienceKind = "ratings"
	Community ExperienceKind = "community"
)

// ReviewerGroup is who speaks in an experience source.
type ReviewerGroup string

const (
	Workers   ReviewerGroup = "workers"
	Customers ReviewerGroup = "customers"
	Mixed     ReviewerGroup = "mixed"
)

// Rating stays on the scale of its source: Value lies between Worst and Best, out of Count ratings.
type Rating struct {
	Value float64 `json:"value"`
	Best  float64 `json:"best"`
	Worst float64 `json:"worst"`
	Count int     `json:"count"`
}

// Assessment says how strong the evidence about the company is. It is not a judgement of the company.
type Assessment struct {
	Level     AssessmentLevel `json:"level"`
	Note      string          `json:"note"`
	CheckedAt CheckDate       `json:"checkedAt"`
}

// AssessmentLevel grades the evidence.
type AssessmentLevel string

const (
	Strong            AssessmentLevel = "strong"
	Moderate          AssessmentLevel = "moderate"
	Limited           AssessmentLevel = "limited"
	AssessmentUnknown AssessmentLevel = "unknown"
)

// ProfileFreshness is the state of a profile's evidence at the instant of the answer.
type ProfileFreshness string

const (
	ProfileFresh   ProfileFreshness = "fresh"
	ProfileStale   ProfileFreshness = "stale"
	ProfileUnknown ProfileFreshness = "unknown"
)

// Complete gives absent arrays their explicit empty form and derives FreshUntil from the oldest included check. Freshness is
// left to FreshnessAt, because it depends on the clock.
// Check dates must have been validated; one that does not parse is ignored here.
func (p *CompanyProfile) Complete() {
	p.ExperienceSources = present(p.ExperienceSources)
	p.Freshness, p.FreshUntil = ProfileUnknown, nil
	var oldest time.Time
	for _, d := range p.checks() {
		if t, err := d.Time(); err == nil && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	if !oldest.IsZero() {
		until := oldest.Add(ProfileFreshnessWindow)
		p.FreshUntil = &until
	}
}

// FreshnessAt is the freshness of the profile at now: unknown where it includes no check.
func (p *CompanyProfile) FreshnessAt(now time.Time) ProfileFreshness {
	switch {
	case p.FreshUntil == nil:
		return ProfileUnknown
	case now.Before(*p.FreshUntil):
		return ProfileFresh
	default:
		return ProfileStale
	}
}

func (p *CompanyProfile) checks() []CheckDate {
	var checks []CheckDate
	if p.Bio != nil {
		checks = append(checks, p.Bio.CheckedAt)
	}
	if p.FoundedYear != nil {
		checks = append(checks, p.FoundedYear.CheckedAt)
	}
	for _, s := range p.ExperienceSources {
		checks = append(checks, s.CheckedAt)
	}
	if p.EvidenceAssessment != nil {
		checks = append(checks, p.EvidenceAssessment.CheckedAt)
	}
	return checks
}
