// Package listingtest generates random records for tests: Records returns entries with their
// summaries, Published the records that consumers see of them, in list order.
package listingtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// Record is a listing and its verification summary.
type Record struct {
	Entry   listing.Entry
	Summary *api.Summary // nil if history has none
}

// Public returns the record that consumers see at now.
func (r Record) Public(now time.Time) api.Opportunity {
	if r.Summary == nil {
		return r.Entry.Public(api.Summary{}, now)
	}
	return r.Entry.Public(*r.Summary, now)
}

// Line returns the record as a line of a listings file.
func (r Record) Line() []byte {
	line, err := json.Marshal(r.Entry)
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}

// Records generates n records with distinct ids. Dates are around now. Several are equal, and
// several are exactly at the limits of freshness.
func Records(seed uint64, n int, now time.Time) []Record {
	g := generator{rand.New(rand.NewPCG(seed, 1)), now.UTC().Truncate(time.Microsecond)}
	records := make([]Record, n)
	for i := range records {
		records[i] = g.record(i)
	}
	return records
}

type generator struct {
	*rand.Rand
	now time.Time
}

func (g generator) record(i int) Record {
	id := fmt.Sprintf("%s-%d", pick(g, "maple", "pine", "a", "zeta", "10"), i)
	published := g.now.Add(-time.Duration(g.IntN(40)) * 24 * time.Hour)
	r := Record{Entry: listing.Entry{
		Listing: listingfile.Listing{
			ID: id,
			Platform: api.Platform{
				Company: api.Company{Name: pick(g, "Cømpany <"+id+"> & sons", "Œuvre Nº "+id, "ÉTÉ Straße",
					"été ﬁnance, l'emploi", "ΣΊΣΥΦΟΣ Ltd"), Website: "https://" + id + ".example/"},
				ApplicationURL: "https://" + id + ".example/apply?a=1&b=2",
				Category:       pick(g, api.Categories...),
				Summary: pick(g, "Plain.", "Transcription and tra\u00edning.", "한국어 हिन्दी １２",
					`A "verification":{"status":"verified" lookalike`, "Line\nfeed, 👩\u200d💻 and <word>."),
				Overview:     `{"freshness":"fresh"}`,
				StartingCost: pick(g, "", "None."),
				WorkModel:    "Remote.",
			},
			PublishedAt: &published,
			Sources: []api.Source{{URL: "https://source.example/" + id,
				CheckedAt: new(api.CheckDate("2026-01-02"))}, {URL: "https://source.example"}},
		},
		Visibility: listingfile.Published,
	}}
	if g.IntN(3) > 0 {
		r.Entry.Subcategory = new(pick(g, "sub", "data-annotation", "Données annotées", "ev-charging", "-"))
	}
	if g.IntN(4) > 0 {
		r.Entry.Facts = g.facts(true)
	}
	if g.IntN(3) > 0 {
		r.Entry.CompanyProfile = g.profile()
	}
	if g.IntN(4) > 0 {
		r.Summary = g.summary(id, int64(i+1))
	}
	return r
}

