package forms_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
)

const (
	site  = "https://maple.example/"
	rates = "https://maple.example/rates"
	where = "https://maple.example/where"
)

var shownAt = time.Date(2026, 11, 22, 9, 0, 0, 123456000, time.UTC)

// recorded returns facts with four known ones: countries, remote, pay and languages.
func recorded() api.Facts {
	f := api.UnknownFacts()
	f.CountryEligibility = []api.CountryEligibility{{
		Country: "CA", Status: api.Eligible, IncludedRegions: []string{"CA-ON"}, ExcludedRegions: []string{},
		SourceURLs: []string{where},
	}}
	f.Remote = new(true)
	f.Pay = &api.Pay{Minimum: 17.5, Maximum: 20, Currency: "CAD", Unit: api.PerHour, SourceURL: rates}
	f.Languages = []string{"English", "French"}
	return f
}

func sheet() api.ReviewSheet {
	return api.ReviewSheet{
		GeneratedAt: shownAt, LastEventID: "event-1", ReviewedFacts: new(recorded()),
		Record: api.Opportunity{ID: "maple", Platform: api.Platform{Company: api.Company{Website: site}},
			Sources: []api.Source{{URL: site}}},
	}
}

// submit parses the form of the sheet with further input.
func submit(t *testing.T, s api.ReviewSheet, input url.Values) forms.Review {
	t.Helper()
	values := forms.NewReview(s, "").Values
	maps.Copy(values, input)
	f, err := forms.ParseReview(values)
	require.NoError(t, err)
	return f
}

// unchanged is the input of a review in which nothing changed.
func unchanged() url.Values {
	return url.Values{"state.0": {"still"}, "state.1": {"still"}, "state.2": {"still"}, "rest": {"keep"},
		"outcome": {"verified"}}
}

// given is the form of an unchanged review with further input, a query.
func given(t *testing.T, s api.ReviewSheet, query string) forms.Review {
	t.Helper()
	further, err := url.ParseQuery(query)
	require.NoError(t, err)
	input := unchanged()
	maps.Copy(input, further)
	return submit(t, s, input)
}

// review returns the review of a form without problems.
func review(t *testing.T, f forms.Review) api.Review {
	t.Helper()
	r, problems := f.Read()
	require.Empty(t, problems)
	return r
}

func messages(t *testing.T, f forms.Review) (all []string) {
	t.Helper()
	_, problems := f.Read()
	for _, p := range problems {
		all = append(all, p.Message)
	}
	return all
}

// inputs returns the inputs of a fact.
func inputs(f forms.Review, fact string) []forms.Field {
	i := slices.IndexFunc(forms.Facts, func(f forms.Field) bool { return f.Name == fact })
	return f.Inputs(forms.Facts[i])
}

func TestEveryFactIsOnTheFormOnce(t *testing.T) {
	var names []string
	keys := map[string]bool{}
	for _, f := range forms.Facts {
		names = append(names, f.Name)
		require.False(t, keys[f.Key], "two facts have the key %s", f.Key)
		keys[f.Key] = true
		for _, o := range f.Options {
			require.NotContains(t, []string{"o", "k", "e", "x"}, o.Key, "the key of %s means something else", o.Label)
		}
	}
	require.ElementsMatch(t, api.FactNames, names)
}

