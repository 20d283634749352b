// Package eventfile reads events files: JSON Lines with one verification event per line. The history's append and the lint command
// validate lines by the same rules.
package eventfile

import (
	"io"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
)

// maxSources bounds the source URLs of one event.
const maxSources = 100

// File is an events file that was read to its end.
type File struct {
	Lines []Line // valid lines
	Rejections
}

// Rejections are the invalid lines of a file.
type Rejections struct {
	Rejected []api.RejectedLine // the first rejected lines
	Omitted  int                // rejected lines beyond those
}

// Line is one line of an events file.
type Line struct {
	Number int // counted from 1, blank lines included
	Event  api.VerificationEvent

	// LastEventID is the newest recorded event of the listing that the curator had seen, "" if there was none. It is a
	// precondition of the append and no part of the event; nil if the line has none.
	LastEventID *string
}

// line is a VerificationEvent as a file has it: without an id, which the service assigns.
type line struct {
	Slug        string          `json:"slug"`
	CheckedAt   time.Time       `json:"checkedAt"`
	CheckType   api.CheckType   `json:"checkType"`
	Outcome     api.Outcome     `json:"outcome"`
	SourceURLs  []string        `json:"sourceUrls"`
	Facts       *api.GivenFacts `json:"facts"`
	Note        string          `json:"note"`
	LastEventID *string         `json:"lastEventId"`
}

// Read reads an events file and validates each line at time now. It returns at most maxRejected of the invalid lines in Rejected. It does
// not check whether a slug belongs to a listing. It returns an error only if r fails.
func Read(r io.Reader, now time.Time, maxRejected int) (file File, err error) {
	file.Rejections, err = Scan(r, now, maxRejected, func(l Line) error {
		file.Lines = append(file.Lines, l)
		return nil
	})
	return file, err
}

// Scan is like Read, and passes each valid line to use. An error of use ends it.
func Scan(r io.Reader, now time.Time, maxRejected int, use func(Line) error) (all Rejections, err error) {
	for in, err := range jsonlines.Read[line](r) {
		if err != nil {
			return Rejections{}, err
		}
		var e api.VerificationEvent
		problems := in.Problems
		if len(problems) == 0 {
			e, problems = in.Value.check(now)
		}
		switch {
		case len(problems) == 0:
			if err := use(Line{Number: in.Number, Event: e, LastEventID: in.Value.LastEventID}); err != nil {
				return Rejections{}, err
			}
		case len(all.Rejected) < maxRejected:
			all.Rejected = append(all.Rejected, api.RejectedLine{Line: in.Number, ID: in.Value.Slug, Problems: problems})
		default:
			all.Omitted++
		}
	}
	return all, nil
}

// check brings the line into the form that is recorded: UTC, whole microseconds (what the stores keep), no null arrays.
func (l line) check(now time.Time) (e api.VerificationEvent, p api.Problems) {
	e = api.VerificationEvent{
		Slug: l.Slug, CheckedAt: l.CheckedAt.UTC().Truncate(time.Microsecond), CheckType: l.CheckType, Outcome: l.Outcome,
		SourceURLs: l.SourceURLs, Note: l.Note,
	}
	if e.SourceURLs == nil {
		e.SourceURLs = []string{}
	}
	if !api.ValidSlug(e.Slug) {
		p.Add("slug", "must be the id of a listing: lower-case letters, digits and single hyphens, at most %d characters", api.MaxSlug)
	}
	switch {
	case l.CheckedAt.IsZero():
		p.Add("checkedAt", "is missing")
	case e.CheckedAt.Before(time.Unix(0, 0)):
		p.Add("checkedAt", "must not be before 1970")
	case e.CheckedAt.After(now.Add(api.ClockTolerance)):
		p.Add("checkedAt", "must not be in the future: the clock of the service reads %s", now.UTC().Format(time.RFC3339))
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
	if l.Facts != nil {
		l.Facts.Normalize("facts", &p)
		e.Facts = &l.Facts.Facts
	}
	switch {
	case e.CheckType == api.Review:
		p.Evidence(e.Outcome, e.SourceURLs, l.Facts)
	case e.CheckType == api.LinkCheck && l.Facts != nil:
		p.Add("facts", "must be null or left out: a link check says nothing about facts")
	}
	p.AtMost("note", e.Note, api.MaxText)
	return e, p
}
