package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
)

// elsewhere lists the codes that this test cannot cause, with the tests that do.
var elsewhere = map[problem.Code]string{
	problem.ExpiredAPIKey:          "TestExamplesAreLive",
	problem.RevokedAPIKey:          "TestChangesHoldOnTheNextRequest",
	problem.AccountSuspended:       "TestChangesHoldOnTheNextRequest",
	problem.MinuteLimitReached:     "TestLimitsAreExactOverThreeGateways",
	problem.DailyLimitReached:      "TestExamplesAreLive",
	problem.ServiceCapacityReached: "TestExamplesAreLive",
	problem.ServiceUnavailable:     "TestFaultsConnections",
	problem.InternalError:          "pkg/web and pkg/problem: a handler that panics, an unknown error",
}

// TestErrors checks that each error has its code, a message that names the cause, and a
// documentation link.
func TestErrors(t *testing.T) {
	d := shared(t)
	commercial, free := spend(d, api.Commercial), spend(d, api.Free)
	seen := map[problem.Code]bool{}
	for _, c := range []struct {
		call
		code  problem.Code
		names string // what the message must name
	}{
		{call{path: listPath + "?limit=0"}, problem.InvalidParameter, "limit"},
		{call{path: historyPath + "?limit=0"}, problem.InvalidParameter, "limit"},
		{call{path: recordPath + "?remote=true"}, problem.UnknownParameter, "remote"},
		{call{path: listPath + "?remote=true&remote=true"}, problem.DuplicateParameter, "remote"},
		{call{path: listPath, body: strings.NewReader("{}")}, problem.BodyNotAllowed, ""},
		{call{path: listPath, key: "none"}, problem.MissingAPIKey, ""},
		{call{path: listPath, key: "oda_live_short"}, problem.InvalidAPIKey, ""},
		{call{path: historyPath, key: "free"}, problem.SubscriptionRequired, ""},
		// does not reveal whether the id exists
		{call{path: listPath + "/no-such-record/history", key: "free"}, problem.SubscriptionRequired, ""},
		{call{path: changesPath, key: "free"}, problem.SubscriptionRequired, "Business"},
		{call{path: changesPath + "?page=2"}, problem.UnknownParameter, "after, limit"},
		{call{path: changesPath + "?after=Ny5YWFhY"}, problem.CursorExpired, "after=now"},
		{call{path: listPath + "/no-such-record"}, problem.NotFound, ""},
		{call{path: listPath + "/hidden-heron"}, problem.NotFound, ""},           // private
		{call{path: listPath + "/quiet-quarry/history"}, problem.NotFound, ""},   // private, with a review
		{call{path: "/api/v2/opportunities", key: "none"}, problem.NotFound, ""}, // before the key
		{call{path: listPath, method: http.MethodPost, key: "none"}, problem.MethodNotAllowed, ""},
	} {
		name := c.method + " " + c.path + " " + c.key
		switch c.key {
		case "none":
			c.key = ""
		case "free":
			c.key = free.next(t)
		case "":
			c.key = commercial.next(t)
		}
		a := do(t, d.url, c.call)
		require.Equal(t, string(c.code), a.code(), "%s: %s", name, a.body)
		e := storetest.Must(strict[api.Error](a.body))(t)
		require.Contains(t, e.Error.Message, c.names, name)
		require.Equal(t, d.url+"/docs/errors#"+string(c.code), e.Documentation)
		seen[c.code] = true
	}
	for _, e := range problem.Table {
		require.True(t, seen[e.Code] != (elsewhere[e.Code] != ""),
			"%s is shown here or in a test that is named, not both, not neither", e.Code)
	}
}

// TestPagesAreServed checks that documents, pages and the description of this deployment need no
// key.
func TestPagesAreServed(t *testing.T) {
	d := shared(t)
	for path, has := range map[string]string{
		"/": "</html>", "/docs": "</html>", "/account/sign-in": "</html>", "/llms.txt": d.url + "/docs",
		"/openapi.yaml": "\n  - url: " + d.url + "\n", "/openapi.json": `"url":"` + d.url + `"`,
	} {
		page := get(t, d.url, "", path)
		require.Equal(t, http.StatusOK, page.StatusCode, path)
		require.Contains(t, string(page.body), has, path)
		require.Empty(t, page.Header.Get("X-RateLimit-Limit"), path)
	}
	require.Equal(t, http.StatusNotFound, get(t, d.url, "", "/account/../internal/v1/principals").StatusCode)
}

