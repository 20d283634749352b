package api

import "time"

// ProfileFreshnessWindow is the time after its oldest check for which a company profile counts as
// fresh.
const ProfileFreshnessWindow = 90 * 24 * time.Hour

// CompanyProfile is sourced background on the company. Its freshness is independent of the
// eligibility review, and nothing in it is averaged or scored. Null and empty mean unknown or not
// yet reviewed.
type CompanyProfile struct {
	Profile
	Freshness  ProfileFreshness `json:"freshness"`
	FreshUntil *time.Time       `json:"freshUntil"`
}

// Profile is the editable part of a company profile. The rest, its freshness, is derived.
type Profile struct {
	Bio                *ProfileText       `json:"bio"`
	FoundedYear        *ProfileYear       `json:"foundedYear"`
	ExperienceSources  []ExperienceSource `json:"experienceSources"`
	EvidenceAssessment *Assessment        `json:"evidenceAssessment"`
}

// ProfileText is a sourced text.
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

// ExperienceSource is an independent website where people review or discuss the company. A
// community source has no Rating.
type ExperienceSource struct {
	URL           string         `json:"url"`
	Publisher     string         `json:"publisher"`
	Kind          ExperienceKind `json:"kind"`
	ReviewerGroup ReviewerGroup  `json:"reviewerGroup"`
	Rating        *Rating        `json:"rating"`
	CheckedAt     CheckDate      `json:"checkedAt"`
}

// ExperienceKind is the kind of an experience source: ratings or discussion.
type ExperienceKind string

const (
	Ratings   ExperienceKind = "ratings"
	Community ExperienceKind = "community"
)

// ReviewerGroup is the group of people who write in an experience source.
type ReviewerGroup string

const (
	Workers   ReviewerGroup = "workers"
	Customers ReviewerGroup = "customers"
	Mixed     ReviewerGroup = "mixed"
)

// Rating is an average of Count ratings on the scale of its source, from Worst to Best.
type Rating struct {
	Value float64 `json:"value"`
	Best  float64 `json:"best"`
	Worst float64 `json:"worst"`
	Count int     `json:"count"`
}

// Assessment is the strength of the evidence about the company, not a judgement of the company.
type Assessment struct {
	Level     AssessmentLevel `json:"level"`
	Note      string          `json:"note"`
	CheckedAt CheckDate       `json:"checkedAt"`
}

// AssessmentLevel is the grade of the evidence.
type AssessmentLevel string

const (
	Strong            AssessmentLevel = "strong"
	Moderate          AssessmentLevel = "moderate"
	Limited           AssessmentLevel = "limited"
	AssessmentUnknown AssessmentLevel = "unknown"
)

// ProfileFreshness is the freshness of a profile's evidence at the time of the response.
type ProfileFreshness string

const (
	ProfileFresh   ProfileFreshness = "fresh"
	ProfileStale   ProfileFreshness = "stale"
	ProfileUnknown ProfileFreshness = "unknown"
)

// Complete replaces nil slices by empty ones and derives FreshUntil from the oldest check. It does
// not set Freshness, which depends on the clock; see FreshnessAt. It ignores check dates that do
// not parse, so validate them first.
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

// FreshnessAt returns the freshness of the profile at now. It is unknown if the profile has no
// check.
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

func (p Profile) checks() (checks []CheckDate) {
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
