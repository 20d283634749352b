package accountpages_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

const (
	listForm    = "/account/explorer/listOpportunities"
	historyForm = "/account/explorer/getVerificationHistory"
)

// explorer returns a person with two keys, Website and Phone.
func explorer(t *testing.T) (s *sitekit.Site, b *testkit.Person, website, phone api.IssuedKey) {
	t.Helper()
	s, b = person(t)
	website, phone = s.Issue(b.Account), s.Issue(b.Account)
	for id, name := range map[string]string{website.ID: "Website", phone.ID: "Phone"} {
		require.NoError(t, s.Keys.Rename(t.Context(), b.Account, id, name))
	}
	return s, b, website, phone
}

// call returns the call that a response asks the gateway to make.
func call(t *testing.T, p testkit.Page) api.ExplorerCall {
	t.Helper()
	require.Equal(t, http.StatusNoContent, p.Status, p.Text())
	var c api.ExplorerCall
	require.NoError(t, json.Unmarshal([]byte(p.Header.Get(api.ExplorerHeader)), &c))
	return c
}

func TestFormHasEveryParameter(t *testing.T) {
	_, b, _, _ := explorer(t)
	p := b.Get(listForm+"?country=CA&remote=true&limit=5").
		Shows(http.StatusOK, "Matches records that are eligible for residents of this country.", "Send request").
		Markup(`<input id="country" name="country" value="CA"`, `<option selected>true</option>`)
	require.Contains(t, p.Body,
		`name="limit" value="5" maxlength="200" autocomplete="off" spellcheck="false" inputmode="numeric"`)
	require.Contains(t, p.Body, `<option>sell</option>`)
	require.Contains(t, p.Body, `id="If-None-Match"`)
	require.NotContains(t, b.Get(historyForm).Body, `<title>Error`, "an empty form has no problems yet")
}

// A new parameter of the interface description needs no code.
func TestFormsAreMadeOfTheDescription(t *testing.T) {
	_, b, _, _ := explorer(t)
	b.Get("/account/explorer").Leads("/account/explorer/listOpportunities")
	description := storetest.Must(apidoc.Published())(t)
	list := b.Get(listForm).Body
	for _, o := range description.Operations {
		require.Contains(t, list, `href="/account/explorer/`+o.ID+`"`)
		p := b.Get("/account/explorer/" + o.ID).Shows(http.StatusOK).Markup(`href="/docs/reference/` + o.ID + `"`)
		for _, parameter := range o.Parameters {
			require.Contains(t, p.Body, ` name="`+parameter.Name+`"`, o.ID)
		}
	}
}

func TestFormBecomesACall(t *testing.T) {
	s, b, _, phone := explorer(t)
	got := call(t, b.Post(historyForm, "id", "maple-scribe", "page", "", "limit", "abc", "If-None-Match", `W/"x"`, "key",
		phone.ID))
	require.Equal(t, api.ExplorerCall{
		Principal: s.Principal(phone.Key), Target: "/api/v1/opportunities/maple-scribe/history?limit=abc",
		Header: http.Header{"If-None-Match": {`W/"x"`}},
	}, got)
	require.Equal(t, 100, got.Principal.Limits.PerDay)
	require.Equal(t, "/api/v1/opportunities/..%2Fx%3Fy=1",
		call(t, b.Post("/account/explorer/getOpportunity", "id", "../x?y=1", "key", phone.ID)).Target)
}

// The gateway rejects these calls, so that the person sees the API's response. They have the
// principal that a program with the key has.
func TestStateOfTheKeyIsThatOfTheRequest(t *testing.T) {
	s, b, website, phone := explorer(t)
	b.Get(listForm).Shows(http.StatusOK, "Website", "Phone")
	b.Post("/account/keys/" + website.ID + "/revoke").Leads("/account/keys")
	require.NotNil(t, call(t, b.Post(listForm, "key", website.ID)).Principal.RevokedAt)
	require.NotContains(t, b.Get(listForm).Body, website.ID)
	s.Suspend(b.Account, "test")
	require.True(t, call(t, b.Post(listForm, "key", phone.ID)).Principal.Suspended)
	require.Equal(t, s.Principal(phone.Key), call(t, b.Post(listForm, "key", phone.ID)).Principal)
	s.Resume(b.Account)
	s.Advance(365 * 24 * time.Hour)
	b.SignIn()
	require.Equal(t, s.Now(), call(t, b.Post(listForm, "key", phone.ID)).Principal.ExpiresAt)
	require.NotContains(t, b.Get(listForm).
		Shows(http.StatusOK, "You have no active key.").Body, `<form method="post" action="`+listForm)
}

