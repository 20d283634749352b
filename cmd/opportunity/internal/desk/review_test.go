package desk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
)

const (
	site  = "https://maple.example/"
	rates = "https://maple.example/rates"
)

func ptr[T any](v T) *T { return &v }

// sheet is the review sheet of a record with two known facts and two sources.
func sheet() api.ReviewSheet {
	f := api.UnknownFacts()
	f.Remote = ptr(true)
	f.Pay = &api.Pay{Minimum: 17.5, Maximum: 20, Currency: "CAD", Unit: api.PerHour, SourceURL: rates}
	return api.ReviewSheet{
		GeneratedAt: time.Date(2026, 11, 22, 9, 0, 0, 0,
			time.UTC), LastEventID: "event-1", Visibility: "published", Status: api.Stale,
		Record: api.Opportunity{
			ID: "maple", Platform: api.Platform{Company: api.Company{Name: "Maple Scribe", Website: site},
				Category: api.Online}, Sources: []api.Source{{URL: site}, {URL: rates}},
		},
		ReviewedFacts: &f, Events: []api.RecordedEvent{},
		Reasons: []api.DueReason{{Why: api.DueStale, At: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}},
	}
}

// reviewing is a desk with the sheet of maple, and birch next in the queue.
func reviewing(t *testing.T) (*server, browser) {
	t.Helper()
	s := newServer(t)
	s.api.respond("GET /reviews/records/maple", sheet())
	s.api.respond("GET /reviews/queue",
		api.ReviewQueue{Records: []api.QueueRecord{{DueRecord: api.DueRecord{ID: "birch"}}}})
	s.api.respond("GET /reviews/second-opinions", api.OpinionList{})
	return s, s.signedIn()
}

// input returns what a browser submits from a page: hidden and text fields, text areas, and what is
// checked or selected.
func (r response) input(t testing.TB, class string) url.Values {
	t.Helper()
	_, form, found := strings.Cut(r.body, `class="`+class+`"`)
	require.True(t, found, r.body)
	form = form[:strings.Index(form, "</form>")]
	values := url.Values{}
	attribute := func(tag, name string) string {
		if m := regexp.MustCompile(`\b` + name + `="([^"]*)"`).FindStringSubmatch(tag); m != nil {
			return html.UnescapeString(m[1])
		}
		return ""
	}
	for _, tag := range regexp.MustCompile(`<input [^>]*>`).FindAllString(form, -1) {
		kind := attribute(tag, "type")
		if (kind == "radio" || kind == "checkbox") && !strings.Contains(tag, " checked") {
			continue
		}
		values.Add(attribute(tag, "name"), attribute(tag, "value"))
	}
	for _, m := range regexp.MustCompile(`(?s)<textarea ([^>]*)>(.*?)</textarea>`).FindAllStringSubmatch(form, -1) {
		values.Add(attribute(m[1], "name"), html.UnescapeString(m[2]))
	}
	for _, m := range regexp.MustCompile(`(?s)<select ([^>]*)>(.*?)</select>`).FindAllStringSubmatch(form, -1) {
		chosen := ""
		for i, o := range regexp.MustCompile(`<option([^>]*)>([^<]*)`).FindAllStringSubmatch(m[2], -1) {
			if strings.HasSuffix(o[1], " selected") || i == 0 {
				value := o[2]
				if strings.Contains(o[1], "value=") {
					value = attribute(o[1], "value")
				}
				chosen = html.UnescapeString(value)
			}
		}
		values.Add(attribute(m[1], "name"), chosen)
	}
	return values
}

func unchanged(v url.Values) url.Values {
	for name, value := range map[string]string{"mark.0": "still", "mark.1": "still", "rest": "keep",
		"outcome": "verified"} {
		v.Set(name, value)
	}
	return v
}

func TestUnchangedReviewIsSubmittedAndTheNextOneOpens(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("POST /reviews/records/maple",
		api.ReviewReport{AppendReport: api.AppendReport{Applied: true, Appended: 1}, EventID: "event-2",
			Outcome: api.OutcomeVerified})
	resp := b.post("/reviews/maple", unchanged(b.get("/reviews/maple").input(t, "review")))
	require.Equal(t, http.StatusSeeOther, resp.StatusCode, resp.body)
	require.Equal(t, "/reviews/birch", resp.Header.Get("Location"))

	var sent struct {
		Review struct {
			CheckedAt   time.Time
			Outcome     string
			SourceURLs  []string
			Facts       api.GivenFacts
			LastEventID string
			Evidence    api.Evidence
		}
	}
	require.NoError(t, json.Unmarshal([]byte(s.api.sent("POST /reviews/records/maple")[0]), &sent))
	require.Equal(t, *sheet().ReviewedFacts, sent.Review.Facts.Facts)
	require.Empty(t, sent.Review.Facts.Missing)
	require.Equal(t, []string{site, rates}, sent.Review.SourceURLs)
	require.Equal(t, "event-1", sent.Review.LastEventID)
	require.Equal(t, sheet().GeneratedAt, sent.Review.CheckedAt)
	require.True(t, sent.Review.Evidence.Empty())

	s.api.respond("GET /reviews/records/birch", sheet())
	page := b.get("/reviews/birch")
	require.Contains(t, page.body, "Review of Maple Scribe recorded: verified.")
	require.Contains(t, page.body, `action="/reviews/maple/undo"`)
}

