package listingfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
)

// Limits in addition to those of pkg/api.
const (
	MaxName     = 200    // characters of a company's, publisher's or subcategory's name
	MaxOverview = 20_000 // characters of an overview or a bio
)

// Format and Version are the values in the header of a file. A file without a header is read as
// this version, because old files have none.
const (
	Format  = "opportunity-listings"
	Version = 1
)

// Header is the first line of a file.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// NewHeader returns the header of files with this Format and Version.
func NewHeader() Header { return Header{Format, Version} }

// Line is a line of a file in normal form: regions and arrays as stored, times in UTC.
type Line struct {
	Listing

	Visibility Visibility    `json:"visibility"` // "" if the line omits it
	Curation   *api.Curation `json:"curation"`   // separate from Listing, so that no API response contains it

	Number int `json:"-"` // line number in the file, from 1
}

// File is the content of a file. If its header has an unknown format or version, only the header
// was read.
type File = jsonlines.File[Line]

// Read reads a file and validates each line at time now. It returns at most maxRejected of the
// invalid lines in Rejected. It returns an error only if r fails.
func Read(r io.Reader, now time.Time, maxRejected int) (file File, err error) {
	file.Rejections, err = Scan(r, now, maxRejected, file.Add)
	return file, err
}

// Scan is like Read, and passes each valid line to use. Of the lines before, it keeps only their
// ids. An error of use ends it.
func Scan(r io.Reader, now time.Time, maxRejected int, use func(Line) error) (jsonlines.Rejections, error) {
	head, r := header(r)
	if len(head) > 0 { // every line of another version would be invalid
		return jsonlines.Rejections{Rejected: []api.RejectedLine{{Line: 1, Problems: head}}}, nil
	}
	if r == nil {
		return jsonlines.Rejections{}, nil
	}
	first := map[string]int{} // line on which an id was first seen
	return jsonlines.Scan(r, maxRejected, func(in jsonlines.Line[Line]) (Line, string, api.Problems) {
		line, problems := in.Value, in.Problems
		line.Number = in.Number
		if len(problems) == 0 {
			line.normalize(&problems, now)
		}
		if at, twice := first[line.ID]; twice {
			problems.Add("id", "is on line %d already", at)
		} else if line.ID != "" {
			first[line.ID] = in.Number
		}
		return line, line.ID, problems
	}, use)
}

// maxHeader is the maximum length of a header in bytes.
const maxHeader = 4 << 10

