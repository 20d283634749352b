package desk_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

const mapleListing = `{"id":"maple","company":{"name":"Maple Scribe","website":"https://maple.example/"},"applicationUrl":"https://maple.example/apply",` +
	`"category":"online","subcategory":null,"summary":"Typing.","overview":"","startingCost":"","workModel":"","publishedAt":null,"sources":[{"url":"https://maple.example/","checkedAt":null}],` +
	`"visibility":"published","curation":{"contact":"jo@maple.example","notes":""}}`

func mapleDetail(version, listing string) api.ListingDetail {
	record := sheet().Record
	record.Verification.LastCheckedAt = new(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
	return api.ListingDetail{
		Version: version, Listing: json.RawMessage(listing), Record: record,
		Changes: []api.ListingAct{{Actor: "bob", Action: "updated", At: time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)}},
	}
}

// editing is a desk with the listing of maple, and the input of its form.
func editing(t *testing.T) (*server, browser, url.Values) {
	t.Helper()
	s, b := reviewing(t)
	s.api.respond("GET /records/maple", mapleDetail("v1", mapleListing))
	page := b.get("/records/maple/edit")
	require.Equal(t, http.StatusOK, page.StatusCode, page.body)
	return s, b, page.input(t, "edit")
}

// confirmation returns the value of the button that saves what the page shows.
func (r response) confirmation() string {
	_, rest, _ := strings.Cut(r.body, `name="save" value="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func TestEditShowsItsConsequencesBeforeItSaves(t *testing.T) {
	s, b, input := editing(t)
	input.Set("overview", "Ten a day.")
	input.Set("startingCost", "10 CAD") // a review changes it
	input.Set("curation.notes", "Calls only.")
	detail := mapleDetail("v1", mapleListing)
	s.api.respond("PUT /records/maple", api.EditReport{
		Fields: []string{"overview", "curation"}, Current: &detail,
		Change: &api.ListingChange{Fields: []api.FieldChange{
			{Field: "curation.notes", Old: json.RawMessage(`""`), New: json.RawMessage(`"Calls only."`)}, {Field: "overview",
				Old: json.RawMessage(`""`), New: json.RawMessage(`"Ten a day."`)},
		}},
	})
	page := b.post("/records/maple/edit", input)
	require.Equal(t, http.StatusOK, page.StatusCode)
	page.requireAll(t, "Consumers see the change from now on. The status of the record does not change.",
		`<th scope="row">Overview</th>`, `<th scope="row">Private notes, Notes</th>`)
	sent := s.api.sent("PUT /records/maple")
	require.Len(t, sent, 1)
	require.JSONEq(t, strings.NewReplacer(`"overview":""`, `"overview":"Ten a day."`, `"notes":""`,
		`"notes":"Calls only."`).Replace(mapleListing),
		strings.Replace(sent[0], `"companyProfile":null,`, "", 1))
	require.Contains(t, s.api.requests, "PUT /records/maple dryRun=true "+sent[0])

	input = page.input(t, "edit")
	input.Set("save", page.confirmation())
	input.Set("summary", "Changed after the look at the consequences.")
	require.Empty(t, b.post("/records/maple/edit", input).to())
	require.Contains(t, s.api.requests, "PUT /records/maple dryRun=true "+s.api.sent("PUT /records/maple")[1],
		"other input needs another look")

	input.Set("summary", "Typing.")
	s.api.respond("PUT /records/maple",
		api.EditReport{Applied: true, Fields: []string{"overview", "curation"}, Current: &detail})
	require.Equal(t, "/records/maple", b.post("/records/maple/edit", input).to())
	require.Contains(t, s.api.requests, "PUT /records/maple  "+sent[0])
	require.Contains(t, b.get("/records/maple").body, "Saved: Overview; Private notes.")
}

func TestEditOfAnOutdatedListingKeepsTheInputAndShowsTheDifference(t *testing.T) {
	s, b, input := editing(t)
	input.Set("summary", "What ann wrote.")
	input.Set("subcategory", "typing")
	detail := mapleDetail("v2", strings.NewReplacer("Typing.", "What bob wrote.", `"overview":""`,
		`"overview":"By ben."`).Replace(mapleListing))
	s.api.respondWith("PUT /records/maple", http.StatusPreconditionFailed, api.EditReport{Current: &detail})
	page := b.post("/records/maple/edit", input)
	require.Equal(t, http.StatusConflict, page.StatusCode, page.body)
	page.requireAll(t, "<bdi>bob</bdi> changed this listing", `<th scope="row">Overview</th>`, "What bob wrote.",
		`<th scope="row">Summary <span class="badge bad">both changed</span></th>`)
	input = page.input(t, "edit")
	require.Equal(t, "v2", input.Get("version"))
	require.Equal(t, "What ann wrote.", strings.TrimSpace(input.Get("summary")))
	require.Equal(t, "typing", input.Get("subcategory"))
	require.Equal(t, "By ben.", strings.TrimSpace(input.Get("overview")))
	require.Empty(t, page.confirmation(), "nothing can be saved before another look")
}

func TestProblemsOfAnEditAreAtTheirFields(t *testing.T) {
	s, b, input := editing(t)
	input.Set("sources.1.url", "nonsense")
	s.api.respond("PUT /records/maple",
		api.EditReport{Problems: apitest.Problems("sources[1].url: must be an absolute http or https URL")})
	page := b.post("/records/maple/edit", input)
	require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
	require.Contains(t, page.body, `<a href="#sources.1.url">Source 2, URL: must be an absolute http or https URL</a>`)
	require.Contains(t, page.body, `aria-describedby="sources.1.url-error"`)
	require.Equal(t, "nonsense", page.input(t, "edit").Get("sources.1.url"))

	detail := mapleDetail("v1", mapleListing)
	s.api.respond("PUT /records/maple", api.EditReport{Change: &api.ListingChange{}, Current: &detail})
	input.Del("sources.1.url")
	require.Contains(t, b.post("/records/maple/edit", input).body, "Nothing is changed")
	for _, base := range []string{"", "{", "null", "[]", `"x"`} {
		require.Equal(t, http.StatusBadRequest, b.post("/records/maple/edit", url.Values{"base": {base}}).StatusCode, base)
	}
}

func TestRecordPageShowsWhatEachReviewChangedAndFoldsLinkChecks(t *testing.T) {
	before, after := api.UnknownFacts(), api.UnknownFacts()
	before.Remote, after.Remote = new(true), new(false)
	event := func(kind api.CheckType, facts *api.Facts) api.RecordedEvent {
		return api.RecordedEvent{VerificationEvent: api.VerificationEvent{CheckType: kind, Facts: facts}}
	}
	s, b := reviewing(t, func(s *api.ReviewSheet) {
		s.Events = []api.RecordedEvent{event(api.LinkCheck, nil), event(api.FactualReview, &after),
			event(api.LinkCheck, nil), event(api.FactualReview, &before)}
		s.Events[1].Evidence = &api.Evidence{Quotes: []api.Quote{{Fact: "remote", SourceURL: site, Exact: "on site"}}}
	})
	s.api.respond("GET /records/maple", mapleDetail("v1", mapleListing))
	page := b.get("/records/maple").body
	require.Less(t, strings.Index(page, "<li>Remote: Yes → No</li>"),
		strings.Index(page, "<li>Remote: unknown → Yes</li>"))
	require.Contains(t, page, "<li>Remote: <q>on site</q>")
	require.Contains(t, page, "<details><summary>Link checks: 2,")
	require.Equal(t, 2, strings.Count(page, "<strong>Link check: "))
}