func TestReviewWithProblemsKeepsItsInput(t *testing.T) {
	s, b := reviewing(t)
	input := b.get("/reviews/maple").input(t, "review")
	input.Set("note", "half <done>")
	input.Set("fact.remote", "false")
	input.Set("mark.1", "gone")
	resp := b.post("/reviews/maple", input)
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, resp.body, `<a href="#outcome">Choose an outcome</a>`)
	again := resp.input(t, "review")
	require.Equal(t, []string{"half <done>", "false", "gone"},
		[]string{again.Get("note"), again.Get("fact.remote"), again.Get("mark.1")})
	require.Empty(t, s.api.sent("POST /reviews/records/maple"))

	rejected := api.ReviewReport{AppendReport: api.AppendReport{Rejected: []api.RejectedLine{{Problems: apitest.Problems("facts.pay.minimum: -1 must not be negative")}}}}
	s.api.respond("POST /reviews/records/maple", rejected)
	resp = b.post("/reviews/maple", unchanged(again))
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, resp.body, `<a href="#fact.pay">Pay, From: `)
}

func TestReviewAgainstNewerEventsShowsThemAndKeepsTheInput(t *testing.T) {
	s, b := reviewing(t)
	page := b.get("/reviews/maple")
	newer := sheet()
	newer.LastEventID = "event-2"
	newer.ReviewedFacts.Remote = ptr(false)
	event := api.RecordedEvent{VerificationEvent: api.VerificationEvent{CheckType: api.FactualReview,
		Outcome: api.OutcomeVerified, Note: "Office only now."}, Actor: "bob"}
	s.api.respondWith("POST /reviews/records/maple", http.StatusConflict,
		api.ReviewReport{AppendReport: api.AppendReport{Newer: []api.RecordedEvent{event}}})

	input := unchanged(page.input(t, "review"))
	input.Set("note", "mine")
	s.api.respond("GET /reviews/records/maple", newer)
	resp := b.post("/reviews/maple", input)
	require.Contains(t, []int{http.StatusConflict, http.StatusUnprocessableEntity}, resp.StatusCode)
	require.Contains(t, resp.body, "New value, recorded after you opened this record. Before: Yes")
	again := resp.input(t, "review")
	require.Equal(t, "mine", again.Get("note"))
	require.Empty(t, again.Get("fact.remote"), "the curator kept another value")
	require.Equal(t, "keep", again.Get("fact.pay"))
	require.Equal(t, "event-2", again.Get("seen"))
}

func TestDraftIsSavedAndRestored(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("PUT /reviews/records/maple/draft", api.Draft{})
	input := b.get("/reviews/maple").input(t, "review")
	input.Set("note", "to be continued")
	input.Set("mark.0", "still")
	resp := b.post("/reviews/maple/draft", input)
	require.Equal(t, "/reviews/maple", resp.Header.Get("Location"))

	r := b.request("POST", "/reviews/maple/draft", input)
	r.Header.Set("Sec-Fetch-Dest", "empty") // the script
	require.Equal(t, http.StatusNoContent, b.do(r).StatusCode)

	stored := sheet()
	stored.Draft = &api.Draft{Content: json.RawMessage(s.api.sent("PUT /reviews/records/maple/draft")[0]),
		SavedAt: time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)}
	s.api.respond("GET /reviews/records/maple", stored)
	page := b.get("/reviews/maple")
	require.Contains(t, page.body, "Your draft of")
	require.Equal(t, []string{"to be continued", "still"},
		[]string{page.input(t, "review").Get("note"), page.input(t, "review").Get("mark.0")})

	stored.LastEventID = "event-2" // something was recorded since
	stored.ReviewedFacts.Remote = ptr(false)
	s.api.respond("GET /reviews/records/maple", stored)
	page = b.get("/reviews/maple")
	require.Contains(t, page.body, "New value")
	require.Equal(t, "event-2", page.input(t, "review").Get("seen"))
	require.Equal(t, "to be continued", page.input(t, "review").Get("note"))
}

func TestRecordInWorkCanBeTakenOver(t *testing.T) {
	s, b := reviewing(t)
	s.api.respondWith("PUT /reviews/records/maple/lease", http.StatusConflict, api.Lease{Holder: "bob", TakenAt: s.now()})
	page := b.get("/reviews/maple")
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.Contains(t, page.body, "<strong>bob</strong> has been working on this record")
	s.api.respond("PUT /reviews/records/maple/lease", api.Lease{Holder: "ann"})
	require.Equal(t, "/reviews/maple", b.post("/reviews/maple/take-over", url.Values{}).Header.Get("Location"))
	sent := s.api.sent("PUT /reviews/records/maple/lease")
	require.JSONEq(t, `{"takeOver":true}`, sent[len(sent)-1])
	require.NotContains(t, b.get("/reviews/maple").body, "has been working")
}

