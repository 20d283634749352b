package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// elsewhere lists the codes that this test cannot cause, with the tests that do.
var elsewhere = map[problem.Code]string{
	problem.ExpiredAPIKey:          "TestKeyLife",
	problem.RevokedAPIKey:          "TestChangesHoldOnTheNextRequest",
	problem.AccountSuspended:       "TestChangesHoldOnTheNextRequest",
	problem.MinuteLimitReached:     "TestLimitsAreExactOverThreeGateways",
	problem.DailyLimitReached:      "TestDay",
	problem.ServiceCapacityReached: "TestServiceCapacity",
	problem.ServiceUnavailable:     "TestRedisStops, TestPostgresStops",
	problem.InternalError:          "pkg/web and pkg/problem: a handler that panics, an unknown error",
}

// TestErrors checks that each error has its code, a message that names the cause, and a
// documentation link whose anchor exists.
func TestErrors(t *testing.T) {
	d := shared(t)
	commercial, free := spend(d, api.Commercial), spend(d, api.Free)
	known := list(t, d.url, commercial.next(t), "/api/v1/opportunities?limit=100")
	reviewed := known[0].ID
	const listPath, changesPath = "/api/v1/opportunities", "/api/v1/changes"

	seen := map[problem.Code]bool{}
	for _, c := range []struct {
		call
		code  problem.Code
		names string // what the message must name
	}{
		{call{path: listPath + "?country=CAN"}, problem.InvalidParameter, "country"},
		{call{path: listPath + "?province=ON&country=US"}, problem.InvalidParameter, "province"},
		{call{path: listPath + "?limit=0"}, problem.InvalidParameter, "limit"},
		{call{path: listPath + "?remote=%zz"}, problem.InvalidParameter, ""},
		{call{path: "/api/jobs?category=none"}, problem.InvalidParameter, "category"},
		{call{path: listPath + "/" + reviewed + "/history?limit=0"}, problem.InvalidParameter, "limit"},
		{call{path: listPath + "?q=tutor"}, problem.UnknownParameter, "q"},
		{call{path: listPath + "/" + reviewed + "?remote=true"}, problem.UnknownParameter, "remote"},
		{call{path: listPath + "?remote=true&remote=true"}, problem.DuplicateParameter, "remote"},
		{call{path: listPath, body: strings.NewReader("{}")}, problem.BodyNotAllowed, ""},
		{call{path: listPath, key: "none"}, problem.MissingAPIKey, ""},
		{call{path: listPath, key: "oda_live_short"}, problem.InvalidAPIKey, ""},
		{call{path: listPath + "/" + reviewed + "/history", key: "free"}, problem.SubscriptionRequired, ""},
		// does not reveal whether the id exists
		{call{path: listPath + "/no-such-record/history", key: "free"}, problem.SubscriptionRequired, ""},
		{call{path: changesPath, key: "free"}, problem.SubscriptionRequired, "Business"},
		{call{path: changesPath + "?page=2"}, problem.UnknownParameter, "after, limit"},
		{call{path: changesPath + "?after=Ny5YWFhY"}, problem.CursorExpired, "after=now"},
		{call{path: changesPath, method: http.MethodPost, key: "none"}, problem.MethodNotAllowed, ""},
		{call{path: listPath + "/no-such-record"}, problem.NotFound, ""},
		{call{path: listPath + "/hidden-heron"}, problem.NotFound, ""},         // private
		{call{path: listPath + "/quiet-quarry/history"}, problem.NotFound, ""}, // private, with a review
		{call{path: "/api//v1/opportunities"}, problem.NotFound, ""},
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
		e, err := strict[api.Error](a.body)
		require.NoError(t, err)
		require.Contains(t, e.Error.Message, c.names, name)
		require.Equal(t, d.url+"/docs/errors#"+string(c.code), e.Documentation)
		seen[c.code] = true
	}
	for _, e := range problem.Table {
		require.True(t, seen[e.Code] != (elsewhere[e.Code] != ""),
			"%s is shown here or in a test that is named, not both, not neither", e.Code)
	}

	page := do(t, d.url, call{path: "/docs/errors"})
	require.Equal(t, http.StatusOK, page.StatusCode)
	for _, e := range problem.Table {
		require.Contains(t, string(page.body), `id="`+string(e.Code)+`"`)
	}
}