// facts generates facts that an import accepts or, unless sourced, also facts with entries that
// lack a source, or that name regions beside all regions.
func (g generator) facts(sourced bool) *api.Facts {
	f := api.UnknownFacts()
	for _, b := range api.BoolFacts {
		*b.Value(&f) = g.maybe()
	}
	f.ApplicationStatus = pick(g, api.ApplicationOpen, api.ApplicationOpen, api.ApplicationWaitlist,
		api.ApplicationClosed, api.ApplicationUnknown)
	for _, country := range []string{"CA", "US", "FR"} {
		if g.IntN(3) == 0 {
			continue
		}
		c := api.CountryEligibility{
			Country: country, Status: pick(g, api.Eligible, api.Eligible, api.Ineligible, api.EligibilityUnknown),
			AllRegions: g.maybe(),
		}
		if sourced || g.IntN(3) > 0 {
			c.SourceURLs = []string{"https://residents.example/" + country}
		}
		if country == "CA" {
			for _, p := range api.Provinces {
				switch g.IntN(5) {
				case 0:
					c.IncludedRegions = append(c.IncludedRegions, "CA-"+p)
				case 1:
					c.ExcludedRegions = append(c.ExcludedRegions, "CA-"+p)
				}
			}
		}
		if sourced && c.AllRegions != nil && *c.AllRegions {
			c.IncludedRegions = nil
		}
		f.CountryEligibility = append(f.CountryEligibility, c)
	}
	f.Complete()
	for _, l := range []string{"English", "French (Canadian)", "Français", "en"} {
		if g.IntN(4) == 0 {
			f.Languages = append(f.Languages, l)
		}
	}
	if g.IntN(2) == 0 {
		f.Pay = &api.Pay{Minimum: 0.1, Maximum: 1e6, Currency: "CAD", Unit: pick(g, api.PayUnits...),
			SourceURL: "https://pay.example/"}
	}
	return &f
}

func (g generator) profile() *api.Profile {
	p := &api.Profile{ExperienceSources: []api.ExperienceSource{}}
	if g.IntN(3) > 0 {
		day := g.now.AddDate(0, 0, -pick(g, 1, 89, 90, 91, 200))
		p.Bio = &api.ProfileText{Text: "Bio", SourceURL: "https://bio.example/",
			CheckedAt: api.CheckDate(day.Format(time.DateOnly))}
	}
	if g.IntN(3) == 0 {
		at := g.now.Add(-api.ProfileFreshnessWindow).Add(pick(g, 0, time.Microsecond, -time.Microsecond))
		p.EvidenceAssessment = &api.Assessment{Level: api.Strong, CheckedAt: api.CheckDate(at.Format(time.RFC3339Nano))}
	}
	return p
}

func (g generator) summary(slug string, sequence int64) *api.Summary {
	s := &api.Summary{Slug: slug, Sequence: sequence, HistoryCount: 1}
	if g.IntN(3) == 0 {
		s.ApplicationLink = &api.ApplicationLink{Outcome: api.OutcomeReachable, CheckedAt: g.now.Add(-time.Hour)}
	}
	if g.IntN(5) == 0 {
		return s // link checks only
	}
	at := g.now.Add(-time.Duration(1+g.IntN(20)) * 24 * time.Hour).Add(pick(g, 0, 0, time.Microsecond,
		-time.Microsecond, time.Hour))
	s.FirstCheckedAt, s.LastCheckedAt, s.ReviewCount = &at, &at, 1+g.IntN(3)
	s.LastOutcome = pick(g, api.OutcomeVerified, api.OutcomeVerified, api.OutcomeVerified, api.OutcomeClosed,
		api.OutcomeNeedsReview)
	if s.LastOutcome == api.OutcomeVerified {
		s.FreshUntil = new(at.Add(api.FreshnessWindow))
		if g.IntN(5) == 0 {
			s.ConflictAt = new(at.Add(time.Hour))
		}
	}
	if g.IntN(2) == 0 {
		s.Facts = g.facts(false)
	}
	return s
}

func (g generator) maybe() *bool { return pick(g, nil, new(true), new(false)) }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

// Published returns the records that consumers see at now, in list order.
func Published(records []Record, now time.Time) []api.Opportunity {
	var all []api.Opportunity
	for _, r := range records {
		if r.Entry.Visibility == listingfile.Published {
			all = append(all, r.Public(now))
		}
	}
	slices.SortFunc(all, InListOrder)
	return all
}

// InListOrder compares by the last check, newest first and never checked last, then by id.
func InListOrder(a, b api.Opportunity) int {
	x, y := a.Verification.LastCheckedAt, b.Verification.LastCheckedAt
	switch {
	case x == nil && y != nil:
		return 1
	case x != nil && y == nil:
		return -1
	case x != nil && !x.Equal(*y):
		return y.Compare(*x)
	}
	return strings.Compare(a.ID, b.ID)
}
