package docsite

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
)

// frontDescription describes the service in one sentence.
const frontDescription = "A read-only JSON API for verified records of platforms on which people earn, Canada first, " +
	"each with its status, check date and sources."

const mostCountries = 12

// maxCatalogAge is the maximum age of the records on the front page. The catalog serves none that
// are older from its memory either.
const maxCatalogAge = 5 * time.Minute

// ShowCatalog renders the front page with the published records. nil means that the catalog is
// unavailable: the page shows the last copy with its time, up to maxCatalogAge, and then no
// records.
func (s *Site) ShowCatalog(overview *api.CatalogOverview, now time.Time) error {
	return s.change(func() {
		if overview != nil || now.Sub(s.fetched) >= maxCatalogAge {
			s.catalog, s.fetched = overview, now
		}
	}, rendering.front)
}

// front adds the front page. While the figures are unknown it has no plans.
func (r rendering) front() error {
	data := map[string]any{
		"Call": fmt.Sprintf(firstCommands, r.publicURL, r.firstCall), "Plans": r.offers(), "Contact": r.operator.Contact.URL,
		"Right": api.UsageRight, "URL": r.publicURL, "Catalog": r.catalog, "Records": recordsOf(r.catalog, ""),
		"Statuses": statuses, "Meanings": meanings,
	}
	if c := r.catalog; c != nil {
		shown := min(len(c.Countries), mostCountries)
		data["Countries"], data["MoreCountries"] = c.Countries[:shown], len(c.Countries)-shown
		if len(c.Example) > 0 && string(c.Example) != "null" {
			var record api.Opportunity
			if err := json.Unmarshal(c.Example, &record); err != nil {
				return fmt.Errorf("decoding the example of the catalog: %w", err)
			}
			response, err := short(record)
			if err != nil {
				return err
			}
			data["Record"], data["Response"] = newSpecimen(record, c.GeneratedAt), response
		}
	}
	about := entry{Path: "/", Title: siteName, Description: frontDescription}
	return r.templatePage(page{entry: about, Wide: true, cache: revalidated}, "front.html", data)
}

const firstCommands = "export OPPORTUNITY_URL=%s\nexport OPPORTUNITY_KEY=oda_test_...   # from your secret manager\n%s"

// short returns the part of a record's JSON that fits beside the headline.
func short(o api.Opportunity) (string, error) {
	type object map[string]any
	countries, sources := []object{}, []object{}
	for _, c := range o.Facts.CountryEligibility[:min(1, len(o.Facts.CountryEligibility))] {
		countries = append(countries, object{"country": c.Country, "status": c.Status})
	}
	for _, s := range o.Sources[:min(1, len(o.Sources))] {
		sources = append(sources, object{"url": s.URL})
	}
	text, err := json.MarshalIndent(object{
		"company":      object{"name": o.Company.Name},
		"facts":        object{"countryEligibility": countries, "remote": o.Facts.Remote},
		"sources":      sources,
		"verification": object{"status": o.Verification.Status, "lastCheckedAt": o.Verification.LastCheckedAt},
	}, "", "  ")
	return string(text), err
}

func firstCall() (string, error) {
	doc, err := apidoc.Published()
	if err != nil {
		return "", err
	}
	list, _ := doc.Operation("listOpportunities")
	filters := map[string]string{"country": "CA", "category": string(api.Sell)}
	programs, err := apidoc.Call{Operation: list, Values: filters}.Programs()
	if err != nil {
		return "", err
	}
	return programs[0].Code, nil // curl
}

type offer struct {
	Name, Price       string
	PerDay, PerMinute string
	Records           string
	History           bool
}

func (r rendering) offers() (all []offer) {
	if r.figures == nil {
		return nil
	}
	for i, t := range r.figures.Tiers {
		info := api.Tiers[i]
		o := offer{
			Name: strings.ToUpper(string(t.Tier[:1])) + string(t.Tier[1:]), Records: "The free set: 10 records",
			PerDay: thousands(t.Limits.PerDay), PerMinute: thousands(t.Limits.PerMinute), History: t.Limits.History,
		}
		if info.AllRecords {
			o.Records = "Every public record"
		}
		switch {
		case info.Name != "" && info.MonthlyUSD == 0:
			o.Name, o.Price = info.Name, "Free of charge"
		case info.Name != "" && r.operator.SellsPlans:
			o.Name, o.Price = info.Name, fmt.Sprintf("%d USD a month", info.MonthlyUSD)
		}
		all = append(all, o)
	}
	return all
}