// header reads and validates the header of a file, if it has one. It returns the file with a blank
// first line in its place, so line numbers stay the same, or nil if nothing follows the header.
func header(r io.Reader) (api.Problems, io.Reader) {
	in := bufio.NewReaderSize(r, maxHeader)
	start, _ := in.Peek(maxHeader) // reading from in returns the error again
	line, _, ended := bytes.Cut(start, []byte("\n"))
	if !ended && len(start) == maxHeader {
		return nil, in
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
	var named map[string]json.RawMessage
	if json.Unmarshal(text, &named) != nil || named["format"] == nil {
		return nil, in
	}
	var problems api.Problems
	for h, err := range jsonlines.Read[Header](bytes.NewReader(text)) { // once
		switch {
		case err != nil || len(h.Problems) > 0: // err is always nil: a bytes.Reader does not fail
			problems = h.Problems
		case h.Value.Format != Format:
			problems.Add("format", "must be %s", Format)
		case h.Value.Version != Version:
			problems.Add("version", "must be %d: this release reads no other version", Version)
		}
	}
	_, _ = in.Discard(len(line)) // keeps the line feed, for the line numbers
	if rest, err := in.Peek(maxHeader); errors.Is(err, io.EOF) && len(bytes.TrimSpace(rest)) == 0 {
		return problems, nil
	}
	return problems, in
}

// NeedsSource is the problem of a published listing without sources.
var NeedsSource = api.Problem{
	Path: "sources", Message: "a published listing needs at least one: add the page that supports it",
}

func (l *Line) normalize(p *api.Problems, now time.Time) {
	if !api.ValidSlug(l.ID) {
		p.Add("id", "must be lower-case letters and digits in groups joined by hyphens, at most %d characters", api.MaxSlug)
	}
	p.Name("company.name", &l.Company.Name, MaxName)
	p.URL("company.website", l.Company.Website)
	p.URL("applicationUrl", l.ApplicationURL)
	api.OneOf(p, "category", l.Category, api.Categories...)
	if l.Subcategory != nil {
		p.Name("subcategory", l.Subcategory, MaxName)
	}
	p.Text("summary", &l.Summary, api.MaxText)
	p.AtMost("overview", &l.Overview, MaxOverview)
	p.AtMost("startingCost", &l.StartingCost, api.MaxText)
	p.AtMost("workModel", &l.WorkModel, api.MaxText)
	if l.PublishedAt != nil {
		at := l.PublishedAt.UTC().Truncate(time.Microsecond)
		switch {
		case at.After(now.Add(api.ClockTolerance)):
			p.Add("publishedAt", "must not be in the future (%s): use null, and publishing sets it", at.Format(time.RFC3339))
		case at.After(now):
			at = now.UTC().Truncate(time.Microsecond)
		default:
			plausible(p, "publishedAt", at)
		}
		l.PublishedAt = &at
	}
	if l.Facts != nil {
		l.Facts.Normalize("facts", p)
	}
	if l.Sources == nil {
		l.Sources = []api.Source{}
	}
	pages := make([]string, len(l.Sources))
	for i, s := range l.Sources {
		at := fmt.Sprintf("sources[%d]", i)
		pages[i] = s.URL
		p.URL(at+".url", s.URL)
		if s.CheckedAt != nil {
			checkDate(p, at+".checkedAt", *s.CheckedAt, now)
		}
	}
	p.Unique("sources", pages)
	if l.Visibility == Published && len(l.Sources) == 0 {
		*p = append(*p, NeedsSource)
	}
	if l.CompanyProfile != nil {
		normalizeProfile(l.CompanyProfile, "companyProfile", p, now)
	}
	if l.Visibility != "" {
		// Exports contain withdrawn listings. See Line.Update in the catalog for the effect of an
		// import.
		api.OneOf(p, "visibility", l.Visibility, Private, Published, Withdrawn)
	}
	if l.Curation != nil {
		p.AtMost("curation.contact", &l.Curation.Contact, api.MaxText)
		p.AtMost("curation.notes", &l.Curation.Notes, MaxOverview)
	}
}

func normalizeProfile(c *api.Profile, field string, p *api.Problems, now time.Time) {
	if b := c.Bio; b != nil {
		p.Text(field+".bio.text", &b.Text, MaxOverview)
		p.URL(field+".bio.sourceUrl", b.SourceURL)
		checkDate(p, field+".bio.checkedAt", b.CheckedAt, now)
	}
	if y := c.FoundedYear; y != nil {
		if y.Value < 1000 || y.Value > 9999 {
			p.Add(field+".foundedYear.value", "must be a year of four digits; it is %d", y.Value)
		}
		p.URL(field+".foundedYear.sourceUrl", y.SourceURL)
		checkDate(p, field+".foundedYear.checkedAt", y.CheckedAt, now)
	}
	if c.ExperienceSources == nil {
		c.ExperienceSources = []api.ExperienceSource{}
	}
	for i := range c.ExperienceSources {
		s, at := &c.ExperienceSources[i], fmt.Sprintf("%s.experienceSources[%d]", field, i)
		p.URL(at+".url", s.URL)
		p.Name(at+".publisher", &s.Publisher, MaxName)
		api.OneOf(p, at+".kind", s.Kind, api.Ratings, api.Community)
		api.OneOf(p, at+".reviewerGroup", s.ReviewerGroup, api.Workers, api.Customers, api.Mixed)
		if s.Rating != nil {
			rating(p, at+".rating", s.Kind, *s.Rating)
		}
		checkDate(p, at+".checkedAt", s.CheckedAt, now)
	}
	if a := c.EvidenceAssessment; a != nil {
		at := field + ".evidenceAssessment"
		api.OneOf(p, at+".level", a.Level, api.Strong, api.Moderate, api.Limited, api.AssessmentUnknown)
		p.AtMost(at+".note", &a.Note, api.MaxText)
		checkDate(p, at+".checkedAt", a.CheckedAt, now)
	}
}

func rating(p *api.Problems, field string, kind api.ExperienceKind, r api.Rating) {
	if kind == api.Community {
		p.Add(field, "must be null: a community source has no rating")
	}
	if r.Worst >= r.Best {
		p.Add(field+".best", "must be above worst")
	}
	if r.Value < r.Worst || r.Value > r.Best {
		p.Add(field+".value", "must be between worst and best")
	}
	if r.Count < 0 {
		p.Add(field+".count", "must not be negative")
	}
}

// checkDate records a problem unless d is the time of a check that is not after now.
func checkDate(p *api.Problems, field string, d api.CheckDate, now time.Time) {
	at, err := d.Time()
	switch {
	case err != nil:
		p.Add(field, "must be a date (2026-11-20) or a timestamp with an offset (2026-11-20T09:00:00Z); "+
			"%.40q is neither", string(d))
	case at.After(now.Add(api.ClockTolerance)):
		p.Add(field, "must not be in the future: it is %q, and the clock reads %s; dates are in UTC", string(d),
			now.UTC().Format(time.RFC3339))
	default:
		plausible(p, field, at)
	}
}

// plausible records a problem if at is outside the years 1970 to 2999: a mistake, or too late to
// encode times derived from it.
func plausible(p *api.Problems, field string, at time.Time) {
	if y := at.Year(); y < 1970 || y > 2999 {
		p.Add(field, "must be in the years 1970 to 2999; it is in %d", y)
	}
}
