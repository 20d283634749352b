package adminapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// The sample is fictional records that the first `opportunity up` imports: listings, their events
// and a few later edits. Together they show every field, state and outcome of the API.
//
// The records are JSON with the field names of an import, and two shorthands. A date is an age
// ("-3d6h", or "date -3d" for a calendar day), so the records are as fresh as intended on any day.
// A URL that begins with a slash is relative to the company's website.
//
//go:embed records/*.json
var files embed.FS

// SampleRecord is one sample platform with its events and edits, in the order in which they are
// imported.
type SampleRecord struct {
	Shows     string                       `json:"shows"`     // the resulting verification status, or "private"
	Because   string                       `json:"because"`   // reason for the status, required unless verified
	Candidate bool                         `json:"candidate"` // never published
	Listing   map[string]json.RawMessage   `json:"listing"`
	Events    []map[string]json.RawMessage `json:"events"` // their facts override the listing's
	Edited    map[string]json.RawMessage   `json:"edited"` // listing fields that change after all events
}

// ID returns the id of the listing.
func (r SampleRecord) ID() string {
	var id string
	_ = json.Unmarshal(r.Listing["id"], &id) // LoadSample has checked it
	return id
}

// LoadSample returns the records. It replaces ages by dates before now.
func LoadSample(now time.Time) ([]SampleRecord, error) {
	names, err := fs.Glob(files, "records/*.json")
	if err != nil {
		return nil, err
	}
	var all []SampleRecord
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var raw []json.RawMessage
		if err := json.Unmarshal(text, &raw); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i, text := range raw {
			r, err := load(text, now)
			if err != nil {
				return nil, fmt.Errorf("%s: record %d: %w", name, i+1, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

var (
	age  = regexp.MustCompile(`"(date )?-(?:(\d+)d)?(?:(\d+)h)?"`)
	path = regexp.MustCompile(`"(/[^"]*)"`)
)

func load(text []byte, now time.Time) (r SampleRecord, err error) {
	var of struct {
		Listing struct {
			ID      string
			Company struct{ Website string }
		}
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return r, err
	}
	text = age.ReplaceAllFunc(text, func(m []byte) []byte {
		part := age.FindSubmatch(m)
		days, _ := strconv.Atoi(string(part[2]))
		hours, _ := strconv.Atoi(string(part[3]))
		layout := time.RFC3339
		if len(part[1]) > 0 {
			layout = time.DateOnly
		}
		return strconv.AppendQuote(nil, now.UTC().AddDate(0, 0, -days).Add(-time.Duration(hours)*time.Hour).Format(layout))
	})
	text = path.ReplaceAll(text, []byte(`"`+strings.TrimSuffix(of.Listing.Company.Website, "/")+`$1"`))

	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&r); err != nil {
		return r, err
	}
	return r, r.completeEvents()
}

// completeEvents adds slugs to the events, and the listing's facts where an event does not override
// them. Other facts are unknown.
func (r *SampleRecord) completeEvents() error {
	unknown, err := json.Marshal(api.UnknownFacts())
	if err != nil {
		return err
	}
	for _, e := range r.Events {
		e["slug"] = r.Listing["id"]
		if _, ok := e["facts"]; !ok {
			continue
		}
		var facts map[string]json.RawMessage
		for _, part := range []json.RawMessage{unknown, r.Listing["facts"], e["facts"]} {
			if err := json.Unmarshal(part, &facts); err != nil {
				return err
			}
		}
		whole, err := json.Marshal(facts)
		if err != nil {
			return err
		}
		e["facts"] = whole
	}
	return nil
}

// Seed is the sample as operator files. Apply them in order: import Listings, publish Published,
// append Events, import Edits.
type Seed struct {
	Listings  []byte
	Published []string
	Events    []byte
	Edits     []byte
}

// SampleAt returns the sample with dates relative to now. The same now gives the same bytes, so an
// interrupted import can be repeated.
func SampleAt(now time.Time) (Seed, error) {
	records, err := LoadSample(now)
	if err != nil {
		return Seed{}, err
	}
	var listings, events, edits []map[string]json.RawMessage
	var s Seed
	for _, r := range records {
		listings = append(listings, r.Listing)
		events = append(events, r.Events...)
		if !r.Candidate {
			s.Published = append(s.Published, r.ID())
		}
		if r.Edited != nil {
			edits = append(edits, r.edit())
		}
	}
	for file, lines := range map[*[]byte][]map[string]json.RawMessage{&s.Listings: listings, &s.Events: events,
		&s.Edits: edits} {
		out := new(bytes.Buffer)
		enc := json.NewEncoder(out)
		for _, line := range lines {
			if err := enc.Encode(line); err != nil {
				return Seed{}, err
			}
		}
		*file = out.Bytes()
	}
	return s, nil
}

// edit returns the listing with its edits. It sets visibility to published, because an import
// without visibility means private.
func (r SampleRecord) edit() map[string]json.RawMessage {
	out := map[string]json.RawMessage{"visibility": json.RawMessage(`"published"`)}
	for _, fields := range []map[string]json.RawMessage{r.Listing, r.Edited} {
		for name, value := range fields {
			out[name] = value
		}
	}
	return out
}
