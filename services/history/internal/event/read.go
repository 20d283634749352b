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

// MaxReported is how many refused lines are named; of a file with more, the rest is only counted.
const MaxReported = 200

// File is an events file that was read to its end.
type File struct {
	Lines   []Line        // that may be recorded
	Refused []api.Refusal // the first MaxReported others
	Omitted int           // refused lines beyond those
}

// Line is one line of an events file.
type Line struct {
	Number int // counted from 1, blank lines included
	Event  api.VerificationEvent
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
// caller to find out. The error is r's alone; a wrong line is among Refused.
func Read(r io.Reader, now time.Time) (File, error) {
	var file File
	for in, err := range jsonlines.Read[fileEvent](r) {
		if err != nil {
			return File{}, err
		}
		var e api.VerificationEvent
		problems := in.Problems
		if len(problems) == 0 {
			e, problems = in.Value.check(now)
		}
		switch {
		case len(problems) == 0:
			file.Lines = append(file.Lines, Line{Number: in.Number, Event: e})
		case len(file.Refused) < MaxReported:
			file.Refused = append(file.Refused, api.Refusal{Line: in.Number, ID: in.Value.Slug, Problems: problems})
		default:
			file.Omitted++
		}
	}
	return file, nil
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
