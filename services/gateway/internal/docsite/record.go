package docsite

import (
	"encoding/json"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// RecordPath is the path of the permalinks of records, a prefix of their ids.
const RecordPath = "/records/"

// statusMeanings explain the status of a record in a sentence.
var statusMeanings = map[api.VerificationStatus]string{
	api.Verified:    "A review found evidence for the facts, and it is fresh.",
	api.Stale:       "A review found evidence for the facts, but it is no longer fresh.",
	api.NeedsReview: "Something contradicts the latest review, or it found no evidence.",
	api.Unverified:  "No review has verified the facts.",
}

// RecordPage returns the permalink of a record as HTML. It shows the facts and sources of the free
// set only.
func (s *Site) RecordPage(public api.PublicRecord) ([]byte, error) {
	var rec api.Opportunity
	if err := json.Unmarshal(public.Record, &rec); err != nil {
		return nil, err
	}
	url := s.publicURL + RecordPath + rec.ID
	reviewed, retrieved := "never reviewed", "retrieved "+public.At.UTC().Format(time.DateOnly)
	if at := rec.Verification.LastCheckedAt; at != nil {
		reviewed = "reviewed " + at.UTC().Format(time.DateOnly)
	}
	data := map[string]any{
		"Record": newSpecimen(rec, public.At), "Free": public.Free, "URL": s.publicURL,
		"Meaning": statusMeanings[rec.Verification.Status], "At": instant(public.At),
		"Citation": strings.Join([]string{rec.Company.Name, siteName, "record " + reviewed, retrieved, url}, ", "),
	}
	if l := rec.Verification.ApplicationLink; l != nil {
		data["Link"], data["LinkAt"] = l.Outcome, instant(l.CheckedAt)
	}
	if len(public.Events) > 0 {
		data["EventAt"] = instant(public.Events[0].CheckedAt)
	}
	if public.Free {
		data["Events"] = public.Events
	}
	body, err := s.body("record.html", data)
	if err != nil {
		return nil, err
	}
	return s.layoutPage(page{
		Path: RecordPath + rec.ID, Title: rec.Company.Name, Wide: true, Canonical: url,
		Description: "Verification status, dates and proof of the record of " + rec.Company.Name + ".",
		Body:        body,
	})
}