// TestChargesAndHeaders checks which responses count against the quota, from their headers.
func TestChargesAndHeaders(t *testing.T) {
	d := shared(t)
	key := d.issue(t, api.Developer).Key
	first := do(t, d.url, call{path: "/api/v1/opportunities", key: key})
	require.Equal(t, "1000", first.Header.Get("X-RateLimit-Limit"))
	require.Equal(t, 999, first.remaining(t))
	require.Equal(t, "private, no-cache", first.Header.Get("Cache-Control"))
	require.Contains(t, first.Header.Values("Vary"), "Authorization")
	require.Equal(t, `"minute";q=60;w=60, "day";q=1000;w=86400`, first.Header.Get("RateLimit-Policy"))
	require.Regexp(t, `^"minute";r=59;t=\d+, "day";r=999;t=\d+$`, first.Header.Get("RateLimit"))
	tag := first.Header.Get("ETag")
	require.Regexp(t, `^W/".+"$`, tag)
	left := 999
	for _, c := range []struct {
		call
		status, cost int
	}{
		{call{path: "/api/v1/opportunities", header: map[string]string{"If-None-Match": tag}}, 304, 1},
		{call{path: "/api/v1/opportunities", header: map[string]string{"If-None-Match": "*"}}, 304, 1},
		{call{path: "/api/v1/opportunities", header: map[string]string{"If-None-Match": `"other", ` + tag[2:]}}, 304, 1},
		{call{path: "/api/v1/opportunities?limit=11", header: map[string]string{"If-None-Match": tag}}, 200, 1},
		{call{path: "/api/v1/opportunities", method: http.MethodHead}, 200, 1},
		{call{path: "/api/v1/opportunities/maple-scribe", method: http.MethodHead}, 200, 1},
		{call{path: "/api/v1/opportunities/no-such-record"}, 404, 1},
		{call{path: "/api/v1/opportunities/maple-scribe/history"}, 200, 1},
		{call{path: "/api/v1/opportunities?limit=0"}, 400, 0},
		{call{path: "/api/v1/opportunities?a=b"}, 400, 0},
		{call{path: "/api/v1/opportunities?page=999"}, 200, 1},
	} {
		c.key = key
		a := do(t, d.url, c.call)
		require.Equal(t, c.status, a.StatusCode, "%s %s", c.path, a.body)
		left -= c.cost
		require.Equal(t, left, a.remaining(t), "%s %s", c.method, c.path)
	}
	for _, path := range []string{"/api/v1/opportunities", "/api/jobs", "/api/v1/opportunities/maple-scribe/history"} {
		a := do(t, d.url, call{path: path, method: http.MethodOptions})
		require.Equal(t, http.StatusNoContent, a.StatusCode)
		require.Equal(t, "GET, HEAD, OPTIONS", a.Header.Get("Allow"))
	}
	require.Regexp(t, `/api/v1/opportunities\?\S*>; rel="canonical"$`,
		do(t, d.url, call{path: "/api/jobs", key: key}).Header.Get("Link"))
}

// TestCompression checks that gzip responses have the same content.
func TestCompression(t *testing.T) {
	d := shared(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/api/v1/opportunities?limit=50", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+d.keys[api.Developer])
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	packed, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	plain := do(t, d.url, call{path: "/api/v1/opportunities?limit=50", key: d.keys[api.Developer],
		header: map[string]string{"Accept-Encoding": "identity"}})
	require.Empty(t, plain.Header.Get("Content-Encoding"))
	require.Less(t, len(packed), len(plain.body)/2)
	body, err := strict[api.OpportunityList](gunzip(t, packed))
	require.NoError(t, err)
	require.Equal(t, decode[api.OpportunityList](t, plain).Data, body.Data)
}

// TestDescriptionIsServed checks that the OpenAPI description names this deployment, has no
// editors' comments, and is the same as YAML and as JSON.
func TestDescriptionIsServed(t *testing.T) {
	d := shared(t)
	yaml := do(t, d.url, call{path: "/openapi.yaml"})
	require.Equal(t, http.StatusOK, yaml.StatusCode)
	require.NotRegexp(t, `(?m)^\s*#`, string(yaml.body))
	require.Contains(t, string(yaml.body), "servers:\n  - url: "+d.url+"\n")
	require.NotContains(t, string(yaml.body), "additionalProperties")
	json := do(t, d.url, call{path: "/openapi.json"})
	require.Equal(t, http.StatusOK, json.StatusCode)
	require.Equal(t, generic(t, yaml.body), generic(t, json.body))
	require.Equal(t, http.StatusOK, do(t, d.url, call{path: "/docs"}).StatusCode)
}
