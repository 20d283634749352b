package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bytedance/sonic"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listing"
)

// Row is a listing as the store hands it over. Document and Summary are the JSON forms of a listingfile.Listing and an
// api.Summary; Document is nil where the listing is not published, Summary where history has said nothing of it yet.
type Row struct {
	Sequence    int64
	ID          string
	PublishedAt *time.Time
	ChangedAt   *time.Time
	Document    []byte
	Summary     []byte
}

// ahead reports whether the listing is published, but not public before an instant after now.
func (r Row) scheduled(now time.Time) bool {
	return r.Document != nil && r.PublishedAt != nil && r.PublishedAt.After(now)
}

// record is a published record: its encoded form and what filters and order ask of it.
type record struct {
	id   string
	body []byte // JSON of the api.Opportunity, with the holes empty

	statusAt    uint32 // offset of the hole for verification.status
	freshnessAt uint32 // offset of the hole for companyProfile.freshness; 0 where that does not move with the clock

	sequence   int64
	checked    int64 // instant of the latest factual review, or never
	published  int64 // instant of publication
	freshUntil int64 // of the profile, where freshnessAt > 0

	flags     flags
	category  uint8  // index in api.Categories
	provinces uint16 // bit i: residents of api.Provinces[i] are confirmed to be eligible
	countries []country
}

// country is an ISO 3166-1 alpha-2 code.
type country [2]byte

// flags are the yes-or-no properties of a record. Each three-valued fact has two, of which at most one is set.
type flags uint16

const (
	undisputed flags = 1 << iota // verified up to api.FreshnessWindow after its latest review, stale after that
	disputed                     // reviewed, and in need of a new review
	open                         // takes applications
	firstFact                    // remote is true; the rest follow in the order of threeValued
)

// threeValued are the facts that a filter asks for by true or false.
func threeValued(f api.Facts) [4]*bool {
	return [4]*bool{f.Remote, f.DegreeRequired, f.ExperienceRequired, f.FlexibleSchedule}
}

// factFlag is the flag that says that fact number i of threeValued has that value.
func factFlag(i int, value bool) flags {
	f := firstFact << (2 * i)
	if !value {
		f <<= 1
	}
	return f
}

// encoder makes records from rows; its buffer is used again and again. Not for concurrent use.
type encoder struct {
	now  func() time.Time // no check is shown as later than its encoding
	buf  bytes.Buffer
	json *json.Encoder
}

// decoding stands for encoding/json, which would take three quarters of the time from start to ready: it is three times as fast
// on these documents (BenchmarkEncode), which this service alone writes. Its results are held against encoding/json in the tests,
// and on a platform or Go release that it does not know it is encoding/json itself. What is served is encoded by encoding/json.
var decoder = sonic.ConfigStd

func newEncoder(now func() time.Time) *encoder {
	e := &encoder{now: now}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}

func (e *encoder) change(row Row) (change, error) {
	if row.Document == nil {
		return change{id: row.ID}, nil
	}
	entry := listing.Entry{ChangedAt: row.ChangedAt}
	if err := decoder.Unmarshal(row.Document, &entry.Listing); err != nil {
		return change{}, fmt.Errorf("document of listing %s: %w", row.ID, err)
	}
	entry.PublishedAt = row.PublishedAt
	var summary api.Summary
	if row.Summary != nil {
		if err := decoder.Unmarshal(row.Summary, &summary); err != nil {
			return change{}, fmt.Errorf("summary of listing %s: %w", row.ID, err)
		}
	}
	r, err := e.record(entry, summary)
	if err != nil {
		return change{}, fmt.Errorf("listing %s: %w", row.ID, err)
	}
	r.sequence = row.Sequence
	return change{id: r.id, record: r}, nil
}

func (e *encoder) record(entry listing.Entry, summary api.Summary) (*record, error) {
	o := entry.Public(summary, e.now().UTC())
	r := &record{id: o.ID, checked: never, published: math.MaxInt64}
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
		return nil, fmt.Errorf("category %q is not a known one", o.Category)
	}
	r.category = uint8(category) //nolint:gosec // one of a few
	if o.Facts.ApplicationStatus == api.ApplicationOpen {
		r.flags |= open
	}
	for i, fact := range threeValued(o.Facts) {
		if fact != nil {
			r.flags |= factFlag(i, *fact)
		}
	}
	r.countries, r.provinces = eligible(o.Facts.CountryEligibility)

	o.Verification.Status = ""
	expires := o.CompanyProfile != nil && o.CompanyProfile.FreshUntil != nil
	if expires {
		r.freshUntil = unixNanos(*o.CompanyProfile.FreshUntil)
		o.CompanyProfile.Freshness = ""
	}
	e.buf.Reset()
	if err := e.json.Encode(o); err != nil {
		return nil, err
	}
	r.body = bytes.Clone(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n")))
	// Inside a string every quote is escaped, so these can only be the member names themselves.
	r.statusAt = endOf(r.body, `"verification":{"status":"`)
	if expires {
		r.freshnessAt = endOf(r.body, `"freshness":"`)
	}
	return r, nil
}

func endOf(body []byte, name string) uint32 {
	return uint32(bytes.LastIndex(body, []byte(name)) + len(name)) //nolint:gosec // a record is at most a few MiB
}

// eligible lists the countries whose residents are confirmed to be eligible, and Canada's provinces of which that is evidenced:
// included by name or as one of all regions, by an entry that cites a source, and not excluded by any entry.
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

// provinceIndex is the place of "CA-ON" in api.Provinces, or -1.
func provinceIndex(code string) int {
	if len(code) != len("CA-ON") {
		return -1
	}
	return slices.Index(api.Provinces, code[len("CA-"):])
}