// statuses are the columns of the table of published records.
var statuses = []api.VerificationStatus{api.Verified, api.Stale, api.NeedsReview, api.Unverified}

// meanings explain the categories.
var meanings = map[api.Category]string{
	api.Online: "work from anywhere: transcribing, testing, teaching", api.Sell: "sell what you make or own",
	api.Local: "work in a place: delivering, caring, repairing",
	api.Host:  "let what you own: a room, a car, a parking place",
}

func recordsOf(o *api.CatalogOverview, status api.VerificationStatus) (n int) {
	if o == nil {
		return 0
	}
	for _, category := range o.Categories {
		if status == "" {
			n += category.Total()
		} else {
			n += category.Statuses[status]
		}
	}
	return n
}

// specimen is a record with its evidence, as the front page shows it.
type specimen struct {
	api.Opportunity

	At                  string // time at which the status was correct
	Checked, FreshUntil string
	Facts               []fact
	Evidence            []evidence
}

type fact struct {
	Label, Value string
	Sources      []string
}

type evidence struct{ URL, Checked string }

func newSpecimen(record api.Opportunity, at time.Time) specimen {
	s := specimen{Opportunity: record, At: instant(at)}
	if v := s.Verification; v.LastCheckedAt != nil && v.FreshUntil != nil {
		s.Checked, s.FreshUntil = instant(*v.LastCheckedAt), instant(*v.FreshUntil)
	}
	s.Facts = knownFacts(s.Opportunity.Facts)
	for _, source := range s.Sources {
		e := evidence{URL: source.URL, Checked: "date not recorded"}
		if source.CheckedAt != nil {
			if at, err := source.CheckedAt.Time(); err == nil {
				e.Checked = "checked " + at.Format(dayLayout)
			}
		}
		s.Evidence = append(s.Evidence, e)
	}
	return s
}

// knownFacts returns the facts of a record in words. A fact with three values is listed even if it
// is unknown.
func knownFacts(f api.Facts) (all []fact) {
	for _, c := range f.CountryEligibility {
		value := string(c.Status)
		switch {
		case c.AllRegions != nil && *c.AllRegions:
			value += ", all regions"
		case len(c.IncludedRegions) > 0:
			value += ", in " + strings.Join(c.IncludedRegions, ", ")
		}
		if len(c.ExcludedRegions) > 0 {
			value += ", except " + strings.Join(c.ExcludedRegions, ", ")
		}
		all = append(all, fact{"Residents of " + c.Country, value, c.SourceURLs})
	}
	for _, b := range api.BoolFacts {
		value := "unknown"
		if known := *b.Value(&f); known != nil {
			value = map[bool]string{true: "yes", false: "no"}[*known]
		}
		all = append(all, fact{Label: b.Label, Value: value})
	}
	if p := f.Pay; p != nil {
		unit := strings.ReplaceAll(string(p.Unit), "-", " ")
		value := fmt.Sprintf("%g to %g %s for each %s", p.Minimum, p.Maximum, p.Currency, unit)
		all = append(all, fact{"Pay", value, []string{p.SourceURL}})
	}
	if len(f.Languages) > 0 {
		all = append(all, fact{Label: "Languages", Value: strings.Join(f.Languages, ", ")})
	}
	return append(all, fact{Label: "Applications", Value: string(f.ApplicationStatus)})
}

const dayLayout = "2 January 2006"

func instant(t time.Time) string { return t.UTC().Format(dayLayout + ", 15:04 UTC") }

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
	about := entry{Path: RecordPath + rec.ID, Title: rec.Company.Name,
		Description: "Verification status, dates and proof of the record of " + rec.Company.Name + "."}
	return s.layoutPage(page{entry: about, Wide: true, Canonical: url, Body: body})
}
