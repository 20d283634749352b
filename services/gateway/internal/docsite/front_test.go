package docsite_test

import (
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/gateway/internal/docsite"
)

// overview returns an overview with a record.
func overview(t *testing.T) api.CatalogOverview {
	t.Helper()
	checked, fresh := instant("2026-11-20T09:30:00Z"), instant("2026-12-04T09:30:00Z")
	yes, day := true, api.CheckDate("2026-11-20")
	o := api.Opportunity{
		ID: "maple-scribe", Platform: api.Platform{Company: api.Company{Name: "Maple <Scribe>"}, Summary: "Transcripts."},
		Facts: api.Facts{
			Remote: &yes, ApplicationStatus: api.ApplicationOpen,
			CountryEligibility: []api.CountryEligibility{{
				Country: "CA", Status: api.Eligible, IncludedRegions: []string{"CA-ON"}, ExcludedRegions: []string{"CA-QC"},
				SourceURLs: []string{"https://maplescribe.example/where"},
			}},
			Pay: &api.Pay{Minimum: 0.6, Maximum: 1.4, Currency: "CAD", Unit: api.PerAudioMinute,
				SourceURL: "https://maplescribe.example/pay"},
		},
		Verification: api.Verification{Status: api.Verified, LastCheckedAt: &checked, FreshUntil: &fresh},
		Sources: []api.Source{{URL: "https://maplescribe.example/", CheckedAt: &day},
			{URL: "https://maplescribe.example/pay"}},
	}
	example, err := api.Encode(o)
	require.NoError(t, err)
	counts := api.CategoryCounts{Category: api.Online, Statuses: map[api.VerificationStatus]int{api.Verified: 3,
		api.Stale: 1}}
	return api.CatalogOverview{
		GeneratedAt: instant("2026-11-22T12:00:00Z"), LastChangeAt: &checked, Categories: []api.CategoryCounts{counts},
		Countries: []api.CountryCount{{Country: "CA", Records: 4}}, Example: example,
	}
}

func showCatalog(t *testing.T, site *docsite.Site, o api.CatalogOverview) {
	t.Helper()
	require.NoError(t, site.ShowCatalog(&o, time.Now()))
}