func TestNextReviewPassesOverLeasesOfOthers(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("GET /reviews/queue",
		api.ReviewQueue{Records: []api.QueueRecord{{DueRecord: api.DueRecord{ID: "birch"}},
			{DueRecord: api.DueRecord{ID: "cedar"}}}})
	s.api.respondWith("PUT /reviews/records/birch/lease", http.StatusConflict, api.Lease{Holder: "bob"})
	require.Equal(t, "/reviews/cedar", b.get("/next").Header.Get("Location"))
	s.api.respond("GET /reviews/queue", api.ReviewQueue{})
	require.Equal(t, "/queue", b.get("/next").Header.Get("Location"))
	require.Contains(t, b.get("/queue").body, "nothing left for you today")
}

// A programme that has ended stays public until a publisher withdraws it. A paused one is left
// alone.
func TestClosedReviewHasAReason(t *testing.T) {
	for outcome, public := range map[string]bool{"closed.ended": true, "closed.paused": false} {
		s, b := reviewing(t)
		s.api.respond("POST /reviews/records/maple", api.ReviewReport{
			AppendReport: api.AppendReport{Applied: true, Appended: 1}, EventID: "event-2", Outcome: api.OutcomeClosed,
		})
		input := b.get("/reviews/maple").input(t, "review")
		input.Set("outcome", outcome)
		require.Equal(t, "/reviews/birch", b.post("/reviews/maple", input).Header.Get("Location"))
		sent := s.api.sent("POST /reviews/records/maple")[0]
		require.Contains(t, sent, `"outcome":"closed"`)
		require.Contains(t, sent, `"closed":"`+strings.TrimPrefix(outcome, "closed.")+`"`)
		page := b.get("/help").body
		require.Equal(t, public, strings.Contains(page, "It stays public until a publisher withdraws it."), outcome)
	}
}

func TestWithdrawalIsProposedAndDecided(t *testing.T) {
	s, b := reviewing(t)
	for path, to := range map[string]string{"propose-withdrawal": "/records/maple", "decline-withdrawal": "/withdrawals"} {
		s.api.respond("POST /reviews/records/maple/"+path, nil)
		require.Contains(t, b.post("/records/maple/"+path, url.Values{}).body, "Enter a reason")
		resp := b.post("/records/maple/"+path, url.Values{"reason": {"Duplicate of birch"}})
		require.Equal(t, to, resp.Header.Get("Location"), resp.body)
		require.JSONEq(t, `{"reason":"Duplicate of birch"}`, s.api.sent("POST /reviews/records/maple/" + path)[0])
	}
	s.api.respond("GET /reviews/withdrawals", api.WithdrawalList{Withdrawals: []api.Withdrawal{
		{ID: "maple", Company: "Maple Scribe", Actor: "bob", Reason: "Duplicate of birch", ProposedAt: s.now()},
	}})
	require.Contains(t, b.get("/withdrawals").body, `href="/records/maple/withdraw?reason=Duplicate%20of%20birch"`)
	require.Contains(t, b.get("/records/maple/withdraw?reason=Duplicate%20of%20birch").body, `value="Duplicate of birch"`)
}

// The link to a source leads through the desk, which records that the curator opened it.
func TestOpeningASourceIsRecorded(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("PUT /reviews/records/maple/opened", nil)
	page := b.get("/reviews/maple").body
	link := html.UnescapeString(regexp.MustCompile(`class="open" href="([^"]*)"`).FindStringSubmatch(page)[1])
	resp := b.get(link)
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Equal(t, site, resp.Header.Get("Location"))
	require.JSONEq(t, `{"sourceUrl":"`+site+`","lastEventId":"event-1"}`,
		s.api.sent("PUT /reviews/records/maple/opened")[0])
	require.Equal(t, http.StatusNotFound, b.get("/reviews/maple/open?page=https://evil.example").StatusCode)
	s.api.respondWith("PUT /reviews/records/maple/opened", http.StatusServiceUnavailable, nil)
	require.Equal(t, site, b.get(link).Header.Get("Location"), "the page opens during an outage")
}

func TestListingIsChangedWithTheReview(t *testing.T) {
	s, b := reviewing(t)
	input := unchanged(b.get("/reviews/maple").input(t, "review"))
	require.Equal(t, "Maple Scribe", input.Get("listing.company.name"))
	input.Set("listing.startingCost", "10 CAD")
	require.Contains(t, b.post("/reviews/maple/summary", input).body, "Starting cost: not recorded → 10 CAD")
	s.api.respond("POST /reviews/records/maple",
		api.ReviewReport{AppendReport: api.AppendReport{Rejected: []api.RejectedLine{
			{Problems: api.Problems{{Path: "startingCost", Message: "was changed"},
				{Path: "sourceUrls[1]", Message: "is wrong"}}},
		}}})
	resp := b.post("/reviews/maple", input)
	require.Contains(t, s.api.sent("POST /reviews/records/maple")[0],
		`"changes":[{"field":"startingCost","old":"","new":"10 CAD"}]`)
	require.Contains(t, resp.body, `<a href="#listing.startingCost">Starting cost: was changed</a>`)
	require.Contains(t, resp.body, `<a href="#sources">`+rates+`: is wrong</a>`)
	require.Equal(t, "10 CAD", resp.input(t, "review").Get("listing.startingCost"))
}