// TestInputOfAReview has further input of an unchanged review, and its problems, or the facts that
// change with it.
func TestInputOfAReview(t *testing.T) {
	const (
		pay    = "fact.pay=change&pay."
		ca     = "fact.countryEligibility=change&countryEligibility.0."
		rest   = "rest=&fact.pay=keep&fact.languages=keep&fact.countryEligibility=keep"
		none   = "fact.pay=unknown&fact.countryEligibility=unknown&state.0=gone&state.1=&state.2="
		unsaid = "no source still says so; change it or set it to unknown"
		cited  = `Pay: cites source 3; open it and choose "Still says so", change the fact, or set it to unknown`
		remote = "Remote: keep it, change it, or set it to unknown"
		choose = `Remote: choose the source of the quote "x"`
		us     = "https://maple.example/us"
		is     = "Countries and regions: CA: eligible, only in Ontario → CA: eligible"
	)
	for query, want := range map[string]string{
		"": "", "outcome=": "Choose an outcome", rest: remote, rest + "&outcome=needs-review": remote,
		"state.2=": cited, "state.2=otherwise": cited, "state.2=gone": cited, "state.2=cannot": cited,
		none:                                "Remote: " + unsaid + "\nLanguages: " + unsaid, // without sources of their own
		pay + "minimum=45.000":              `Pay, From: "45.000" can be 45 or 45000: write 45 or 45000`,
		pay + "maximum=9007199254740993":    `Pay, To: "9007199254740993" has more than 15 digits and would be rounded`,
		pay + "maximum=1":                   "Pay, To: 1 must not be below the minimum, 17.5",
		pay + "sourceUrl=":                  "Pay: choose the source",
		"fact.pay=change&state.2=":          "Pay: cites source 3, which you did not open",
		"fact.pay=change&state.2=otherwise": "",
		`fact.remote="open"`:                "Remote: choose one of the values",
		"fact.applicationStatus=change":     "Application status: choose one of the values",
		"fact.requirements=change":          "Requirements: enter a value, or choose that you cannot tell",
		"more=maple.example":                `"maple.example" is not an http or https URL`,
		ca + "status=x":                     `Country 1, Residents are: must be one of eligible, ineligible, unknown; "x" is not one`,
		ca + "includedRegions=Ontaro": "Country 1, Only in 1: must be a Canadian province or territory, such as CA-ON or ON; " +
			`"Ontaro" is not one`,
		"fact.riskIndicators=change&riskIndicators.0.code=fees": "Risk indicators: choose the source",
		"quote.remote=x": choose, "quote.remote=x&quotefrom.remote=javascript:alert(1)": choose,
		"quote.flexibleSchedule=x&quotefrom.flexibleSchedule=" + site: "Flexible schedule: there is a quote but no value; " +
			"choose the value, or remove the quote",
		"fact.pay=unknown&state.2=gone&quote.remote=x&quotefrom.remote=" + rates: "Remote: the quote is from source 3, " +
			"which is gone or was not opened",
		"quotefrom.remote=" + site + "&quote.remote=" + strings.Repeat("é", 501): "Remote: a quote has 501 characters, " +
			"at most 500 are allowed; shorten it",
		"note= as before ": "", "fact.remote=false": "Remote: Yes → No", pay + "minimum=17.5": "",
		"fact.applicationStatus=" + url.QueryEscape(`"waitlist"`): "Application status: unknown → Waitlist",
		"fact.applicationUrl=change&applicationUrl= " + site:      "Application URL: unknown → " + site,
		pay + "maximum=22,5&state.2=otherwise":                    "Pay: 17.5 to 20 CAD per hour → 17.5 to 22.5 CAD per hour",
		pay + "minimum=45,000&pay.maximum=50 000&pay.unit=year":   "Pay: 17.5 to 20 CAD per hour → 45000 to 50000 CAD per year",
		"fact.requirements=change&requirements=A phone%0D%0A%0D%0A A bicycle ": "Requirements: unknown → " +
			"A phone; A bicycle",
		"fact.riskIndicators=change&riskIndicators.0.code=own-insurance&riskIndicators.0.sourceUrl=" + site: "Risk indicators: " +
			"unknown → own-insurance",
		ca + "includedRegions=on&countryEligibility.1.country=us&countryEligibility.1.status=ineligible&more=" + us +
			"&countryEligibility.1.sourceUrls=" + us: is + ", only in Ontario; US: ineligible",
		ca + "includedRegions=Québec":                is + ", only in Québec",
		ca + "includedRegions=Que\u0301bec, ONTARIO": is + ", only in Québec, Ontario",
		ca + "includedRegions=on QC%3Bca-bc":         is + ", only in Ontario, Québec, British Columbia",
		ca + "includedRegions=Prince-Edward island":  is + ", only in Prince Edward Island", ca + "includedRegions= , ": is,
		"fact.pay=unknown&fact.languages=unknown&fact.countryEligibility=unknown": "Countries and regions: CA: eligible, " +
			"only in Ontario → unknown\nPay: 17.5 to 20 CAD per hour → unknown\nLanguages: English; French → unknown",
	} {
		form := given(t, sheet(), query)
		got := strings.Join(messages(t, form), "\n")
		if r, problems := form.Read(); len(problems) == 0 {
			got = strings.Join(forms.Changes(recorded(), r.Facts.Facts), "\n")
			require.Empty(t, r.Facts.Missing)
			require.Subset(t, r.SourceURLs, []string{site, where}, query)
			require.Equal(t, strings.Contains(query, us), slices.Contains(r.SourceURLs, us))
		}
		require.Equal(t, want, got, query)
	}
	for _, amount := range []float64{1e6, 1.125, 0.000001, 123456789012345} { // read again as it was
		s := sheet()
		s.ReviewedFacts.Pay.Minimum, s.ReviewedFacts.Pay.Maximum = amount, amount
		require.Equal(t, amount, review(t, given(t, s, "fact.pay=change")).Facts.Pay.Minimum)
	}
}

