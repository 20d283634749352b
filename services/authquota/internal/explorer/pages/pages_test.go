package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

const (
	website = "key_0199a7a0000070008000000000000001"
	phone   = "key_0199a7a0000070008000000000000002"
	foreign = "key_0199a7a0000070008000000000000003"
	list    = "/account/explorer/listOpportunities"
	history = "/account/explorer/getVerificationHistory"
)

// store is a fake of the keys of one account and of its epoch. It records the order of calls.
type store struct {
	own       []keys.Key
	suspended bool
	outage    error // of the epochs
	calls     []string
}

func (s *store) OwnKeys(context.Context, string) ([]keys.Key, error) { return s.own, nil }

func (s *store) ResolveOwn(_ context.Context, accountID, id string) (keys.Key, bool, error) {
	s.calls = append(s.calls, "key")
	for _, k := range s.own {
		if k.ID == id && k.Account == accountID {
			return k, s.suspended, nil
		}
	}
	return keys.Key{}, false, keys.NotFound()
}

func (s *store) Read(context.Context, string) (int64, error) {
	s.calls = append(s.calls, "epoch")
	return 7, s.outage
}

func start(t *testing.T, source ...byte) (*sitetest.Site, *store) {
	t.Helper()
	if source == nil {
		source = api.OpenAPIYAML
	}
	description, err := apidoc.Parse(source)
	require.NoError(t, err)
	tiers, err := account.ParseTiers("")
	require.NoError(t, err)
	fake := new(store)
	s := sitetest.New(t, func(s *sitetest.Site) []site.Feature {
		p := &pages.Pages{PublicURL: sitetest.PublicURL, API: description, ExplorerKeys: fake, Epochs: fake, Tiers: tiers}
		return []site.Feature{p.Feature()}
	})
	for _, id := range []string{website, phone} {
		fake.own = append(fake.own, keys.Key{
			ID: id, Account: s.Person.Account, Name: map[string]string{website: "Website", phone: "Phone"}[id], Prefix: "oda_live_", LastFour: "9xQz",
			ExpiresAt: s.Now.Add(time.Hour), Standing: account.Standing{Granted: api.BaseTier},
		})
	}
	return s, fake
}

// call returns the call that a response asks the gateway to make.
func call(t *testing.T, p sitetest.Page) api.ExplorerCall {
	t.Helper()
	require.Equal(t, http.StatusNoContent, p.Status, p.Text())
	var c api.ExplorerCall
	require.NoError(t, json.Unmarshal([]byte(p.Header.Get(api.ExplorerHeader)), &c))
	return c
}

func TestOperations(t *testing.T) {
	s, _ := start(t)
	p := s.Get("/account/explorer").Shows(http.StatusOK, "Explorer")
	for _, id := range []string{"listOpportunities", "listJobsAlias", "getOpportunity", "getVerificationHistory"} {
		require.Contains(t, p.Body, `href="/account/explorer/`+id+`"`)
		require.Contains(t, s.Get("/account/explorer/"+id).Shows(http.StatusOK, "Send request").Body, `href="/docs/reference#`+id+`"`)
	}
}

func TestFormHasEveryParameter(t *testing.T) {
	s, _ := start(t)
	p := s.Get(list+"?country=CA&remote=true&limit=5").Shows(http.StatusOK, "Matches records that are eligible for residents of this country.")
	require.Contains(t, p.Body, `<input id="country" name="country" value="CA"`)
	require.Contains(t, p.Body, `<option selected>true</option>`)
	require.Contains(t, p.Body, `name="limit" value="5" maxlength="200" autocomplete="off" spellcheck="false" inputmode="numeric"`)
	require.Contains(t, p.Body, `<option>sell</option>`)
	require.Contains(t, p.Body, `id="If-None-Match"`)
	require.NotContains(t, s.Get(history).Body, `<title>Error`, "an empty form has no problems yet")
}