func TestQueueHasNoTargetOnWeekends(t *testing.T) {
	s, b := reviewing(t)
	sunday := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	s.api.respond("GET /reviews/queue", api.ReviewQueue{GeneratedAt: sunday, Due: 7, Today: api.Workday{Done: 2}})
	page := b.get("/queue").body
	require.Contains(t, page, "<strong>2</strong> reviews recorded today. 7 due now. There is no target on weekends.")
	s.api.respond("GET /reviews/queue",
		api.ReviewQueue{GeneratedAt: sunday.AddDate(0, 0, 1), Due: 7, Today: api.Workday{Done: 2, Target: 9}})
	require.Contains(t, b.get("/queue").body, "<strong>2</strong> reviews recorded today; the target is 9. 7 due now.</p>")
}

func TestSkipNeedsAReason(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("PUT /reviews/records/maple/skip", api.Skip{})
	require.Equal(t, http.StatusUnprocessableEntity, b.post("/reviews/maple/skip", url.Values{"days": {"3"}}).StatusCode)
	require.Empty(t, s.api.sent("PUT /reviews/records/maple/skip"))
	require.Equal(t, "/reviews/birch", b.post("/reviews/maple/skip",
		url.Values{"days": {"3"}, "reason": {"site is down"}}).Header.Get("Location"))
	require.JSONEq(t, `{"reason":"site is down","until":"2026-11-25T09:00:00Z"}`,
		s.api.sent("PUT /reviews/records/maple/skip")[0])
}

func TestUndoRecordsACorrectingEvent(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("POST /reviews/records/maple/undo", api.ReviewReport{AppendReport: api.AppendReport{Applied: true}})
	require.Equal(t, "/reviews/maple", b.post("/reviews/maple/undo",
		url.Values{"event": {"event-2"}}).Header.Get("Location"))
	require.JSONEq(t, `{"eventId":"event-2"}`, s.api.sent("POST /reviews/records/maple/undo")[0])
	require.Contains(t, b.get("/reviews/maple").body, "Your review is undone")
}

func TestRolesAreThoseOfTheGateway(t *testing.T) {
	s, b := reviewing(t)
	s.api.respondWith("GET /reviews/queue", http.StatusForbidden,
		api.Error{Error: api.ErrorDetail{Code: "forbidden",
			Message: "An operator token with the role support cannot do this."}})
	resp := b.get("/queue")
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.Contains(t, resp.body, "with the role support cannot do this")
}

func TestOutageOfTheAPIKeepsTheSession(t *testing.T) {
	s, b := reviewing(t)
	s.api.respondWith("GET /reviews/queue", http.StatusServiceUnavailable,
		api.Error{Error: api.ErrorDetail{Code: "service_unavailable", Message: "secret driver text"}})
	resp := b.get("/queue")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.NotContains(t, resp.body, "driver text")
	require.Equal(t, http.StatusOK, b.get("/help").StatusCode)
}

// replaced returns a value with every text replaced.
func replaced(value any, text string) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = replaced(v[name], text)
		}
	case []any:
		for i := range v {
			v[i] = replaced(v[i], text)
		}
	case string:
		return text
	}
	return value
}