func TestRegionsOfCanadaAreBoxes(t *testing.T) {
	for kind, want := range map[string][2][]string{"in": {{"CA-QC", "CA-YT"}, {}}, "notin": {{}, {"CA-QC", "CA-YT"}}} {
		c := review(t, given(t, sheet(), "fact.countryEligibility=change&countryEligibility.0.regions="+kind+
			"&countryEligibility.0.includedRegions=CA-QC&countryEligibility.0.includedRegions=CA-YT")).Facts.CountryEligibility[0]
		require.Equal(t, want, [2][]string{c.IncludedRegions, c.ExcludedRegions})
		s := sheet()
		s.ReviewedFacts.CountryEligibility = []api.CountryEligibility{c}
		fields := inputs(forms.NewReview(s, ""), "countryEligibility")[0].Fields
		require.Equal(t, []string{kind}, fields[3].Values)
		require.Equal(t, []string{"CA-QC", "CA-YT"}, fields[4].Values)
		require.Equal(t, forms.Boxes, fields[4].Kind)
	}
}

// A second opinion is about the drawn facts: the others are unknown to it.
func TestSecondOpinionIsAboutTheDrawnFacts(t *testing.T) {
	s := sheet()
	s.OpinionFacts = []string{"remote"}
	f := forms.NewReview(s, "event-0")
	f.Values.Set("outcome", "verified")
	f.Values.Set("state.0", "still")
	f.Values.Set("fact.remote", "false")
	f.Values.Set("listing.startingCost", "5 CAD")
	r, problems := f.Read()
	require.Empty(t, problems)
	want := api.UnknownFacts()
	want.Remote = new(false)
	require.Equal(t, want, r.Facts.Facts)
	require.Empty(t, f.Changes())
}

func TestUnknownCountriesAndPayStartWithCanada(t *testing.T) {
	s := sheet()
	s.ReviewedFacts = nil
	f := forms.NewReview(s, "")
	require.Equal(t, "CA CAD", f.Values.Get("countryEligibility.0.country")+" "+f.Values.Get("pay.currency"))
	blank := func(fact string) int {
		return slices.IndexFunc(inputs(f, fact), func(e forms.Field) bool { return e.Blank })
	}
	require.Equal(t, []int{1, 0}, []int{blank("countryEligibility"), blank("riskIndicators")})
	s.ReviewedFacts = &api.Facts{CountryEligibility: []api.CountryEligibility{{Country: "US"}, {Country: "FR"}},
		Pay: &api.Pay{Currency: "USD"}}
	f = forms.NewReview(s, "")
	require.Equal(t, "US USD", f.Values.Get("countryEligibility.0.country")+" "+f.Values.Get("pay.currency"))
	require.Equal(t, 2, blank("countryEligibility"))
}

func TestSummaryHasTheOldAndNewValueOfEachChangedFact(t *testing.T) {
	f := given(t, sheet(), "fact.remote=false&fact.languages=unknown&fact.countryEligibility=change&"+
		"countryEligibility.0.sourceUrls="+site+"&fact.requirements=change")
	require.Equal(t, "Verified: 1 fact kept, 4 changed, 6 unknown, 0 quotes.\n"+
		"Countries and regions: cites source 2 → cites source 1\nRemote: Yes → No\nLanguages: English; French → unknown\n"+
		"Requirements: enter a value, or choose that you cannot tell", f.Summary())
}