func TestNewParameterNeedsNoCode(t *testing.T) {
	source := strings.Replace(string(api.OpenAPIYAML), "name: country\n", "name: continent\n", 1)
	s, _ := start(t, []byte(source)...)
	require.Contains(t, s.Get(list).Shows(http.StatusOK).Body, `<input id="continent" name="continent"`)
	require.Equal(t, "/api/v1/opportunities?continent=EU", call(t, s.Post(list, "continent", "EU", "key", website)).Target)
}

func TestFormBecomesACall(t *testing.T) {
	s, store := start(t)
	got := call(t, s.Post(history, "id", "maple-scribe", "page", "", "limit", "abc", "If-None-Match", `W/"x"`, "key", phone))
	require.Equal(t, api.ExplorerCall{
		Principal: api.Principal{
			Key: phone, Account: s.Person.Account, Tier: api.Free, Limits: got.Principal.Limits, Epoch: 7, ExpiresAt: s.Now.Add(time.Hour),
		},
		Target: "/api/v1/opportunities/maple-scribe/history?limit=abc", Header: http.Header{"If-None-Match": {`W/"x"`}},
	}, got)
	require.Equal(t, 100, got.Principal.Limits.PerDay)
	require.Equal(t, []string{"epoch", "key"}, store.calls, "a change of the account after the epoch makes the principal outdated")
	require.Equal(t, "/api/v1/opportunities/..%2Fx%3Fy=1", call(t, s.Post("/account/explorer/getOpportunity", "id", "../x?y=1", "key", phone)).Target)
}

// The gateway rejects these calls, so that the person sees the API's response.
func TestStateOfTheKeyIsThatOfTheRequest(t *testing.T) {
	s, store := start(t)
	s.Get(list).Shows(http.StatusOK, "Website")
	store.own[0].RevokedAt, store.own[1].ExpiresAt = &s.Now, s.Now
	p := s.Get(list).Shows(http.StatusOK, "You have no active key.")
	require.NotContains(t, p.Body, "<form method=\"post\" action=\""+list)
	require.Equal(t, &s.Now, call(t, s.Post(list, "key", website)).Principal.RevokedAt)
	require.Equal(t, s.Now, call(t, s.Post(list, "key", phone)).Principal.ExpiresAt)
	store.suspended = true
	require.True(t, call(t, s.Post(list, "key", website)).Principal.Suspended)
}

func TestRejectedForms(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		fields []string
		status int
		shown  string
	}{
		"key of another account": {list, []string{"key", foreign}, 422, "Select one of your active keys."},
		"malformed key":          {list, []string{"key", "' OR 1=1"}, 422, "Select one of your active keys."},
		"no key":                 {list, nil, 422, "Select one of your active keys."},
		"unknown operation":      {"/account/explorer/deleteEverything", []string{"key", website}, 404, "This operation does not exist."},
		"unknown parameter":      {list, []string{"key", website, "target", "/internal/v1/principals"}, 400, `"target"`},
		"repeated parameter":     {list, []string{"key", website, "country", "CA", "country", "US"}, 400, `"country"`},
		"missing id":             {history, []string{"key", website, "id", " "}, 422, "Enter id."},
		"control character":      {list, []string{"key", website, "country", "C\x00A"}, 422, "Enter only printable characters for country."},
		"header injection":       {list, []string{"key", website, "If-None-Match", "a\r\nX-Opportunity-Caller: {}"}, 422, "Enter only printable characters"},
		"too long":               {list, []string{"key", website, "country", strings.Repeat("é", 201)}, 422, "Enter at most 200 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			s, store := start(t)
			store.own = append(store.own, keys.Key{ID: foreign, Account: "acc_of_another", ExpiresAt: s.Now.Add(time.Hour)})
			p := s.Post(c.path, c.fields...).Shows(c.status, c.shown)
			require.Empty(t, p.Header.Get(api.ExplorerHeader))
		})
	}
}