// Text of a listing, a source or a note cannot put markup or a script into the desk.
func TestStoredMarkupIsShownAsText(t *testing.T) {
	const attack = `"><img src=x onerror=alert(1)><script>alert(1)</script>`
	s, b := reviewing(t)
	hostile := sheet()
	r := &hostile.Record
	r.Company.Name, r.Company.Website, r.Summary, r.Category = attack, "javascript:alert(1)", attack, attack
	r.Sources = []api.Source{{URL: "javascript:alert(1)//" + attack}, {URL: "https://a.example/" + attack}}
	hostile.Visibility, hostile.Status, hostile.LastEventID = attack, attack, attack
	f := hostile.ReviewedFacts
	f.CountryEligibility = []api.CountryEligibility{{Country: attack, Status: attack, IncludedRegions: []string{attack},
		ExcludedRegions: []string{attack}, SourceURLs: []string{attack}, Note: attack}}
	f.Pay = &api.Pay{Currency: attack, Unit: attack, SourceURL: attack}
	f.Languages, f.Requirements, f.ApplicationStatus, f.ApplicationURL = []string{attack}, []string{attack}, attack,
		ptr(attack)
	f.RiskIndicators = []api.RiskIndicator{{Code: attack, Note: attack, SourceURL: attack}}
	hostile.PreviousFacts = f
	hostile.Events = []api.RecordedEvent{{VerificationEvent: api.VerificationEvent{CheckType: attack, Outcome: attack,
		Note: attack, Facts: f, SourceURLs: []string{attack}}, Actor: attack}}
	hostile.Edits = []api.ListingEdit{{Actor: attack, Fields: []string{attack}},
		{Changes: []api.FieldChange{{Field: "workModel", Old: json.RawMessage(fmt.Sprintf("%q", attack))}, {Field: attack}}}}
	hostile.Reasons = []api.DueReason{{Why: attack, Note: attack, Actor: attack, Fields: []string{attack}},
		{Why: api.DueEdit, Actor: attack, Fields: []string{attack}}}
	hostile.Evidence.Quotes = []api.Quote{{Fact: "pay", SourceURL: r.Sources[1].URL, Exact: attack, Prefix: attack}}
	hostile.Readings = []api.QuoteReading{{Quote: hostile.Evidence.Quotes[0], Finding: attack, Note: attack}}
	hostile.Suggestions = []api.Quote{{Fact: "remote", SourceURL: "javascript:alert(1)", Exact: attack}}
	hostile.Events[0].Evidence = &api.Evidence{Gone: []string{attack}}
	hostile.Curation = api.Curation{Contact: attack, Notes: attack}
	hostile.Opinion = &api.SecondOpinion{Actor: attack, Differs: []string{attack}}
	s.api.respond("GET /reviews/records/maple", hostile)
	s.api.respond("PUT /reviews/records/maple/lease", api.Lease{Holder: attack})
	s.api.respond("GET /reviews/queue", api.ReviewQueue{Records: []api.QueueRecord{{
		DueRecord: api.DueRecord{ID: "x", Company: attack, Category: attack, Status: attack,
			Reasons: hostile.Reasons}, Host: attack,
		Lease: &api.Lease{Holder: attack}, Skip: &api.Skip{Actor: attack, Reason: attack},
	}}})
	s.api.respond("GET /reviews/second-opinions",
		api.OpinionList{Requests: []api.OpinionRequest{{ID: attack, EventID: attack}}})
	var listing any // with the attack in every text field
	require.NoError(t, json.Unmarshal(bytes.Split(listingfile.Example, []byte("\n"))[1], &listing))
	text, err := json.Marshal(replaced(listing, attack))
	require.NoError(t, err)
	r.ApplicationURL, r.Subcategory, r.Overview, r.StartingCost, r.WorkModel, r.Facts = "javascript:alert(1)", ptr(attack),
		attack, attack, attack, *f
	s.api.respond("GET /records/maple",
		api.ListingDetail{Listing: text, Record: *r,
			Changes: []api.ListingAct{{Actor: attack, Action: attack, Fields: []string{attack}}}})
	s.api.respond("GET /listings",
		api.ListingList{Listings: []api.ListedListing{{ID: attack, Company: attack, Category: attack, Visibility: attack,
			Status: attack, Host: attack}}})
	s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{{
		ID: attack, Company: attack, Category: attack, Host: attack, Missing: []string{attack},
		Duplicates: []api.Duplicate{{ID: attack, Visibility: attack, By: attack}},
	}}})
	s.api.respond("GET /changes",
		api.ListingActList{Acts: []api.IdentifiedAct{{Listing: attack,
			ListingAct: api.ListingAct{Actor: attack, Action: attack, Fields: []string{attack}, Reason: attack}}}})
	s.api.respond("GET /events",
		api.EventActList{Events: []api.PlacedEvent{{RecordedEvent: api.RecordedEvent{Actor: attack,
			VerificationEvent: api.VerificationEvent{Slug: attack, Outcome: attack, Note: attack}}}}})
	s.api.respond("GET /audit",
		api.AuditList{Entries: []api.AuditEntry{{Actor: attack, Action: attack, Subject: attack,
			Detail: json.RawMessage(fmt.Sprintf("%q", attack))}}})
	s.api.respond("POST /listings/publish",
		api.ImportReport{Rejected: []api.RejectedLine{{ID: attack, Problems: apitest.Problems(attack)}}})
	for _, path := range []string{"/records/maple", "/records/maple/edit", "/records/maple/publish", "/audit",
		"/records", "/candidates", "/reviews/maple", "/queue", "/queue?text=" +
			url.QueryEscape(attack)} {
		page := b.get(path)
		require.Equal(t, http.StatusOK, page.StatusCode)
		require.NotContains(t, page.body, "<img src=x", path)
		require.NotContains(t, page.body, "<script>", path)
		require.NotContains(t, page.body, `href="javascript:`, path)
		require.Contains(t, page.body, "&lt;script&gt;", "the attack is not on the page")
	}
	difference := []api.FieldChange{{Field: attack, Old: json.RawMessage(fmt.Sprintf("%q", attack)),
		New: json.RawMessage(`"` + attack + `"`)}}
	s.api.respond("POST /listings/import",
		api.ImportReport{SHA256: attack, Changes: []api.ListingChange{{ID: attack, Change: attack, Fields: difference}},
			KeptWithdrawn: []string{attack}})
	input := b.get("/records/maple/edit").input(t, "edit")
	newer := api.ListingDetail{Version: attack, Listing: text, Record: *r, Changes: []api.ListingAct{{Actor: attack}}}
	s.api.respond("PUT /records/maple",
		api.EditReport{Fields: []string{attack}, Change: &api.ListingChange{Fields: difference},
			Current: &api.ListingDetail{Version: input.Get("version"), Listing: text, Record: *r}})
	pages := []response{b.uploaded("<script>.jsonl", "{}"), b.post("/records/maple/edit", input)}
	input.Set("base", strings.Replace(input.Get("base"), "onerror", "onload", 1))
	s.api.respondWith("PUT /records/maple", http.StatusPreconditionFailed, api.EditReport{Current: &newer})
	for _, page := range append(pages, b.post("/records/maple/edit", input)) {
		require.NotContains(t, page.body, "<img src=x")
		require.NotContains(t, page.body, "<script>")
		require.Contains(t, page.body, "&lt;script&gt;", "the attack is not on the page")
	}
}