// A review that ends in closed says so in its facts and keeps the others, except those that cite
// pages that are gone.
func TestClosedReviewClosesApplications(t *testing.T) {
	closed := url.Values{"outcome": {"closed"}, "state.2": {"gone"}, "note": {"The site says goodbye."}}
	form := submit(t, sheet(), closed)
	require.Equal(t, "Closed, and the application status becomes closed: 3 facts kept, 2 changed, 6 unknown, 0 quotes.\n"+
		"Pay: 17.5 to 20 CAD per hour → unknown\nApplication status: unknown → Closed", form.Summary())
	r := review(t, form)
	want := recorded()
	want.ApplicationStatus, want.Pay = api.ApplicationClosed, nil
	require.Equal(t, want, r.Facts.Facts)
	require.NotNil(t, r.SourceURLs)
	for _, decision := range []string{"keep", `"open"`, "unknown"} { // the outcome decides
		r = review(t, given(t, sheet(), "rest=&outcome=closed&state.0=otherwise&state.2=gone&fact.remote=false&"+
			"fact.applicationStatus="+decision))
		require.Equal(t, api.ApplicationClosed, r.Facts.ApplicationStatus)
		require.False(t, *r.Facts.Remote)
	}
}

func TestNeedsReviewHasFactsIfAnyIsDecided(t *testing.T) {
	open := url.Values{"outcome": {"needs-review"}}
	require.Equal(t, "Needs review: no facts are recorded.", submit(t, sheet(), open).Summary())
	require.Nil(t, review(t, submit(t, sheet(), open)).Facts)
}

func TestNewerSheetKeepsInputAndReopensChangedFacts(t *testing.T) {
	newer := sheet()
	newer.LastEventID, newer.GeneratedAt = "event-2", shownAt.Add(time.Minute)
	newer.ReviewedFacts.Remote = new(false)
	newer.ReviewedFacts.RiskIndicators = []api.RiskIndicator{{Code: "fees", SourceURL: "https://new.example/"}}
	f := given(t, sheet(), "fact.languages=change&languages=German&note=mine&more=https://more.example/")
	require.Equal(t, []string{"remote", "riskIndicators"}, f.Rebase(newer))
	require.Equal(t, "mine", f.Values.Get("note"))
	require.Equal(t, []string{"", "", "change", "keep"},
		[]string{f.Decision("remote"), f.Decision("riskIndicators"), f.Decision("languages"), f.Decision("pay")})
	require.Equal(t, []string{site, where, rates, "https://more.example/", "https://new.example/"}, f.Sources())
	require.Len(t, messages(t, f), 2)

	again, err := forms.ParseReview(f.Values)
	require.NoError(t, err)
	again.Values.Set("rest", "keep")
	require.Len(t, messages(t, again), 2, "a common decision is none about a new value")
	again.Values.Set("fact.remote", "keep")
	again.Values.Set("fact.riskIndicators", "unknown")
	r := review(t, again)
	require.Equal(t, "event-2", *r.LastEventID)
	require.Equal(t, newer.GeneratedAt, r.CheckedAt)
	require.False(t, *r.Facts.Remote)
	require.Equal(t, []string{"German"}, r.Facts.Languages)
}