// TestChargesAndHeaders checks which responses count against the quota, from their headers. The
// tests of the catalog have the forms of a condition, and those of the gateway the methods.
func TestChargesAndHeaders(t *testing.T) {
	d := shared(t)
	key := d.issue(t, api.Developer).Key
	first := get(t, d.url, key, listPath)
	require.Equal(t, "1000", first.Header.Get("X-RateLimit-Limit"))
	require.Equal(t, 999, first.remaining(t))
	require.Equal(t, `"minute";q=60;w=60, "day";q=1000;w=86400`, first.Header.Get("RateLimit-Policy"))
	require.Regexp(t, `^"minute";r=59;t=\d+, "day";r=999;t=\d+$`, first.Header.Get("RateLimit"))
	tag := first.Header.Get("ETag")
	left := 999
	for _, c := range []struct {
		call
		status, cost int
	}{
		{call{path: listPath, header: map[string]string{"If-None-Match": tag}}, 304, 1},
		{call{path: listPath + "?limit=11", header: map[string]string{"If-None-Match": tag}}, 200, 1},
		{call{path: listPath, method: http.MethodHead}, 200, 1},
		{call{path: listPath + "/no-such-record"}, 404, 1},
		{call{path: historyPath}, 200, 1},
		{call{path: listPath + "?limit=0"}, 400, 0},
		{call{path: listPath + "?a=b"}, 400, 0},
		{call{path: listPath + "?page=999"}, 200, 1},
	} {
		c.key = key
		a := do(t, d.url, c.call)
		require.Equal(t, c.status, a.StatusCode, "%s %s", c.path, a.body)
		left -= c.cost
		require.Equal(t, left, a.remaining(t), "%s %s", c.method, c.path)
	}
}

// TestNothingPrivateGetsOut checks that curators' notes, private records and keys appear in no
// response, header or log of the public side.
func TestNothingPrivateGetsOut(t *testing.T) {
	t.Parallel()
	u := up(t, filepath.Join(t.TempDir(), "data"), "OPPORTUNITY_LOG_LEVEL=DEBUG")
	secrets := []string{ // of the sample
		"curator-desk@", "Sample note for curators", "private-contact@", "Private sample candidate",
		"hidden-heron", "hiddenheron", "Hidden Heron", "quiet-quarry", "quietquarry", "Quiet Quarry",
	}
	export := u.verb(t, "", "listings", "export")
	for _, s := range secrets {
		require.Contains(t, export, s, "the operator's export has it, so the test searches for the right text")
	}
	key := u.issue(t, api.Commercial).Key
	var seen strings.Builder
	look := func(c call) {
		c.key = key
		a := do(t, u.url, c)
		fmt.Fprintln(&seen, a.StatusCode, string(a.body))
		require.NoError(t, a.Header.Write(&seen))
	}
	for _, o := range list(t, u.url, key, listPath+"?limit=100") {
		look(call{path: listPath + "/" + o.ID})
		look(call{path: listPath + "/" + o.ID + "/history?limit=100"})
	}
	for _, path := range []string{
		listPath + "?limit=100", changesPath + "?limit=100", "/api/jobs?limit=100",
		listPath + "?verified=false", listPath + "?limit=x",
		"/openapi.yaml", "/openapi.json", "/docs", "/docs/errors", "/",
	} {
		look(call{path: path})
	}
	for _, id := range []string{"hidden-heron", "quiet-quarry"} { // requests by id return 404
		for _, path := range []string{listPath + "/" + id, listPath + "/" + id + "/history"} {
			a := get(t, u.url, key, path)
			unknown := get(t, u.url, key, strings.Replace(path, id, "no-such-record", 1))
			require.Equal(t, 404, a.StatusCode)
			require.Equal(t, string(unknown.body), string(a.body))
		}
	}
	// keys in the wrong place
	get(t, u.url, key, listPath+"?api_key="+key)
	get(t, u.url, key, listPath+"/"+key)
	get(t, u.url, key, "/"+key)

	for _, s := range secrets {
		require.NotContains(t, seen.String(), s)
	}
	log := text(t, filepath.Join(u.dir, "log.jsonl"))
	require.Contains(t, log, `"route":"/api/v1/opportunities/{id}"`)
	for _, secret := range append(secrets, key, strings.Split(key, "_")[2], u.keys[api.Free]) {
		require.NotContains(t, log, secret)
		if secret != u.keys[api.Free] { // printed for its owner
			require.NotContains(t, u.out.String(), secret)
		}
	}
}