func TestSourceLinksGoToTheQuoteAndRevealNothing(t *testing.T) {
	s, b := reviewing(t)
	quoted := sheet()
	quoted.Evidence.Quotes = []api.Quote{
		{Fact: "pay", SourceURL: rates + "#top", Exact: "17.50 – 20,  CAD & tips"}, {Fact: "pay", SourceURL: rates,
			Exact: "from 17-18"},
	}
	quoted.Record.Sources = append(quoted.Record.Sources, api.Source{URL: rates + "#top"})
	s.api.respond("GET /reviews/records/maple", quoted)
	page := b.get("/reviews/maple").body
	s.api.respond("PUT /reviews/records/maple/opened", nil)
	links := regexp.MustCompile(`href="([^"]*)"[^>]* data-quote`).FindAllStringSubmatch(page, -1)
	require.Equal(t, rates+"#top:~:text=17.50%20%E2%80%93%2020%2C%20CAD%20%26%20tips",
		b.get(links[0][1]).Header.Get("Location"))
	require.Equal(t, rates+"#:~:text=from%2017%2D18", b.get(links[1][1]).Header.Get("Location"))
	for _, link := range regexp.MustCompile(`<a [^>]*href="https?://[^>]*>`).FindAllString(page, -1) {
		require.Contains(t, link, `rel="noopener noreferrer"`)
	}
}

func TestSheetShowsAllThatTheReviewCovers(t *testing.T) {
	s, b := reviewing(t)
	shown := sheet()
	shown.Record.ApplicationURL, shown.Record.WorkModel = "https://maple.example/apply", "Contractor"
	shown.Edits = []api.ListingEdit{
		{Actor: "bob", Fields: []string{"applicationUrl"},
			Changes: []api.FieldChange{{Field: "applicationUrl", Old: json.RawMessage(`"https://old.example/"`),
				New: json.RawMessage(`"https://mid.example/"`)}}},
		{Actor: "bob", Fields: []string{"applicationUrl"},
			Changes: []api.FieldChange{{Field: "applicationUrl", Old: json.RawMessage(`"https://mid.example/"`),
				New: json.RawMessage(`"https://maple.example/apply"`)}}},
	}
	kept, lost := api.Quote{Fact: "pay", SourceURL: rates, Exact: "from 17.50"}, api.Quote{Fact: "remote",
		SourceURL: site, Exact: "from home"}
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	shown.Evidence = api.Evidence{Quotes: []api.Quote{kept, lost}, Gone: []string{"https://gone.example/"},
		Unopened: []string{site}}
	shown.Readings = []api.QuoteReading{{Quote: kept, Finding: api.QuotePresent, ReadAt: at},
		{Quote: lost, Finding: api.QuoteMissing, ReadAt: at}}
	shown.Suggestions = []api.Quote{{Fact: "degreeRequired", SourceURL: site, Exact: "no degree needed"}}
	shown.Events = []api.RecordedEvent{{Actor: "bob", Evidence: &shown.Evidence,
		VerificationEvent: api.VerificationEvent{CheckType: api.FactualReview, CheckedAt: at, Outcome: api.OutcomeVerified,
			SourceURLs: []string{rates}}}}
	s.api.respond("GET /reviews/records/maple", shown)
	page := b.get("/reviews/maple")
	for _, text := range []string{
		`data-open="https://maple.example/apply" data-page="a"`,
		"Changed since the latest review. Before: https://old.example/",
		`name="listing.workModel" value="Contractor"`, `name="listing.startingCost" value="" placeholder="not recorded"`,
		"8 unknown, and they stay unknown",
		"still says so, <time", "missing: a machine did not find the words, <time",
		"<bdi>bob</bdi> could not open it on <time",
		"https://gone.example/: gone, says <bdi>bob</bdi>, <time",
		`Use <kbd>q</kbd><span class="visually-hidden"> this quote</span>`, "Every quote found again",
		"No outcome yet: 1 fact kept, 9 unknown, 1 quote. 1 fact needs a decision.",
	} {
		require.Contains(t, page.body, text)
	}
	require.Less(t, strings.Index(page.body, `name="source" value="`+rates+`"`),
		strings.Index(page.body, `name="source" value="`+site+`"`),
		"the source of the latest review is first")
	require.Contains(t, page.body, `aria-describedby="recorded.fact.remote"`)
	require.NotContains(t, page.body, `aria-describedby="recorded.fact.degreeRequired"`, "there is nothing to keep")

	input := page.input(t, "review")
	input.Set("outcome", "closed")
	require.Equal(t, "Closed, and the application status becomes closed: 2 facts kept, 1 changed, 8 unknown, 1 quote.\nApplication status: unknown → Closed", b.post("/reviews/maple/summary", input).body)
}