// After a conflict, submitting again records none of the first curator's decisions about facts that
// the other review changed.
func TestEveryDecisionAboutAChangedFactIsForgotten(t *testing.T) {
	other := api.Facts{ApplicationStatus: api.ApplicationWaitlist, ApplicationURL: new(site),
		CountryEligibility: []api.CountryEligibility{{Country: "US", Status: api.Eligible, SourceURLs: []string{site}}},
		Remote:             new(false), DegreeRequired: new(true), ExperienceRequired: new(false),
		FlexibleSchedule: new(false),
		Pay:              &api.Pay{Minimum: 1, Maximum: 2, Currency: "USD", Unit: api.PerTask, SourceURL: site},
		Languages:        []string{"German"}, Requirements: []string{"A car"},
		RiskIndicators: []api.RiskIndicator{{Code: "fees", SourceURL: site}},
	}
	const entered = "countryEligibility.0.country=FR&pay.minimum=5&languages=Latin&applicationUrl=" + where +
		"&requirements=A boat&riskIndicators.0.code=odd&riskIndicators.0.sourceUrl=" + site
	for _, fact := range forms.Facts {
		decisions := []string{"", "keep", "change", "unknown"}
		for _, o := range fact.Options {
			decisions = append(decisions, o.Value)
		}
		for _, decision := range decisions {
			for _, newValue := range []api.Facts{other, api.UnknownFacts()} {
				newer := sheet()
				newer.LastEventID, newer.ReviewedFacts = "event-2", &newValue
				if !slices.Contains(forms.Differences(recorded(), newValue), fact.Name) {
					continue
				}
				f := given(t, sheet(), entered+"&fact."+fact.Name+"="+url.QueryEscape(decision))
				require.Contains(t, f.Rebase(newer), fact.Name)
				require.Empty(t, f.Decision(fact.Name), "%s: %q", fact.Name, decision)
				parsed, err := forms.ParseReview(f.Values)
				require.NoError(t, err)
				require.Contains(t, messages(t, parsed), fact.Label+": keep it, change it, or set it to unknown")
			}
		}
	}
}

func TestOutcomeOfAnotherReviewIsDecidedAgain(t *testing.T) {
	for other, want := range map[api.Outcome]string{api.OutcomeVerified: "verified", api.OutcomeClosed: ""} {
		newer := sheet()
		newer.LastEventID = "event-3"
		for _, e := range []api.VerificationEvent{{ID: "event-3", CheckType: api.LinkCheck},
			{ID: "event-2", CheckType: api.FactualReview, Outcome: other},
			{ID: "event-1", CheckType: api.FactualReview, Outcome: api.OutcomeNeedsReview}} {
			newer.Events = append(newer.Events, api.RecordedEvent{VerificationEvent: e})
		}
		f := given(t, sheet(), "")
		f.Rebase(newer)
		require.Equal(t, want, f.Values.Get("outcome"))
	}
}

func TestSourcesOfTheLatestReviewComeFirstWithoutThoseThatAreGone(t *testing.T) {
	s := sheet()
	s.Record.Sources = []api.Source{{URL: site}, {URL: "https://old.example/"}, {URL: "https://dead.example/"}}
	s.Events = []api.RecordedEvent{{VerificationEvent: api.VerificationEvent{CheckType: api.LinkCheck}},
		{VerificationEvent: api.VerificationEvent{CheckType: api.FactualReview, SourceURLs: []string{rates, where}}}}
	s.Evidence.Gone = []string{"https://dead.example/"}
	require.Equal(t, []string{rates, where, site, "https://old.example/"}, forms.NewReview(s, "").Sources())
	s = quoted()
	s.Record.Sources = nil
	require.Contains(t, forms.NewReview(s, "").Sources(), site, "the page of a quote is a source of the form")
}

// quoted is a sheet with a quote for each known fact; the machine found them all again.
func quoted() api.ReviewSheet {
	s := sheet()
	for _, q := range [][2]string{{"countryEligibility", where}, {"remote", site}, {"pay", rates}, {"languages", site}} {
		s.Evidence.Quotes = append(s.Evidence.Quotes, api.Quote{Fact: q[0], SourceURL: q[1], Exact: "about " + q[0]})
	}
	for _, q := range s.Evidence.Quotes {
		s.Readings = append(s.Readings, api.QuoteReading{Quote: q, Finding: api.QuotePresent, ReadAt: shownAt})
	}
	return s
}

