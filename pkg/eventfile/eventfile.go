// Package eventfile reads events files: JSON Lines with one verification event per line. The
// history's append and the lint command validate lines by the same rules.
package eventfile

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
)

// maxSources bounds the source URLs of one event.
const maxSources = 100

// maxEvent bounds an event as JSON, in bytes. Its proof has the event as base64 and must have at
// most 100 KB.
const maxEvent = 64_000

// File is an events file that was read to its end.
type File = jsonlines.File[Line]

// Line is one line of an events file.
type Line struct {
	Number   int                   // counted from 1, blank lines included
	Event    api.VerificationEvent // completed, see complete
	Evidence api.Evidence          // without captures

	given *api.VerificationEvent // the event before it was completed; nil if nothing was added

	LastEventID *string // as in api.Review
}

// Read reads an events file and validates each line at time now. It returns at most maxRejected of
// the invalid lines in Rejected. It does not check whether a slug belongs to a listing. It returns
// an error only if r fails.
func Read(r io.Reader, now time.Time, maxRejected int) (file File, err error) {
	file.Rejections, err = Scan(r, now, maxRejected, file.Add)
	return file, err
}

// Scan is like Read, and passes each valid line to use. An error of use ends it.
func Scan(r io.Reader, now time.Time, maxRejected int, use func(Line) error) (jsonlines.Rejections, error) {
	return jsonlines.Scan(r, maxRejected, func(in jsonlines.Line[api.Review]) (Line, string, api.Problems) {
		line, problems := Line{}, in.Problems
		if len(problems) == 0 {
			line, problems = Check(in.Value, now)
			line.Number = in.Number
		}
		return line, in.Value.Slug, problems
	}, use)
}

// Check validates a review, or a link check, at time now. It returns the form that is recorded:
// UTC, whole microseconds (what the stores keep), no null arrays, completed. Like Read, it does not
// check whether the slug belongs to a listing.
func Check(l api.Review, now time.Time) (read Line, p api.Problems) {
	e := api.VerificationEvent{
		Slug: l.Slug, CheckedAt: l.CheckedAt.UTC().Truncate(time.Microsecond), CheckType: l.CheckType,
		Outcome:    l.Outcome,
		SourceURLs: l.SourceURLs, Note: l.Note,
	}
	if e.SourceURLs == nil {
		e.SourceURLs = []string{}
	}
	if !api.ValidSlug(e.Slug) {
		p.Add("slug", "must be the id of a listing: lower-case letters, digits and single hyphens, "+
			"at most %d characters", api.MaxSlug)
	}
	switch {
	case l.CheckedAt.IsZero():
		p.Add("checkedAt", "is missing")
	case e.CheckedAt.Before(time.Unix(0, 0)):
		p.Add("checkedAt", "must not be before 1970")
	case e.CheckedAt.After(now.Add(api.ClockTolerance)):
		p.Add("checkedAt", "must not be in the future: the clock of the service reads %s",
			now.UTC().Format(time.RFC3339))
	}
	if outcomes, known := api.Outcomes[e.CheckType]; !known {
		api.OneOf(&p, "checkType", e.CheckType, api.FactualReview, api.LinkCheck)
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
	case e.CheckType == api.FactualReview:
		p.Evidence(e.Outcome, e.SourceURLs, l.Facts)
	case e.CheckType == api.LinkCheck && l.Facts != nil:
		p.Add("facts", "must be null or left out: a link check says nothing about facts")
	}
	p.AtMost("note", &e.Note, api.MaxText)
	read.Event, read.LastEventID = e, l.LastEventID
	if len(p) == 0 {
		read.complete()
		read.Evidence, p = evidence(l.Evidence, read.Event)
		if text, _ := json.Marshal(read.Event); len(text) > maxEvent {
			p.Add("", "the event has %d bytes as JSON, want at most %d: shorten sources, notes and requirements",
				len(text), maxEvent)
		}
	}
	return read, p
}

// complete adds what the facts of a review imply: their sources are sources of the review, each
// once, and an outcome of closed means that the platform takes no applications.
func (l *Line) complete() {
	given := l.Event
	if l.Event.Facts != nil {
		l.Event.SourceURLs = unique(append(slices.Clone(given.SourceURLs), given.Facts.Cites(api.FactNames...)...))
		if given.Outcome == api.OutcomeClosed && given.Facts.ApplicationStatus != api.ApplicationClosed {
			l.Event.Facts = new(*given.Facts)
			l.Event.Facts.ApplicationStatus = api.ApplicationClosed
		}
	} else {
		l.Event.SourceURLs = unique(given.SourceURLs)
	}
	if !slices.Equal(l.Event.SourceURLs, given.SourceURLs) || l.Event.Facts != given.Facts {
		l.given = &given
	}
}

// Added returns what complete added or removed, for the author of the line.
func (l Line) Added() (changes api.Problems) {
	if l.given == nil {
		return nil
	}
	given := unique(l.given.SourceURLs)
	for _, u := range l.Event.SourceURLs[len(given):] {
		changes.Add("sourceUrls", "lacks %s, which a fact cites; it is added", u)
	}
	if len(given) < len(l.given.SourceURLs) {
		changes.Add("sourceUrls", "names a page twice; it is recorded once")
	}
	if l.Event.Facts != l.given.Facts {
		changes.Add("facts.applicationStatus", "is recorded as closed, like the outcome")
	}
	return changes
}

func unique[T comparable](values []T) []T {
	kept := make([]T, 0, len(values))
	for _, v := range values {
		if !slices.Contains(kept, v) {
			kept = append(kept, v)
		}
	}
	return kept
}

func evidence(given *api.GivenEvidence, e api.VerificationEvent) (found api.Evidence, p api.Problems) {
	if given == nil {
		return found, nil
	}
	found = api.Evidence{Quotes: unique(given.Quotes), Gone: unique(given.Gone), Unopened: unique(given.Unopened),
		Closed: given.Closed}
	found.Complete()
	if e.CheckType != api.FactualReview && !found.Empty() {
		p.Add("evidence", "must be left out: only a review has evidence")
		return found, p
	}
	p.Quotes("evidence.quotes", found.Quotes, e)
	switch {
	case found.Closed == "":
	case found.Closed != api.ClosedPaused && found.Closed != api.ClosedEnded:
		p.Add("evidence.closed", "must be %s or %s; %q is neither", api.ClosedPaused, api.ClosedEnded, found.Closed)
	case e.Outcome != api.OutcomeClosed:
		p.Add("evidence.closed", "must be left out: only the outcome %s has a reason", api.OutcomeClosed)
	}
	pages := func(field string, urls []string) {
		if len(urls) > maxSources {
			p.Add(field, "must have at most %d elements", maxSources)
		}
		p.URLs(field, urls)
		for i, u := range urls {
			if slices.Contains(e.SourceURLs, u) {
				p.Add(fmt.Sprintf("%s[%d]", field, i), "is also in sourceUrls, the pages that were used")
			}
		}
	}
	pages("evidence.gone", found.Gone)
	pages("evidence.unopened", found.Unopened)
	return found, p
}