func TestPastedQuoteIsComparedWithTheStoredText(t *testing.T) {
	s, b := reviewing(t)
	shown := sheet()
	shown.Record.ApplicationURL = "https://maple.example/apply"
	s.api.respond("GET /reviews/records/maple", shown)
	s.api.respond("POST /reviews/records/maple",
		api.ReviewReport{AppendReport: api.AppendReport{Applied: true}, EventID: "event-2", Outcome: api.OutcomeVerified})
	page := b.get("/reviews/maple")
	require.Contains(t, page.body, `<option value="https://maple.example/apply">maple.example/apply</option>`,
		"a page of the listing can have the words")
	input := unchanged(page.input(t, "review"))
	input["quote.remote"], input["quotefrom.remote"] = []string{"Bananas\r\nare blue", "From home"}, []string{site,
		"https://maple.example/apply"}
	quotes := []api.Quote{{Fact: "remote", SourceURL: site, Exact: "Bananas are blue"},
		{Fact: "remote", SourceURL: shown.Record.ApplicationURL, Exact: "From home"}}
	s.api.respond("POST /reviews/quotes",
		api.QuoteFindings{Readings: []api.QuoteReading{{Quote: quotes[0], Finding: api.QuoteMissing, ReadAt: s.now()},
			{Quote: quotes[1], Finding: api.QuoteUnknown}}})

	resp := b.post("/reviews/maple", input)
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, html.UnescapeString(resp.body),
		`does not have "Bananas are blue"; correct the quote, or submit again to record it`)
	require.Empty(t, s.api.sent("POST /reviews/records/maple"))
	var asked api.QuoteSearch
	require.NoError(t, json.Unmarshal([]byte(s.api.sent("POST /reviews/quotes")[0]), &asked))
	require.Equal(t, quotes, asked.Quotes)
	again := resp.input(t, "review")
	require.Equal(t, []string{"Bananas are blue", "From home", "", ""}, again["quote.remote"])
	require.Equal(t, []string{site, "https://maple.example/apply", "", ""}, again["quotefrom.remote"])
	require.Contains(t, again["source"], "https://maple.example/apply")

	require.Equal(t, "/reviews/birch", b.post("/reviews/maple", again).Header.Get("Location"), "submitted again")
	var sent struct {
		Review struct{ Evidence api.Evidence }
	}
	require.NoError(t, json.Unmarshal([]byte(s.api.sent("POST /reviews/records/maple")[0]), &sent))
	require.Equal(t, quotes, sent.Review.Evidence.Quotes)
	require.Contains(t, b.get("/help").body,
		"A quote was not compared with its page, because no text of the page is stored: Remote.")
}

func TestSuggestionFromAnotherPageNamesThePage(t *testing.T) {
	s, b := reviewing(t)
	shown := sheet()
	shown.Suggestions = []api.Quote{{Fact: "degreeRequired", SourceURL: "https://maple.example/apply",
		Exact: "no degree needed"}}
	s.api.respond("GET /reviews/records/maple", shown)
	page := b.get("/reviews/maple").body
	require.Contains(t, page, `Open maple.example/apply<span class="visually-hidden"> at the quote</span>`)
	require.Contains(t, page, " this quote and its page as a source")
}

func TestTextsOfASecondOpinionAreCompared(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("POST /reviews/records/maple",
		api.ReviewReport{Texts: []api.ComparedTexts{{Fact: "requirements", First: []string{"18 years or older"},
			Second: []string{"At least 18 years old"}}}})
	input := b.get("/reviews/maple?opinion=event-0").input(t, "review")
	for name, value := range map[string]string{"mark.0": "still", "mark.1": "still", "rest": "keep",
		"outcome": "verified", "fact.requirements": "change", "requirements": "At least 18 years old"} {
		input.Set(name, value)
	}
	resp := b.post("/reviews/maple", input)
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, resp.body, `<a href="#texts.requirements">Requirements: choose whether your words mean the same`)
	require.Contains(t, resp.body, "First review: 18 years or older")
	again := resp.input(t, "review")
	again.Set("texts.requirements", "same")
	s.api.respond("POST /reviews/records/maple",
		api.ReviewReport{AppendReport: api.AppendReport{Applied: true}, Outcome: api.OutcomeVerified})
	require.Equal(t, "/reviews/birch", b.post("/reviews/maple", again).Header.Get("Location"))
	var sent api.ReviewSubmission
	require.NoError(t, json.Unmarshal([]byte(s.api.sent("POST /reviews/records/maple")[1]), &sent))
	require.Equal(t, map[string]bool{"requirements": true}, sent.SameTexts)
	require.Equal(t, "event-0", sent.SecondOpinionOf)
}