func instant(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestFrontPageShowsARecordWithItsEvidence(t *testing.T) {
	site := siteOf(t, docsite.Operator{})
	require.NotContains(t, get(t, site, "/").Body.String(), "In the data now", "nothing is known about the data yet")
	showCatalog(t, site, overview(t))
	page := plainly(t, site, "/")
	for _, shown := range []string{
		`<bdi>Maple &lt;Scribe&gt;</bdi> <span class="badge good">verified</span>`,
		"Facts checked on 20 November 2026, 09:30 UTC, fresh until 4 December 2026, 09:30 UTC. Status at 22 November 2026, " +
			"12:00 UTC.",
		"<dt>Residents of CA</dt>\n<dd>eligible, in CA-ON, except CA-QC <a href=\"https://maplescribe.example/where\"",
		"<dt>Remote</dt>\n<dd>yes</dd>", "<dt>Degree required</dt>\n<dd><span class=\"muted\">unknown</span></dd>",
		"0.6 to 1.4 CAD for each audio minute <a href=\"https://maplescribe.example/pay\"",
		"https://maplescribe.example/</a>, checked 20 November 2026",
		`<figcaption><span>JSON</span></figcaption>`, "GET /api/v1/opportunities/maple-scribe", api.UsageRight,
		"4 public records at 22 November 2026, 12:00 UTC.", "CA&nbsp;4",
		`<tr><th scope="row">online <span class="more">work from anywhere: transcribing, testing, teaching</span></th><td ` +
			`class="number">3</td><td class="number">1</td><td class="number">0</td><td class="number">0</td><td ` +
			`class="number">4</td></tr>`,
	} {
		require.Contains(t, page, shown)
	}
	_, response, _ := strings.Cut(page, `<code class="language-json">`)
	response, _, _ = strings.Cut(response, "</code>")
	require.JSONEq(t, `{"company": {"name": "Maple <Scribe>"}, "facts": {"countryEligibility": [{"country": "CA", "status": "eligible"}], "remote": true},
		"verification": {"status": "verified", "lastCheckedAt": "2026-11-20T09:30:00Z"}, "sources": [{"url": "https://maplescribe.example/"}]}`, html.UnescapeString(response))
	showCatalog(t, site, api.CatalogOverview{})
	page = get(t, site, "/").Body.String()
	require.NotContains(t, page, "Maple &lt;", "the free set is empty")
	require.Contains(t, page, "No record is public yet")
}

// While the catalog is unavailable, the front page shows the last copy for five minutes, and then
// no records.
func TestFrontPageWithoutTheCatalog(t *testing.T) {
	// not the clock of the catalog, whose age does not count
	site, start, some := siteOf(t, docsite.Operator{}), instant("2026-11-22T18:00:00Z"), overview(t)
	for _, c := range []struct {
		after    time.Duration
		overview *api.CatalogOverview
		shown    bool
	}{
		{0, nil, false},
		{0, &some, true},
		{5*time.Minute - time.Second, nil, true},
		{5 * time.Minute, nil, false},
		{5 * time.Minute, &some, true},
	} {
		require.NoError(t, site.ShowCatalog(c.overview, start.Add(c.after)))
		page := get(t, site, "/").Body.String()
		require.Equal(t, c.shown, strings.Contains(page, "4 public records at 22 November 2026, 12:00 UTC."), c.after)
	}
}

// The plans are those of the installation. A plan with a price is only named where it is sold.
func TestFrontPageShowsThePlansOfTheInstallation(t *testing.T) {
	tiers := api.DefaultLimits()
	tiers[2].Limits.PerDay = 54321
	for sells, shown := range map[bool]string{
		true: `<tr><th scope="row">Business</th><td>29 USD a month</td><td>Every public record</td><td class="number">54,` +
			`321</td>`,
		false: `<tr><th scope="row">Commercial</th><td>Granted by the operator</td><td>Every public record</td><td ` +
			`class="number">54,321</td>`,
	} {
		site, err := docsite.New(publicURL, docsite.Operator{SellsPlans: sells})
		require.NoError(t, err)
		require.NotContains(t, get(t, site, "/").Body.String(), "Plans</h2>", "no limits are known yet")
		require.NoError(t, site.Show(docsite.Figures{Tiers: tiers, Capacity: 1}))
		require.Contains(t, plainly(t, site, "/"), shown)
	}
}

func TestStatusPage(t *testing.T) {
	site, err := docsite.New(publicURL, docsite.Operator{SellsPlans: true})
	require.NoError(t, err)
	require.Contains(t, get(t, site, "/status").Body.String(), "have not been checked yet")
	health := docsite.Health{
		At: instant("2026-11-22T12:00:00Z"), Since: instant("2026-11-22T08:00:00Z"), Missing: []string{"history (set back)"},
	}
	for i := range 10_000 {
		site.Count(i == 0, docsite.LatencyObjective+time.Duration(i%2))
	}
	showCatalog(t, site, overview(t))
	require.NoError(t, site.ShowHealth(health))
	page := plainly(t, site, "/status")
	for _, shown := range []string{
		"Checked at 22 November 2026, 12:00 UTC", "since 22 November 2026, 08:00 UTC",
		`<th scope="row">Lists and records</th><td><span class="badge good">Available</span>`,
		`<th scope="row">Verification history</th><td><span class="badge bad">Problem</span>`,
		`<th scope="row">Payments</th><td><span class="badge good">Available</span>`,
		`99.9%</td><td>99.99% of 10,000 requests <span class="badge good">Met</span>`,
		`99%</td><td>49.99% of 9,999 requests <span class="badge bad">Missed</span>`,
		`95%</td><td>75.00% of 4 records <span class="badge bad">Missed</span>`,
	} {
		require.Contains(t, page, shown)
	}
	require.NotContains(t, page, "<svg", "the days are unknown")
	require.NoError(t, site.ShowServed(nil))
	require.Contains(t, get(t, site, "/status").Body.String(),
		"0 days met the target of availability, 0 missed it with at least 99% served, 0 had less, and 90 had no requests.")
	require.NoError(t, site.ShowServed([]api.DayServed{
		{Day: "2026-11-20", Calls: 10_000, Failed: 1}, {Day: "2026-11-21", Calls: 100, Failed: 1}, {Day: "2026-11-22",
			Calls: 10, Failed: 9}, {Day: "2026-01-01", Calls: 1},
	}))
	page = plainly(t, site, "/status")
	for _, shown := range []string{
		"Last 90 days", "1 day met the target of availability, 1 missed it with at least 99% served, 1 had less, and 87 had " +
			"no requests.",
		`<rect class="good" x="87" width=".8" height="10"><title>2026-11-20: 99.99% served</title>`,
		`<rect class="bad" x="89" width=".8" height="10"><title>2026-11-22: 10.00% served</title>`,
	} {
		require.Contains(t, page, shown)
	}
	health.Missing = []string{"redis"}
	require.NoError(t, site.ShowHealth(health))
	page = plainly(t, site, "/status")
	require.NotContains(t, page, `Lists and records</th><td><span class="badge good">`,
		"no call is admitted without Redis")
	require.Contains(t, page, `<th scope="row">Accounts and keys</th><td><span class="badge good">`)
}

// The status page has the targets of the page for operators.
func TestObjectivesAreThoseOfTheOperators(t *testing.T) {
	slo, err := os.ReadFile("../../../../docs/operators/slo.md")
	require.NoError(t, err)
	for _, target := range []string{
		fmt.Sprintf("%g%% are served", 100*docsite.AvailabilityTarget), fmt.Sprintf("%g%% within %g s",
			100*docsite.LatencyTarget, docsite.LatencyObjective.Seconds()),
		fmt.Sprintf("%g%% are verified", 100*docsite.FreshnessTarget),
	} {
		require.Contains(t, string(slo), target)
	}
}
