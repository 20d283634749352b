package docs

import (
	"html/template"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// RecordPath is the path of the permalinks of records, a prefix of their ids.
const RecordPath = "/records/"

// RecordEvents is the number of events of a record that its permalink lists.
const RecordEvents = 20

// Record is a record for its permalink.
type Record struct {
	Record api.Opportunity
	At     time.Time               // of the status
	Free   bool                    // in the free set: readers without a key see everything
	Events []api.VerificationEvent // newest first
}

// statusMeanings explain the status of a record in a sentence.
var statusMeanings = map[api.VerificationStatus]string{
	api.Verified:    "A review found evidence for the facts, and it is fresh.",
	api.Stale:       "A review found evidence for the facts, but it is no longer fresh.",
	api.NeedsReview: "Something contradicts the latest review, or it found no evidence.",
	api.Unverified:  "No review has verified the facts.",
}

// RecordPage returns the permalink of a record as HTML. It shows the facts and sources of the free set only.
func (s *Site) RecordPage(rec Record) ([]byte, error) {
	shown := newSpecimen(rec.Record, rec.At)
	url := s.publicURL + RecordPath + rec.Record.ID
	reviewed := "never reviewed"
	if at := rec.Record.Verification.LastCheckedAt; at != nil {
		reviewed = "reviewed " + at.UTC().Format(time.DateOnly)
	}
	data := map[string]any{
		"Record": shown, "Free": rec.Free, "URL": s.publicURL, "Meaning": statusMeanings[rec.Record.Verification.Status], "At": instant(rec.At),
		"Citation": strings.Join([]string{rec.Record.Company.Name, siteName, "record " + reviewed, "retrieved " + rec.At.UTC().Format(time.DateOnly), url}, ", "),
	}
	if l := rec.Record.Verification.ApplicationLink; l != nil {
		data["Link"], data["LinkAt"] = l.Outcome, instant(l.CheckedAt)
	}
	if len(rec.Events) > 0 {
		data["EventAt"] = instant(rec.Events[0].CheckedAt)
	}
	if rec.Free {
		data["Events"] = rec.Events
	}
	var body strings.Builder
	if err := s.layout.ExecuteTemplate(&body, "record.html", data); err != nil {
		return nil, err
	}
	return s.layoutPage(page{
		Path: RecordPath + rec.Record.ID, Title: rec.Record.Company.Name, Wide: true, Canonical: url,
		Description: "Verification status, dates and proof of the record of " + rec.Record.Company.Name + ".",
		Body:        template.HTML(body.String()), //nolint:gosec // a template's output
	})
}
