package adminapi

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
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
	Shows     string           `json:"shows"`     // the resulting verification status, or "private"
	Because   string           `json:"because"`   // reason for the status, required unless verified
	Candidate bool             `json:"candidate"` // never published
	Listing   map[string]any   `json:"listing"`
	Events    []map[string]any `json:"events"` // their facts override the listing's
	Edited    map[string]any   `json:"edited"` // listing fields that change after all events
}

// ID returns the id of the listing.
func (r SampleRecord) ID() string { return fmt.Sprint(r.Listing["id"]) }

// LoadSample returns the records. It replaces ages by dates before now.
func LoadSample(now time.Time) (all []SampleRecord, err error) {
	names, _ := fs.Glob(files, "records/*.json") // a valid pattern
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var records []SampleRecord
		in := json.NewDecoder(bytes.NewReader(text))
		in.DisallowUnknownFields()
		if err := in.Decode(&records); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, r := range records {
			r.complete(now)
			all = append(all, r)
		}
	}
	return all, nil
}

// complete replaces the shorthands. It adds slugs to the events, and the listing's facts where an
// event does not override them. Other facts are unknown.
func (r SampleRecord) complete(now time.Time) {
	company, _ := r.Listing["company"].(map[string]any)
	site := strings.TrimSuffix(fmt.Sprint(company["website"]), "/")
	for _, part := range append(r.Events, r.Listing, r.Edited) {
		replace(part, site, now)
	}
	unknown, _ := json.Marshal(api.UnknownFacts()) // always encode
	own, _ := r.Listing["facts"].(map[string]any)
	for _, e := range r.Events {
		e["slug"] = r.Listing["id"]
		if given, ok := e["facts"].(map[string]any); ok {
			facts := map[string]any{}
			_ = json.Unmarshal(unknown, &facts)
			maps.Copy(facts, own)
			maps.Copy(facts, given)
			e["facts"] = facts
		}
	}
}

var age = regexp.MustCompile(`^(date )?-(?:(\d+)d)?(?:(\d+)h)?$`)

// replace returns a value of JSON without shorthands. It changes objects and arrays in place.
func replace(value any, site string, now time.Time) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = replace(member, site, now)
		}
	case []any:
		for i, element := range v {
			v[i] = replace(element, site, now)
		}
	case string:
		if strings.HasPrefix(v, "/") {
			return site + v
		}
		if part := age.FindStringSubmatch(v); part != nil {
			days, _ := strconv.Atoi(part[2])
			hours, _ := strconv.Atoi(part[3])
			layout := time.RFC3339
			if part[1] != "" {
				layout = time.DateOnly
			}
			return now.UTC().AddDate(0, 0, -days).Add(-time.Duration(hours) * time.Hour).Format(layout)
		}
	}
	return value
}

// Seed is the sample as operator files. Apply them in order: import Listings, append Events, import
// Edits.
type Seed struct{ Listings, Events, Edits []byte }

// SampleAt returns the sample with dates relative to now. The same now gives the same bytes, so an
// interrupted import can be repeated.
func SampleAt(now time.Time) (s Seed, err error) {
	records, err := LoadSample(now)
	if err != nil {
		return s, err
	}
	var listings, events, edits bytes.Buffer
	write := func(file *bytes.Buffer, line map[string]any) {
		err = errors.Join(err, json.NewEncoder(file).Encode(line))
	}
	for _, r := range records {
		if !r.Candidate {
			r.Listing["visibility"] = "published" // without, an import means private
		}
		write(&listings, r.Listing)
		for _, e := range r.Events {
			write(&events, e)
		}
		if r.Edited != nil {
			edited := maps.Clone(r.Listing)
			maps.Copy(edited, r.Edited)
			write(&edits, edited)
		}
	}
	return Seed{listings.Bytes(), events.Bytes(), edits.Bytes()}, err
}

// ImportSample imports the fictional records with dates relative to at. Repeating it with the same
// at changes nothing.
func (c Client) ImportSample(ctx context.Context, at time.Time) error {
	s, err := SampleAt(at)
	if err != nil {
		return err
	}
	listings := func(file []byte) error {
		report, _, err := ImportListings.Call(ctx, c, Input{Body: bytes.NewReader(file)})
		return outcome(report.Applied, report.Rejected, err)
	}
	if err := listings(s.Listings); err != nil {
		return err
	}
	appended, _, err := AppendEvents.Call(ctx, c, Input{Body: bytes.NewReader(s.Events)})
	if err := outcome(appended.Applied, appended.Rejected, err); err != nil {
		return err
	}
	return listings(s.Edits)
}

func outcome(applied bool, rejected []api.RejectedLine, err error) error {
	if err == nil && !applied {
		err = fmt.Errorf("rejected: %v", rejected)
	}
	return err
}

// DemoKeys issues a key for each tier that is missing in keys. It calls save after each, so an
// interruption loses at most one key.
func (c Client) DemoKeys(ctx context.Context, useCase string, keys map[api.Tier]string, save func() error) error {
	for _, t := range api.Tiers {
		if keys[t.Tier] != "" {
			continue
		}
		key, _, err := IssueKey.Call(ctx, c, Input{Body: api.KeyOrder{Tier: t.Tier, UseCase: useCase, Test: true}})
		if err != nil {
			return err
		}
		keys[t.Tier] = key.Key
		if err := save(); err != nil {
			return err
		}
	}
	return nil
}

// DemoKeysIn is DemoKeys with the keys in a file of mode 0600.
func (c Client) DemoKeysIn(ctx context.Context, file string) error {
	keys := map[api.Tier]string{}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", file, err)
	}
	return c.DemoKeys(ctx, "demo key", keys, func() error {
		text, err := json.MarshalIndent(keys, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(file, append(text, '\n'), 0o600)
	})
}