func TestOnlyTheSignedInPersonMakesCalls(t *testing.T) {
	s, store := start(t)
	form := url.Values{"key": {website}}
	s.Send(http.MethodPost, list, form, http.Header{"Origin": {"https://evil.example"}}).Shows(http.StatusForbidden, "another site")
	s.Send(http.MethodPost, list, form, http.Header{"Sec-Fetch-Site": {"cross-site"}}).Shows(http.StatusForbidden, "another site")
	s.Cookies["__Host-session"] = "of yesterday"
	p := s.Post(list, "key", website)
	p.Leads("/account/sign-in?next=%2Faccount%2Fexplorer%2FlistOpportunities")
	require.Empty(t, p.Header.Get(api.ExplorerHeader))
	require.Empty(t, store.calls)
}

func TestOutageMakesNoCall(t *testing.T) {
	s, store := start(t)
	store.outage = problem.Unavailable(errors.New("redis.internal refused"))
	s.Post(list, "key", website).Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
}

// explored requests the page as the gateway does after a call.
func explored(t *testing.T, s *sitetest.Site, path string, form url.Values, r api.ExplorerResult) sitetest.Page {
	t.Helper()
	r.Form = []byte(form.Encode())
	body, err := json.Marshal(r)
	require.NoError(t, err)
	return s.SendJSON(path, body, http.Header{"Origin": {sitetest.PublicURL}, api.ExplorerHeader: {"result"}})
}

func TestResult(t *testing.T) {
	s, _ := start(t)
	form := url.Values{"country": {"CA"}, "key": {phone}}
	p := explored(t, s, list, form, api.ExplorerResult{
		Status: 200, Charged: true, Body: []byte(`{"data":["<script>alert(1)</script>"]}`), Size: 38,
		Header: http.Header{"X-RateLimit-Limit": {"100"}, "X-RateLimit-Remaining": {"93"}, "Etag": {`W/"x"`}},
	}).Shows(http.StatusOK, "200 OK", "GET /api/v1/opportunities?country=CA", "One request of the day: 94 of 100 were left before the request, 93 are left now",
		"X-RateLimit-Remaining: 93", `Etag: W/"x"`, "--data-urlencode country=CA", `Country: "CA"`, "country: 'CA'", `country="CA"`,
		"OPPORTUNITY_URL=https://api.example")
	require.NotContains(t, p.Body, "<script>alert")
	require.Contains(t, p.Body, "{\n  &#34;data&#34;: [")
	require.Contains(t, p.Body, `<option value="`+phone+`" selected>`)
	require.Contains(t, p.Body, `name="country" value="CA"`)
}

func TestResultOfRejectedCall(t *testing.T) {
	s, _ := start(t)
	form := url.Values{"limit": {"x"}, "key": {website}}
	explored(t, s, list, form, api.ExplorerResult{
		Status: 400, Body: []byte(`{"error":{}}`), Size: 12, Header: http.Header{"X-RateLimit-Limit": {"100"}, "X-RateLimit-Remaining": {"94"}},
	}).Shows(http.StatusOK, "400 Bad Request", "No request of the day: 94 of 100", "The SDKs cannot send this request")
	p := explored(t, s, list, form, api.ExplorerResult{Status: 401, Body: []byte(`{}`), Size: 2}).Shows(http.StatusOK, "401 Unauthorized", "No request of the day")
	require.NotContains(t, p.Text(), "were left", "the API does not state the quota of an unknown key")
	explored(t, s, list, form, api.ExplorerResult{Status: 304}).Shows(http.StatusOK, "304 Not Modified")
}

func TestLongBodyIsCut(t *testing.T) {
	s, _ := start(t)
	start := []byte(strings.Repeat("x", api.MaxExplorerBody-1) + "\xc3") // ends within a character
	p := explored(t, s, list, url.Values{"key": {website}}, api.ExplorerResult{Status: 200, Body: start, Size: 300_000})
	p.Shows(http.StatusOK, "The body has 300,000 bytes. These are the first 262,144.")
}

func TestResultNeedsTheSession(t *testing.T) {
	s, _ := start(t)
	clear(s.Cookies)
	explored(t, s, list, url.Values{}, api.ExplorerResult{Status: 200}).Leads("/account/sign-in?next=%2Faccount%2Fexplorer%2FlistOpportunities")
}