func TestCandidatesAreReviewedAndPublishedOneAfterTheOther(t *testing.T) {
	s, b := reviewing(t)
	private := sheet()
	private.Visibility = "private"
	s.api.respond("GET /reviews/records/maple", private)
	s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{
		{ID: "birch", Sources: 1}, {ID: "cedar", Sources: 3, Reviewed: true}, {ID: "maple", Sources: 4}, {ID: "oak",
			Sources: 2, Missing: []string{"overview"}}, {ID: "pine", Sources: 2},
		{ID: "willow", Sources: 5, Lease: &api.Lease{Holder: "bob"}},
	}})
	require.Equal(t, "/reviews/maple", b.get("/candidates/next").Header.Get("Location"))
	s.api.respond("POST /reviews/records/maple",
		api.ReviewReport{AppendReport: api.AppendReport{Applied: true}, EventID: "event-2", Outcome: api.OutcomeVerified})
	page := b.get("/reviews/maple")
	require.Contains(t, page.body, "Submit and publish")
	input := unchanged(page.input(t, "review"))
	require.Equal(t, "/reviews/pine", b.post("/reviews/maple", input).Header.Get("Location"))
	input.Set("then", "publish")
	require.Equal(t, "/records/maple/publish?lane=on", b.post("/reviews/maple", input).Header.Get("Location"))
	s.api.respond("POST /listings/publish", api.ImportReport{Applied: true, Published: 1})
	require.Contains(t, b.get("/records/maple/publish?lane=on").body, `name="lane" value="on"`)
	require.Equal(t, "/reviews/pine", b.post("/records/maple/publish", url.Values{"lane": {"on"}}).Header.Get("Location"))
	require.Equal(t, "/records/maple", b.post("/records/maple/publish", url.Values{}).Header.Get("Location"))

	s.api.respond("GET /reviews/candidates", api.CandidateList{})
	require.Equal(t, "/candidates", b.get("/candidates/next").Header.Get("Location"))
	s.api.mu.Lock()
	s.api.tokens[annsToken] = api.Operator{Name: "ann", Role: api.RoleCurator}
	s.api.mu.Unlock()
	require.NotContains(t, s.signedIn().get("/reviews/maple").body, "Submit and publish")
}

func TestSeveralCandidatesArePublishedAfterAQuestion(t *testing.T) {
	s, b := reviewing(t)
	require.Equal(t, "/candidates", b.get("/candidates/publish").Header.Get("Location"))
	s.api.respond("POST /listings/publish", api.ImportReport{Applied: true, Published: 2, NeverReviewed: 1})
	s.api.respond("GET /reviews/candidates",
		api.CandidateList{Candidates: []api.Candidate{{ID: "birch", Reviewed: true}, {ID: "cedar"},
			{ID: "oak", Reviewed: true}}})
	require.NotContains(t, b.get("/candidates").body, `aria-label="Choose " checked`)
	all := b.get("/candidates?reviewed=on").body
	require.NotContains(t, all, "cedar")
	require.Contains(t, all, `<a href="/candidates?all=on&amp;reviewed=on">Choose all 2</a>`)
	require.Equal(t, 2, strings.Count(b.get("/candidates?all=on&reviewed=on").body, `aria-label="Choose " checked`))
	page := b.get("/candidates/publish?id=birch&id=oak")
	require.Contains(t, page.body, "2 listings would become public, 1 of them never reviewed.")
	require.Contains(t, page.body, `<input type="hidden" name="id" value="oak">`)
	require.Equal(t, "/candidates", b.post("/candidates/publish",
		url.Values{"id": {"birch", "oak"}}).Header.Get("Location"))
	require.JSONEq(t, `{"ids":["birch","oak"]}`, s.api.sent("POST /listings/publish")[1])
}

func TestFirstPageIsOneThatTheRoleMaySee(t *testing.T) {
	for role, first := range map[api.Role]string{api.RoleSupport: "/requests", api.RoleCurator: "/queue"} {
		s := newServer(t)
		s.api.tokens[annsToken] = api.Operator{Name: "ann", Role: role}
		b := s.browser()
		require.Equal(t, "/", b.post("/sign-in", url.Values{"token": {annsToken}}).Header.Get("Location"))
		require.Equal(t, first, b.get("/").Header.Get("Location"))
	}
}

func TestQueueCountsReviewsOnceAndMarksMissingQuotes(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("GET /reviews/queue", api.ReviewQueue{
		Today: api.Workday{Done: 3, Target: 9,
			DoneBy: map[string]int{"ann": 2, "bob": 3}}, Records: []api.QueueRecord{{Quotes: "missing"}},
	})
	page := b.get("/queue").body
	require.Contains(t, page, "<strong>5</strong> reviews recorded today, 2 by you; the target is 9.")
	require.Contains(t, page, `<span class="badge bad">quote missing</span>`)
}

func TestQueueSaysThatLinksAreNotChecked(t *testing.T) {
	_, b := reviewing(t)
	require.Contains(t, b.get("/queue").body, "Link checks are off here.")
}