// TestQuotesOfAReview has further input of an unchanged review of quoted, and the quotes of each
// fact.
func TestQuotesOfAReview(t *testing.T) {
	const paste = "&quotefrom.remote=" + site + "&quote.remote="
	all := map[string]string{"countryEligibility": "about countryEligibility", "pay": "about pay",
		"languages": "about languages", "remote": "about remote"}
	for query, change := range map[string]map[string]string{
		"":                                    nil,
		"fact.remote=false&fact.pay=unknown":  {"remote": "", "pay": ""},
		"fact.remote=false&still.remote=on":   nil, // the curator says that it supports the new value
		"fact.pay=unknown&still.pay=on":       {"pay": ""},
		"fact.remote=true&kept.languages=":    {"languages": ""}, // the same value is kept
		"fact.remote=false" + paste + " new ": {"remote": "new"},
		paste + "live in Canada" + paste + "about remote" + paste + "not in Quebec" + paste + "live in Canada": {
			"remote": "about remote; live in Canada; not in Quebec"},
		"state.0=cannot":                        {"remote": "", "languages": ""}, // the page cannot be opened
		"state.0=&kept.remote=&kept.languages=": {"remote": "", "languages": ""},
	} {
		want, got := maps.Clone(all), map[string]string{}
		maps.Copy(want, change)
		maps.DeleteFunc(want, func(_, text string) bool { return text == "" })
		for _, q := range review(t, given(t, quoted(), query)).Evidence.Quotes {
			got[q.Fact] = strings.TrimPrefix(got[q.Fact]+"; "+q.Exact, "; ")
		}
		require.Equal(t, want, got, query)
	}
	require.Contains(t, messages(t, given(t, quoted(), "state.0=")), `Remote: keeps the quote "about remote" from source 1, `+
		"which you did not open; open it and choose its state, or leave the quote out")
	eleven := paste + strings.Join(strings.Fields("a b c d e f g h i j"), paste) // with the stored one
	require.Equal(t, []string{"Remote: 11 quotes, and a fact has at most 10; leave out 1"},
		messages(t, given(t, quoted(), eleven)))
	e := review(t, given(t, quoted(), "state.1=cannot&state.2=gone&fact.pay=unknown&fact.countryEligibility=unknown")).Evidence
	require.Equal(t, [][]string{{rates}, {where}}, [][]string{e.Gone, e.Unopened})
}

// A suggestion or a pasted quote confirms its page and makes it a source of the record; a value
// without a source cites it.
func TestPagesOfAddedQuotesBecomeSources(t *testing.T) {
	const apply, faq = "https://maple.example/apply", "https://maple.example/faq"
	s := sheet()
	s.ReviewedFacts = nil
	suggestion := api.Quote{Fact: "pay", SourceURL: apply, Exact: "You earn 17 to 18 CAD an hour", Prefix: "a", Suffix: "b"}
	input := url.Values{"outcome": {"verified"}, "use.pay": {forms.QuoteValue(suggestion)}, "fact.pay": {"change"},
		"pay.minimum": {"17"}, "pay.maximum": {"18"}, "pay.currency": {"cad"}, "pay.unit": {"hour"}}
	f := submit(t, s, input)
	require.Equal(t, "Verified: 0 facts kept, 1 changed, 10 unknown, 1 quote.\nPay: unknown → 17 to 18 CAD per hour",
		f.Summary())
	r := review(t, f)
	require.Equal(t, []api.Quote{suggestion}, r.Evidence.Quotes)
	require.Equal(t, apply, r.Facts.Pay.SourceURL)
	require.Equal(t, []string{apply}, r.SourceURLs, "only pages that the curator used")

	input["quote.pay"], input["quotefrom.pay"] = []string{"", "Wherever you\nare", "Any place"}, []string{"1", faq, apply}
	f = submit(t, s, input)
	require.Equal(t, []string{site, apply, faq}, f.Sources())
	require.Equal(t, []api.Quote{suggestion, {Fact: "pay", SourceURL: faq, Exact: "Wherever you are"},
		{Fact: "pay", SourceURL: apply, Exact: "Any place"}}, f.Added())
	require.Equal(t, []string{apply, faq}, review(t, f).SourceURLs)
	again, err := forms.ParseReview(f.Values) // as a draft
	require.NoError(t, err)
	require.Equal(t, f.Sources(), again.Sources())
	again.Values.Del("use.pay")
	require.Equal(t, forms.StillSo, again.SourceState(apply), "it has another quote")
	again.Values["quotefrom.pay"][2] = faq
	require.Empty(t, again.SourceState(apply), "no quote is from it any more")
}

