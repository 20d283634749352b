// Package apitest makes events and import files for tests that satisfy the rules for evidence, and
// converts summaries.
package apitest

import (
	"encoding/json"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Source is the source URL of reviews.
const Source = "https://source.example/terms"

// Facts returns facts with a single known one.
func Facts() *api.Facts {
	f := api.UnknownFacts()
	f.Remote = new(true)
	return &f
}

// WholeFacts returns all facts as JSON: those in known, a JSON object, and the others as unknown.
// It panics if known is none.
func WholeFacts(known string) string {
	f := api.UnknownFacts()
	if err := json.Unmarshal([]byte(known), &f); err != nil {
		panic(err)
	}
	f.Complete()
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Verified returns a review that may end in verified.
func Verified(slug string, at time.Time) api.VerificationEvent {
	return api.VerificationEvent{
		Slug: slug, CheckedAt: at, CheckType: api.FactualReview, Outcome: api.OutcomeVerified,
		SourceURLs: []string{Source}, Facts: Facts(),
	}
}

// Line returns the event as a line of an events file.
func Line(e api.VerificationEvent) string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(text, &fields) // just encoded
	delete(fields, "id")              // which the service assigns
	text, _ = json.Marshal(fields)
	return string(text)
}

// Encoded returns the summaries as the history service sends them.
func Encoded(summaries ...api.Summary) []api.EncodedSummary {
	encoded := make([]api.EncodedSummary, len(summaries))
	for i, s := range summaries {
		text, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		encoded[i] = api.EncodedSummary{Slug: s.Slug, Sequence: s.Sequence, LastEventID: s.LastEventID,
			JSON: string(text)}
	}
	return encoded
}

// Decoded returns the summaries of a feed.
func Decoded(encoded []api.EncodedSummary) []api.Summary {
	summaries := make([]api.Summary, len(encoded))
	for i, e := range encoded {
		if err := json.Unmarshal([]byte(e.JSON), &summaries[i]); err != nil {
			panic(err)
		}
	}
	return summaries
}

// Problems returns the problems with these texts, as "path: message" or "message".
func Problems(texts ...string) (all api.Problems) {
	for _, text := range texts {
		path, message, ofField := strings.Cut(text, ": ")
		if !ofField || strings.ContainsAny(path, " ") {
			path, message = "", text
		}
		p := api.Problem{Path: path, Message: message}
		if message == api.NoListing(path).Message {
			p.Code = api.UnknownListing
		}
		all = append(all, p)
	}
	return all
}

// Lines returns a valid line of an import file for each id.
func Lines(ids ...string) []listingfile.Line {
	out := make([]listingfile.Line, len(ids))
	for i, id := range ids {
		out[i].Listing = listingfile.Listing{
			ID: id, Sources: []api.Source{{URL: "https://source.example"}}, Platform: api.Platform{
				Company:        api.Company{Name: "Platform " + id, Website: "https://" + id + ".example"},
				ApplicationURL: "https://a.example", Category: api.Online, Summary: "s",
			},
		}
	}
	return out
}

// File returns the lines as those of a file.
func File(lines []listingfile.Line) func(add func(listingfile.Line) error) error {
	return func(add func(listingfile.Line) error) error {
		for _, l := range lines {
			if err := add(l); err != nil {
				return err
			}
		}
		return nil
	}
}
