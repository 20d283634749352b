package snapshot

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listing"
)

// Row is a listing read from the store. Document is the JSON of a listingfile.Listing, or null if
// the listing is not published. Summary is the JSON of an api.Summary, or null if history has none.
type Row struct {
	Sequence       int64
	PublicSequence int64 // of the latest change that consumers can see
	ID             string
	PublishedAt    *time.Time
	ChangedAt      *time.Time
	Document       sql.NullString
	Summary        sql.NullString
}

// record is a published record: its encoded form, and the properties that filters and the list
// order use. Times are in Unix nanoseconds.
type record struct {
	id   string
	text []byte // JSON of the api.Opportunity, without the two values that depend on the clock

	statusAt uint32 // offset in text at which to insert verification.status
	// offset in text at which to insert companyProfile.freshness; 0 if it does not depend on the
	// clock
	freshnessAt uint32

	sequence   int64 // of the latest change that consumers can see
	checked    int64 // time of the latest factual review, or never
	published  int64 // time of publication
	freshUntil int64 // of the profile, if freshnessAt > 0

	flags     flags
	category  uint8 // index in api.Categories
	facts     facts
	provinces uint16 // bit i: residents of api.Provinces[i] are eligible, with a source
	countries []country

	terms uint64 // hash of its terms
	slot  uint32 // stands for it in the postings of its terms
}

// country is an ISO 3166-1 alpha-2 code.
type country [2]byte

// flags are the boolean properties of a record.
type flags uint8

const (
	undisputed flags = 1 << iota // verified until api.FreshnessWindow after its latest review, then stale
	disputed                     // reviewed, and needs a new review
	open                         // accepts applications
)

// facts are the values of a record, or the conditions of a filter, in the order of api.BoolFacts: 0
// is unknown or no condition, 1 is false and 2 is true.
type facts [len(api.BoolFacts)]uint8

func (f *facts) set(i int, value *bool) {
	switch {
	case value == nil:
	case *value:
		f[i] = 2
	default:
		f[i] = 1
	}
}

// encoder converts rows to records. It reuses its buffer and is not safe for concurrent use.
type encoder struct {
	now  func() time.Time // check times are capped at the time of encoding
	buf  bytes.Buffer
	json *json.Encoder
}

func newEncoder(now func() time.Time) *encoder {
	e := &encoder{now: now}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}

func (e *encoder) change(row Row) (change, error) {
	if !row.Document.Valid {
		return change{id: row.ID}, nil
	}
	entry := listing.Entry{ChangedAt: row.ChangedAt}
	if err := listing.Documents.UnmarshalFromString(row.Document.String, &entry.Listing); err != nil {
		return change{}, fmt.Errorf("decoding listing %s: %w", row.ID, err)
	}
	entry.PublishedAt = row.PublishedAt
	var summary api.Summary
	if row.Summary.Valid {
		if err := listing.Documents.UnmarshalFromString(row.Summary.String, &summary); err != nil {
			return change{}, fmt.Errorf("decoding the summary of listing %s: %w", row.ID, err)
		}
	}
	r, terms, err := e.record(entry, summary)
	if err != nil {
		return change{}, fmt.Errorf("encoding listing %s: %w", row.ID, err)
	}
	r.id, r.sequence = row.ID, row.PublicSequence
	return change{id: r.id, record: r, terms: terms}, nil
}

func (e *encoder) record(entry listing.Entry, summary api.Summary) (*record, string, error) {
	o := entry.Public(summary, e.now().UTC())
	r := &record{checked: never, published: math.MaxInt64}
	if at := o.Verification.LastCheckedAt; at != nil {
		r.checked = unixNanos(*at)
		r.flags |= disputed
		if summary.Undisputed(entry.ChangedAt) {
			r.flags ^= disputed | undisputed
		}
	}
	if o.PublishedAt != nil {
		r.published = unixNanos(*o.PublishedAt)
	}
	category := slices.Index(api.Categories, o.Category)
	if category < 0 {
		return nil, "", fmt.Errorf("unknown category %q", o.Category)
	}
	r.category = uint8(category) //nolint:gosec // one of a few
	if o.Facts.ApplicationStatus == api.ApplicationOpen {
		r.flags |= open
	}
	for i, fact := range api.BoolFacts {
		r.facts.set(i, *fact.Value(&o.Facts))
	}
	r.countries, r.provinces = eligible(o.Facts.CountryEligibility)
	terms := termsOf(o)
	r.terms = maphash.String(seed, terms)

	o.Verification.Status = ""
	expires := o.CompanyProfile != nil && o.CompanyProfile.FreshUntil != nil
	if expires {
		r.freshUntil = unixNanos(*o.CompanyProfile.FreshUntil)
		o.CompanyProfile.Freshness = ""
	}
	e.buf.Reset()
	if err := e.json.Encode(o); err != nil {
		return nil, "", err
	}
	r.text = bytes.Clone(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n")))
	// Quotes inside strings are escaped, so these match member names only.
	r.statusAt = r.endOf(`"verification":{"status":"`)
	if expires {
		r.freshnessAt = r.endOf(`"freshness":"`)
	}
	return r, terms, nil
}

// endOf returns the offset after the last occurrence of name, which the text must contain.
func (r *record) endOf(name string) uint32 {
	return uint32(bytes.LastIndex(r.text, []byte(name)) + len(name)) //nolint:gosec // a record is at most a few MiB
}

// eligible returns the countries whose residents are eligible, and the Canadian provinces with
// evidence of eligibility. A province counts if an entry with a source includes it (by name or with
// all regions) and no entry excludes it.
func eligible(entries []api.CountryEligibility) (countries []country, provinces uint16) {
	var excluded uint16
	for _, c := range entries {
		if c.Country == "CA" {
			excluded |= provinceBits(c.ExcludedRegions)
		}
		if c.Status != api.Eligible || len(c.Country) != 2 {
			continue
		}
		if code := country([]byte(c.Country)); !slices.Contains(countries, code) {
			countries = append(countries, code)
		}
		if c.Country == "CA" && len(c.SourceURLs) > 0 {
			provinces |= provinceBits(c.IncludedRegions)
			if c.AllRegions != nil && *c.AllRegions {
				provinces = 1<<len(api.Provinces) - 1
			}
		}
	}
	return countries, provinces &^ excluded
}

func provinceBits(regions []string) (bits uint16) {
	for _, region := range regions {
		if i := provinceIndex(region); i >= 0 {
			bits |= 1 << i
		}
	}
	return bits
}

// provinceIndex returns the index of a code such as "CA-ON" in api.Provinces, or -1.
func provinceIndex(code string) int {
	if len(code) != len("CA-ON") {
		return -1
	}
	return slices.Index(api.Provinces, code[len("CA-"):])
}
