package event

import (
	"io"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
)

// clockSkew is how far ahead of ours a curator's clock may be.
const clockSkew = 5 * time.Minute

// maxSources bounds the addresses of one event.
const maxSources = 100

// Line is one line of an events file.
type Line struct {
	Number   int                   // counted from 1, blank lines included
	Event    api.VerificationEvent // where there are problems, no more than what could be read
	Problems api.Problems          // empty where Event may be recorded
}

// fileEvent is a VerificationEvent as a file has it: without an id, which the service gives.
type fileEvent struct {
	Slug       string        `json:"slug"`
	CheckedAt  time.Time     `json:"checkedAt"`
	CheckType  api.CheckType `json:"checkType"`
	Outcome    api.Outcome   `json:"outcome"`
	SourceURLs []string      `json:"sourceUrls"`
	Facts      *api.Facts    `json:"facts"`
	Note       string        `json:"note"`
}

// Read reads an events file, JSON Lines, and judges every line at the instant now; whether a slug names a listing is for the
// caller to find out. The error is that of file.
func Read(file io.Reader, now time.Time) ([]Line, error) {
	var lines []Line
	for in, err := range jsonlines.Read[fileEvent](file) {
		if err != nil {
			return nil, err
		}
		line := Line{Number: in.Number, Problems: in.Problems}
		line.Event.Slug = in.Value.Slug
		if len(in.Problems) == 0 {
			line.Event, line.Problems = in.Value.check(now)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// check brings the line into the form that is recorded: UTC, whole microseconds (what the stores keep), no null arrays.
func (f fileEvent) check(now time.Time) (e api.VerificationEvent, p api.Problems) {
	e = api.VerificationEvent{
		Slug: f.Slug, CheckedAt: f.CheckedAt.UTC().Truncate(time.Microsecond), CheckType: f.CheckType, Outcome: f.Outcome,
		SourceURLs: f.SourceURLs, Facts: f.Facts, Note: f.Note,
	}
	if e.SourceURLs == nil {
		e.SourceURLs = []string{}
	}
	if !api.ValidSlug(e.Slug) {
		p.Add("slug", "must be the id of a listing: lower-case letters, digits and single hyphens, at most %d characters", api.MaxSlug)
	}
	switch {
	case f.CheckedAt.IsZero():
		p.Add("checkedAt", "is missing")
	case e.CheckedAt.Before(time.Unix(0, 0)):
		p.Add("checkedAt", "must not be before 1970")
	case e.CheckedAt.After(now.Add(clockSkew)):
		p.Add("checkedAt", "must not be in the future")
	}
	if outcomes, known := api.Outcomes[e.CheckType]; !known {
		api.OneOf(&p, "checkType", e.CheckType, api.Review, api.LinkCheck)
	} else {
		api.OneOf(&p, "outcome", e.Outcome, outcomes...)
	}
	if len(e.SourceURLs) > maxSources {
		p.Add("sourceUrls", "must have at most %d elements", maxSources)
	}
	p.URLs("sourceUrls", e.SourceURLs)
	if e.Facts != nil {
		if e.CheckType == api.LinkCheck {
			p.Add("facts", "must be null or left out: a link check says nothing about facts")
		}
		e.Facts.Normalize("facts", &p)
	}
	p.AtMost("note", e.Note, api.MaxText)
	return e, p
}