func TestRejectedForms(t *testing.T) {
	s, b, website, _ := explorer(t)
	foreign := s.Issue("").ID
	key := website.ID
	for name, c := range map[string]struct {
		path   string
		fields []string
		status int
		shown  string
	}{
		"key of another account": {listForm, []string{"key", foreign}, 422, "Select one of your active keys."},
		"malformed key":          {listForm, []string{"key", "' OR 1=1"}, 422, "Select one of your active keys."},
		"no key":                 {listForm, nil, 422, "Select one of your active keys."},
		"unknown operation": {"/account/explorer/deleteEverything", []string{"key", key}, 404,
			"This operation does not exist."},
		"unknown parameter":  {listForm, []string{"key", key, "target", "/internal/v1/principals"}, 400, `"target"`},
		"repeated parameter": {listForm, []string{"key", key, "country", "CA", "country", "US"}, 400, `"country"`},
		"missing id":         {historyForm, []string{"key", key, "id", " "}, 422, "Enter id."},
		"control character": {listForm, []string{"key", key, "country", "C\x00A"}, 422,
			"Enter only printable characters for country."},
		"header injection": {listForm, []string{"key", key, "If-None-Match", "a\r\nX-Opportunity-Caller: {}"}, 422,
			"Enter only printable characters"},
		"too long": {listForm, []string{"key", key, "country", strings.Repeat("é", 201)}, 422,
			"Enter at most 200 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, b.Post(c.path, c.fields...).Shows(c.status, c.shown).Header.Get(api.ExplorerHeader))
		})
	}
}

func TestOnlyTheSignedInPersonMakesCalls(t *testing.T) {
	_, b, website, _ := explorer(t)
	form := url.Values{"key": {website.ID}}
	for _, from := range []http.Header{
		{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}},
		{"Origin": {"null"}},
	} {
		require.Empty(t, b.Send(http.MethodPost, listForm, form, from).
			Shows(http.StatusForbidden, "another site").Header.Get(api.ExplorerHeader))
	}
	b.Cookies["__Host-session"] = "of yesterday"
	p := b.Post(listForm, "key", website.ID)
	p.Leads("/account/sign-in?next=%2Faccount%2Fexplorer%2FlistOpportunities")
	require.Empty(t, p.Header.Get(api.ExplorerHeader))
	clear(b.Cookies)
	explored(t, b, listForm, url.Values{}, api.ExplorerResult{Status: 200}).
		Leads("/account/sign-in?next=%2Faccount%2Fexplorer%2FlistOpportunities")
}

func TestOutageMakesNoCall(t *testing.T) {
	s, b, website, _ := explorer(t)
	s.Redis.Stop()
	b.Post(listForm, "key", website.ID).Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
}

// explored requests the page as the gateway does after a call.
func explored(t *testing.T, b *testkit.Person, path string, form url.Values, r api.ExplorerResult) testkit.Page {
	t.Helper()
	r.Form = []byte(form.Encode())
	body := storetest.Must(json.Marshal(r))(t)
	return b.SendJSON(path, body, http.Header{"Origin": {testkit.PublicURL}, api.ExplorerHeader: {"result"}})
}

func TestResult(t *testing.T) {
	_, b, _, phone := explorer(t)
	form := url.Values{"country": {"CA"}, "key": {phone.ID}}
	explored(t, b, listForm, form, api.ExplorerResult{
		Status: 200, Charged: true, Body: []byte(`{"data":["<script>alert(1)</script>"]}`), Size: 38,
		Header: http.Header{"X-RateLimit-Limit": {"100"}, "X-RateLimit-Remaining": {"93"}, "Etag": {`W/"x"`}},
	}).Shows(http.StatusOK, "200 OK", "GET /api/v1/opportunities?country=CA",
		"One request of the day: 94 of 100 were left before the request, 93 are left now",
		"X-RateLimit-Remaining: 93", `Etag: W/"x"`, "--data-urlencode country=CA", `Country: "CA"`, "country: 'CA'",
		`country="CA"`,
		"OPPORTUNITY_URL=https://api.example").
		Markup("{\n  &#34;data&#34;: [", `<option value="`+phone.ID+`" selected>`, `name="country" value="CA"`).
		Lacks("<script>alert")
}

func TestResultOfRejectedCall(t *testing.T) {
	_, b, website, _ := explorer(t)
	form := url.Values{"limit": {"x"}, "key": {website.ID}}
	explored(t, b, listForm, form, api.ExplorerResult{
		Status: 400, Body: []byte(`{"error":{}}`), Size: 12, Header: http.Header{
			"X-RateLimit-Limit": {"100"}, "X-RateLimit-Remaining": {"94"},
		},
	}).Shows(http.StatusOK, "400 Bad Request", "No request of the day: 94 of 100", "The SDKs cannot send this request")
	p := explored(t, b, listForm, form, api.ExplorerResult{Status: 401, Body: []byte(`{}`), Size: 2}).
		Shows(http.StatusOK, "401 Unauthorized", "No request of the day")
	require.NotContains(t, p.Text(), "were left", "the API does not state the quota of an unknown key")
	explored(t, b, listForm, form, api.ExplorerResult{Status: 304}).Shows(http.StatusOK, "304 Not Modified")
}

func TestLongBodyIsCut(t *testing.T) {
	_, b, website, _ := explorer(t)
	start := []byte(strings.Repeat("x", api.MaxExplorerBody-1) + "\xc3") // ends within a character
	p := explored(t, b, listForm, url.Values{"key": {website.ID}}, api.ExplorerResult{
		Status: 200, Body: start, Size: 300_000,
	})
	p.Shows(http.StatusOK, "The body has 300,000 bytes. These are the first 262,144.")
}
