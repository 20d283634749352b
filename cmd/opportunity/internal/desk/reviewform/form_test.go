package reviewform_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/desk/reviewform"
	"opportunity.internal/pkg/api"
)

const (
	site  = "https://maple.example/"
	rates = "https://maple.example/rates"
	where = "https://maple.example/where"
)

var shownAt = time.Date(2026, 11, 22, 9, 0, 0, 123456000, time.UTC)

func ptr[T any](v T) *T { return &v }

// recorded returns facts with four known ones: countries, remote, pay and languages.
func recorded() api.Facts {
	f := api.UnknownFacts()
	f.CountryEligibility = []api.CountryEligibility{{
		Country: "CA", Status: api.Eligible, IncludedRegions: []string{"CA-ON"}, ExcludedRegions: []string{}, SourceURLs: []string{where},
	}}
	f.Remote = ptr(true)
	f.Pay = &api.Pay{Minimum: 17.5, Maximum: 20, Currency: "CAD", Unit: api.PerHour, SourceURL: rates}
	f.Languages = []string{"English", "French"}
	return f
}

func sheet() api.ReviewSheet {
	return api.ReviewSheet{
		GeneratedAt: shownAt, LastEventID: "event-1", ReviewedFacts: ptr(recorded()),
		Record: api.Opportunity{ID: "maple", Platform: api.Platform{Company: api.Company{Website: site}}, Sources: []api.Source{{URL: site}}},
	}
}

// submit parses the form of the sheet with further input.
func submit(t *testing.T, s api.ReviewSheet, input url.Values) reviewform.Form {
	t.Helper()
	values := url.Values{}
	for name, v := range reviewform.New(s, "").Values {
		values[name] = v
	}
	for name, v := range input {
		values[name] = v
	}
	f, err := reviewform.Parse(values)
	require.NoError(t, err)
	return f
}

// unchanged is the input of a review in which nothing changed.
func unchanged() url.Values {
	return url.Values{"mark.0": {"still"}, "mark.1": {"still"}, "mark.2": {"still"}, "rest": {"keep"}, "outcome": {"verified"}}
}