func TestMovedQuoteIsKeptInItsNewSurroundings(t *testing.T) {
	s := quoted()
	moved := s.Readings[2].Quote
	moved.Prefix = "now "
	s.Readings[2].Finding, s.Readings[2].Moved = api.QuoteMoved, &moved
	require.Empty(t, forms.NewReview(s, "").SourceState(rates), "the curator confirms it")
	require.Contains(t, review(t, given(t, s, "")).Evidence.Quotes,
		api.Quote{Fact: "pay", SourceURL: rates, Exact: "about pay", Prefix: "now "})
}

func TestMissingQuoteIsAProblemOnce(t *testing.T) {
	f := given(t, sheet(), "quote.remote=Bananas are blue&quotefrom.remote="+site)
	problems := func(finding api.Finding) int {
		wrong, uncompared := f.Compare([]api.QuoteReading{{Quote: f.Added()[0], Finding: finding, ReadAt: shownAt}})
		require.Equal(t, finding == api.QuoteUnknown, len(uncompared) == 1)
		return len(wrong)
	}
	for _, finding := range []api.Finding{api.QuotePresent, api.QuoteMoved, api.QuoteUnknown} {
		require.Zero(t, problems(finding))
	}
	require.Equal(t, 1, problems(api.QuoteMissing))
	require.Zero(t, problems(api.QuoteMissing), "the curator submitted it again")
	f.Values.Set("quote.remote", "Bananas are red")
	require.Equal(t, 1, problems(api.QuoteMissing), "other words")
}

func TestFormKeepsWhatTheMachineFoundAgain(t *testing.T) {
	f := forms.NewReview(quoted(), "")
	require.Equal(t, "Verified: 4 facts kept, 7 unknown, 4 quotes.", f.Summary())
	_, problems := f.Read()
	require.Empty(t, problems, "an unchanged record is ready to submit")
	require.Equal(t, "No outcome yet: 0 facts kept, 7 unknown, 0 quotes. 4 facts need a decision.",
		forms.NewReview(quoted(), "opinion").Summary(), "a second opinion is the person's own")

	for _, change := range []func(*api.ReviewSheet){
		func(s *api.ReviewSheet) { s.Edits = []api.ListingEdit{{}} },
		func(s *api.ReviewSheet) { s.Reasons = []api.DueReason{{Why: api.DueLinkCheck}} },
		func(s *api.ReviewSheet) { s.Opinion = &api.SecondOpinion{} },
		func(s *api.ReviewSheet) { s.ReviewedFacts.DegreeRequired = new(true) }, // without a quote
	} {
		s := quoted()
		change(&s)
		f = forms.NewReview(s, "")
		require.Equal(t, " keep", f.Values.Get("outcome")+" "+f.Values.Get("fact.pay"))
	}
	for _, finding := range []api.Finding{api.QuoteMissing, api.QuoteMoved, api.QuoteUnknown, ""} {
		s := quoted()
		s.Readings[2].Finding = finding // of pay
		f = forms.NewReview(s, "")
		require.Empty(t, f.Values.Get("outcome")+f.Values.Get("fact.pay")+f.SourceState(rates), finding)
		require.Equal(t, finding == api.QuoteMissing, len(f.Values["kept.pay"]) == 0, finding)
		require.Equal(t, "keep still", f.Values.Get("fact.remote")+" "+f.SourceState(site), finding)
	}
	s := quoted()
	s.ReviewedFacts.Pay.SourceURL = "https://other.example/" // no quote is from the page that the fact cites
	require.Empty(t, forms.NewReview(s, "").Values.Get("fact.pay"))
}

// Whatever arrives, the form can be shown again, and a review that it yields has all facts.
func FuzzForm(f *testing.F) {
	f.Add("base=%7B%7D&fact.remote=true&rest=keep&outcome=verified&source=https%3A%2F%2Fa.example%2F&state.0=still")
	f.Add("base=%7B%7D&countryEligibility.0.country=CA&fact.countryEligibility=change&more=x&outcome=closed")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		form, err := forms.ParseReview(values)
		if err != nil {
			return
		}
		if r, problems := form.Read(); len(problems) == 0 {
			_, err := json.Marshal(r)
			require.NoError(t, err)
		}
	})
}
