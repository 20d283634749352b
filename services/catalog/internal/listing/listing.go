// Package listing defines the catalog's entries, which curators maintain, and the effects of
// changing one. Package listingfile defines the file format.
//
// An Entry does not include verification, which is derived from the history service's events alone:
// Entry.Public combines it with a summary to the record that consumers see. Create and Entry.Update
// are the effects of a line of a file; a Change says which fields changed and whether they put
// reviews in doubt, and Compare shows it to curators. Position is a position in the sequence of
// changes.
package listing

import (
	"bytes"
	"slices"
	"time"

	"github.com/bytedance/sonic"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Entry is a listing with its visibility and curation.
type Entry struct {
	listingfile.Listing

	Visibility listingfile.Visibility `json:"visibility" change:"editorial"`
	Curation   *api.Curation          `json:"curation,omitempty" change:"editorial"`

	// ChangedAt is the time of the latest material change outside a review; nil if there was none
	// since the listing was created.
	ChangedAt *time.Time `json:"-"`

	// PastDates has the earliest date of each page that had one as a source and has none now, by
	// URL. It returns with no later date.
	PastDates map[string]api.CheckDate `json:"-"`
}

// Public returns the record that consumers see at now. Facts from a review, if summary has any,
// replace the listing's own. summary is the zero value if history has none for the listing.
func (e Entry) Public(summary api.Summary, now time.Time) api.Opportunity {
	facts := api.UnknownFacts()
	switch {
	case summary.Facts != nil:
		facts = *summary.Facts
	case e.Facts != nil:
		facts = *e.Facts
	}
	facts.Complete()
	if summary.Closed {
		facts.ApplicationStatus = api.ApplicationClosed
	}
	return api.Opportunity{
		ID:             e.ID,
		Kind:           api.Kind,
		Platform:       e.Platform,
		PublishedAt:    e.PublishedAt,
		Facts:          facts,
		Verification:   summary.VerificationAt(e.ChangedAt, now),
		Sources:        sources(e.Sources, summary, now),
		CompanyProfile: profile(e.CompanyProfile, now),
	}
}

// never is a time after all others: what depends on the clock is the same at it unless the data
// differs.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// SameForConsumers reports whether consumers see no difference between an entry with a summary and
// another state of the two, at any time. before is nil if there was no entry.
func SameForConsumers(before *Entry, known api.Summary, after Entry, summary api.Summary) (bool, error) {
	was, is := before != nil && before.Visibility == listingfile.Published, after.Visibility == listingfile.Published
	if !was || !is {
		return was == is, nil
	}
	a, err := api.Encode(before.Public(known, never))
	if err != nil {
		return false, err
	}
	b, err := api.Encode(after.Public(summary, never))
	return bytes.Equal(a, b), err
}

// sources returns the listing's own sources, with the times of the reviews that used them, and then
// those that only reviews used. It leaves out those that a review found gone. No time is later than
// now.
func sources(own []api.Source, s api.Summary, now time.Time) []api.Source {
	all := make([]api.Source, 0, len(own)+len(s.Sources))
	gone := func(u string) bool {
		return slices.ContainsFunc(s.Gone, func(g api.SourceCheck) bool { return g.URL == u })
	}
	for _, source := range own {
		if !gone(source.URL) {
			all = append(all, source)
		}
	}
	for _, used := range s.Sources {
		at := used.CheckedAt
		if at.After(now) {
			at = now
		}
		checked := new(api.CheckDate(at.UTC().Format(time.RFC3339Nano)))
		if i := slices.IndexFunc(all, func(have api.Source) bool { return have.URL == used.URL }); i >= 0 {
			all[i].CheckedAt = checked
		} else {
			all = append(all, api.Source{URL: used.URL, CheckedAt: checked})
		}
	}
	return all
}

func profile(p *api.Profile, now time.Time) *api.CompanyProfile {
	if p == nil {
		return nil
	}
	public := &api.CompanyProfile{Profile: *p}
	public.Complete()
	public.Freshness = public.FreshnessAt(now)
	return public
}

// Documents decodes stored listings and summaries like encoding/json, in a third of the time.
// Decoded strings share the memory of the document. That is safe because our own services wrote the
// documents with encoding/json, tests compare the results, and sonic falls back to encoding/json on
// an unsupported platform or Go release. Responses are encoded by encoding/json.
var Documents = sonic.Config{}.Froze()

// Missing returns the names of the fields that a curator should fill in before the listing is
// published, in the order of the file format. Only sources are required for publication.
func Missing(l listingfile.Listing) []string {
	missing := []string{}
	for _, field := range []struct {
		name  string
		empty bool
	}{
		{"company.name", l.Company.Name == ""},
		{"company.website", l.Company.Website == ""},
		{"applicationUrl", l.ApplicationURL == ""},
		{"summary", l.Summary == ""},
		{"overview", l.Overview == ""},
		{"startingCost", l.StartingCost == ""},
		{"workModel", l.WorkModel == ""},
		{"facts.countryEligibility", l.Facts == nil || len(l.Facts.CountryEligibility) == 0},
		{"facts.applicationStatus", l.Facts == nil || l.Facts.ApplicationStatus == "" ||
			l.Facts.ApplicationStatus == api.ApplicationUnknown},
		{"sources", len(l.Sources) == 0},
	} {
		if field.empty {
			missing = append(missing, field.name)
		}
	}
	return missing
}