func with(v url.Values, pairs ...string) url.Values {
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

// review decodes the review of a form without problems.
func review(t *testing.T, f reviewform.Form) (r struct {
	CheckedAt   time.Time
	Outcome     string
	SourceURLs  []string
	Facts       *api.GivenFacts
	Note        string
	LastEventID *string
}) {
	t.Helper()
	text, problems := f.Review(nil)
	require.Empty(t, problems)
	require.NoError(t, json.Unmarshal(text, &r))
	return r
}

func messages(t *testing.T, f reviewform.Form) (all []string) {
	t.Helper()
	text, problems := f.Review(nil)
	require.Nil(t, text)
	for _, p := range problems {
		all = append(all, p.Message)
	}
	return all
}

func TestEveryFactIsOnTheFormOnce(t *testing.T) {
	var names []string
	keys := map[string]bool{}
	for _, g := range reviewform.Groups {
		for _, f := range g.Facts {
			names = append(names, f.Name)
			require.False(t, keys[f.Key], "two facts have the key %s", f.Key)
			keys[f.Key] = true
		}
	}
	require.ElementsMatch(t, api.FactNames, names)
	require.Len(t, reviewform.Groups, 6)
}

func TestUnchangedReviewSendsAllFactsAndTheOpenedSources(t *testing.T) {
	r := review(t, submit(t, sheet(), with(unchanged(), "note", " as before ")))
	require.Empty(t, r.Facts.Missing)
	require.Equal(t, recorded(), r.Facts.Facts)
	require.Equal(t, []string{site, where, rates}, r.SourceURLs)
	require.Equal(t, shownAt, r.CheckedAt)
	require.Equal(t, "event-1", *r.LastEventID)
	require.Equal(t, "verified", r.Outcome)
	require.Equal(t, "as before", r.Note)
}

func TestUndecidedFactsAreNamed(t *testing.T) {
	input := unchanged()
	input.Del("rest")
	require.Len(t, messages(t, submit(t, sheet(), input)), len(api.FactNames))
	require.Contains(t, messages(t, submit(t, sheet(), input)), "Remote: keep it, change it, or set it to unknown")
	require.Contains(t, messages(t, submit(t, sheet(), url.Values{"rest": {"keep"}})), "Choose an outcome")
}

func TestUnchangedFactNeedsASourceThatStillStatesIt(t *testing.T) {
	for _, mark := range []string{"", "otherwise", "gone", "cannot"} {
		problems := messages(t, submit(t, sheet(), with(unchanged(), "mark.2", mark)))
		require.Equal(t, []string{
			"Pay: cites source 3; open it and mark that it still says so, change the fact, or set it to unknown",
		}, problems, "mark %q", mark)
	}
	// Facts without sources of their own need any source.
	none := url.Values{"rest": {"keep"}, "outcome": {"verified"}, "fact.pay": {"unknown"}, "fact.countryEligibility": {"unknown"}, "mark.0": {"gone"}}
	require.Equal(t, []string{
		"Languages: no source still says so; change it or set it to unknown", "Remote: no source still says so; change it or set it to unknown",
	}, messages(t, submit(t, sheet(), none)))
	require.Equal(t, []string{site}, review(t, submit(t, sheet(), with(none, "mark.0", "still"))).SourceURLs)
}

func TestCannotTellIsUnknownAndNeverTheRecordedValue(t *testing.T) {
	input := unchanged()
	for _, name := range api.FactNames {
		if name != "remote" {
			input.Set("fact."+name, "unknown")
		}
	}
	want := api.UnknownFacts()
	want.Remote = ptr(true)
	require.Equal(t, want, review(t, submit(t, sheet(), input)).Facts.Facts)
}

func TestChangedFacts(t *testing.T) {
	r := review(t, submit(t, sheet(), with(unchanged(),
		"fact.remote", "false", "fact.applicationStatus", `"waitlist"`, "fact.applicationUrl", "change", "applicationUrl", " https://maple.example/apply ",
		"fact.pay", "change", "pay.maximum", "22,5", "mark.2", "otherwise",
		"fact.requirements", "change", "requirements", "A phone\r\n\r\n A bicycle ",
		"fact.countryEligibility", "change", "country.0.in", "on, QC", "country.1.code", "us", "country.1.status", "ineligible", "country.1.sources", "2 4",
		"more", "https://maple.example/us",
		"fact.riskIndicators", "change", "risk.0.code", "own-insurance", "risk.0.note", "Couriers insure themselves.", "risk.0.sources", "1")))
	require.Equal(t, []string{site, where, rates, "https://maple.example/us"}, r.SourceURLs)
	f := r.Facts
	require.False(t, *f.Remote)
	require.Equal(t, api.ApplicationWaitlist, f.ApplicationStatus)
	require.Equal(t, "https://maple.example/apply", *f.ApplicationURL)
	require.Equal(t, api.Pay{Minimum: 17.5, Maximum: 22.5, Currency: "CAD", Unit: api.PerHour, SourceURL: rates}, *f.Pay)
	require.Equal(t, []string{"A phone", "A bicycle"}, f.Requirements)
	require.Equal(t, []string{"English", "French"}, f.Languages)
	require.Equal(t, []string{"CA-ON", "CA-QC"}, f.CountryEligibility[0].IncludedRegions)
	require.Equal(t, "US", f.CountryEligibility[1].Country)
	require.Equal(t, []string{where, "https://maple.example/us"}, f.CountryEligibility[1].SourceURLs)
	require.Equal(t, []api.RiskIndicator{{Code: "own-insurance", Note: "Couriers insure themselves.", SourceURL: site}}, f.RiskIndicators)
}

func TestInvalidInputIsNamed(t *testing.T) {
	for want, change := range map[string][]string{
		"Pay: enter both amounts as numbers, such as 17.50":                              {"fact.pay", "change", "pay.minimum", "ten"},
		"Pay: there is no source 9; enter numbers from 1 to 3":                           {"fact.pay", "change", "pay.sources", "9"},
		"Pay: enter the number of one source":                                            {"fact.pay", "change", "pay.sources", ""},
		"Pay: maximum must not be below the minimum":                                     {"fact.pay", "change", "pay.maximum", "1"},
		"Remote: choose one of the values":                                               {"fact.remote", `"open"`},
		"Requirements: enter a value, or choose that you cannot tell":                    {"fact.requirements", "change"},
		"Application status: choose one of the values":                                   {"fact.applicationStatus", "change"},
		`"maple.example" is not an http or https URL`:                                    {"more", "maple.example"},
		"Countries and regions: [0].status must be one of eligible, ineligible, unknown": {"fact.countryEligibility", "change", "country.0.status", "x"},
		"Risk indicators: fees: enter the number of one source":                          {"fact.riskIndicators", "change", "risk.0.code", "fees"},
		"Pay: cites source 1, which you did not open":                                    {"fact.pay", "change", "pay.sources", "1", "mark.0", ""},
	} {
		require.Contains(t, messages(t, submit(t, sheet(), with(unchanged(), change...))), want)
	}
}

func TestClosedReviewNeedsNoFacts(t *testing.T) {
	r := review(t, submit(t, sheet(), url.Values{"outcome": {"closed"}, "mark.0": {"gone"}, "note": {"The site says goodbye."}}))
	require.Nil(t, r.Facts)
	require.Empty(t, r.SourceURLs)
	require.NotNil(t, r.SourceURLs)
	// One decision calls for all of them.
	require.NotEmpty(t, messages(t, submit(t, sheet(), url.Values{"outcome": {"closed"}, "fact.applicationStatus": {`"closed"`}, "mark.0": {"otherwise"}})))
}

func TestNewerSheetKeepsInputAndReopensChangedFacts(t *testing.T) {
	newer := sheet()
	newer.LastEventID, newer.GeneratedAt = "event-2", shownAt.Add(time.Minute)
	newer.ReviewedFacts.Remote = ptr(false)
	newer.ReviewedFacts.RiskIndicators = []api.RiskIndicator{{Code: "fees", SourceURL: "https://new.example/"}}
	f := submit(t, sheet(), with(unchanged(), "fact.languages", "change", "languages", "German", "note", "mine", "more", "https://more.example/"))
	require.Equal(t, []string{"remote", "riskIndicators"}, f.Rebase(newer))
	require.Equal(t, "mine", f.Values.Get("note"))
	require.Equal(t, []string{"", "", "change", "keep"},
		[]string{f.Decision("remote"), f.Decision("riskIndicators"), f.Decision("languages"), f.Decision("pay")})
	require.Equal(t, []string{site, where, rates, "https://more.example/", "https://new.example/"}, f.Sources)
	require.Len(t, messages(t, f), 2)

	again, err := reviewform.Parse(f.Values)
	require.NoError(t, err)
	again.Values.Set("fact.remote", "keep")
	again.Values.Set("fact.riskIndicators", "unknown")
	r := review(t, again)
	require.Equal(t, "event-2", *r.LastEventID)
	require.Equal(t, newer.GeneratedAt, r.CheckedAt)
	require.False(t, *r.Facts.Remote)
	require.Equal(t, []string{"German"}, r.Facts.Languages)
}

func TestQuotesAreStoredBySourceAndFact(t *testing.T) {
	stored := []api.Quote{{Fact: "pay", SourceURL: rates, Exact: "from 17.50"}, {Fact: "remote", SourceURL: site, Exact: "from home"}}
	for name, c := range map[string]struct {
		input  url.Values
		quotes []api.Quote
	}{
		"unchanged":       {url.Values{}, stored},
		"replaced":        {url.Values{"quote.2": {" from 18 "}, "quotefact.2": {"pay"}}, []api.Quote{stored[1], {Fact: "pay", SourceURL: rates, Exact: "from 18"}}},
		"removed":         {url.Values{"forget.1": {reviewform.QuoteID(stored[1])}}, stored[:1]},
		"of no such fact": {url.Values{"quote.2": {"x"}, "quotefact.2": {"nope"}}, stored},
	} {
		input := unchanged()
		maps.Copy(input, c.input)
		text, problems := submit(t, sheet(), input).Review(stored)
		require.Empty(t, problems, name)
		var sent struct{ Evidence api.Evidence }
		require.NoError(t, json.Unmarshal(text, &sent))
		require.Equal(t, c.quotes, sent.Evidence.Quotes, name)
	}
}

func TestDescribedFacts(t *testing.T) {
	f := recorded()
	for name, want := range map[string][]string{
		"countryEligibility": {"CA: eligible, in CA-ON"}, "remote": {"Yes"}, "degreeRequired": nil, "pay": {"17.5 to 20 CAD per hour"},
		"languages": {"English", "French"}, "applicationStatus": nil, "applicationUrl": nil, "requirements": {},
	} {
		require.Equal(t, want, reviewform.Describe(f, name), name)
	}
}

// Whatever arrives, the form can be shown again, and a review that it yields has all facts.
func FuzzForm(f *testing.F) {
	f.Add("base=%7B%7D&fact.remote=true&rest=keep&outcome=verified&source.0=https%3A%2F%2Fa.example%2F&mark.0=still")
	f.Add("base=%7B%7D&country.299.code=CA&fact.countryEligibility=change&more=x&outcome=closed")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		form, err := reviewform.Parse(values)
		if err != nil {
			return
		}
		text, problems := form.Review(nil)
		if len(problems) > 0 {
			return
		}
		var r struct{ Facts *api.GivenFacts }
		require.NoError(t, json.Unmarshal(text, &r))
		if r.Facts != nil {
			require.Empty(t, r.Facts.Missing)
		}
	})
}
