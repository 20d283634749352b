package route_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/services/gateway/internal/route"
)

func TestMatch(t *testing.T) {
	const v1, wellKnown = "/api/v1/opportunities", "/.well-known/opportunity-history"
	for path, want := range map[string]route.Route{
		v1:                            {Operation: route.List, Path: v1},
		"/api/jobs":                   {Operation: route.Alias, Path: "/api/jobs"},
		v1 + "/a-b-1":                 {Operation: route.Detail, Path: v1 + "/a-b-1"},
		v1 + "/a-b-1/history":         {Operation: route.History, Path: v1 + "/a-b-1/history"},
		v1 + "/history":               {Operation: route.Detail, Path: v1 + "/history"},
		v1 + "/%61":                   {Operation: route.Detail, Path: v1 + "/a"},
		v1 + "/NOT%20a%20slug":        {Operation: route.Detail, Path: v1 + "/NOT%20a%20slug"},
		v1 + "/a%0d%0aX-Evil:%201":    {Operation: route.Detail, Path: v1 + "/a%0D%0AX-Evil:%201"},
		v1 + "/a%3Fcountry=CA":        {Operation: route.Detail, Path: v1 + "/a%3Fcountry=CA"},
		v1 + "/%2E%2E%2E/history":     {Operation: route.History, Path: v1 + "/.../history"},
		v1 + "/":                      {},
		v1 + "//":                     {},
		v1 + "/a/":                    {},
		v1 + "/a//history":            {},
		v1 + "/a/history/":            {},
		v1 + "/a/History":             {},
		v1 + "/a/other":               {},
		v1 + "/.":                     {},
		v1 + "/../opportunities":      {},
		v1 + "/%2e%2e":                {},
		v1 + "/%2e%2e/history":        {},
		v1 + "/a%2Fhistory":           {},
		v1 + "/a%2fb":                 {},
		"/api%2Fv1/opportunities":     {},
		"/api%2fjobs":                 {},
		"//api/v1/opportunities":      {},
		"/api//v1/opportunities":      {},
		"/api/v1/./opportunities":     {},
		"/api/v1/x/../opportunities":  {},
		"/API/v1/opportunities":       {},
		"/api/jobs/":                  {},
		"/api/jobs/a":                 {},
		"/api/v2/opportunities":       {},
		"/internal/v1/summaries":      {},
		"/api/v1/opportunities/a/b/c": {},
		"/account":                    {Operation: route.Account, Path: "/account"},
		"/account/keys/key_1/rotate":  {Operation: route.Account, Path: "/account/keys/key_1/rotate"},
		"/account/reset?token=a/../b": {Operation: route.Account, Path: "/account/reset"},
		"/account/":                   {},
		"/account//keys":              {},
		"/account/../internal/v1/x":   {},
		"/account/%2e%2e/internal":    {},
		"/account/a%2Fb":              {},
		"/account/a%20b":              {},
		"/account/%61":                {},
		"/accounts":                   {},
		"/Account":                    {},
		"/billing/stripe/webhook":     {Operation: route.Webhook, Path: "/billing/stripe/webhook"},
		"/billing/sandbox":            {Operation: route.Sandbox, Path: "/billing/sandbox"},
		"/billing/sandbox/pay/1":      {Operation: route.Sandbox, Path: "/billing/sandbox/pay/1"},
		"/billing/sandbox/../x":       {},
		"/billing/sandbox/%2e%2e/x":   {},
		"/billing/sandboxes":          {},
		"/billing/stripe/webhook/":    {},
		"/billing/stripe":             {},
		"/billing/internal/v1/x":      {},
		"/billing":                    {},
		wellKnown:                     {Operation: route.Checkpoints, Path: wellKnown},
		wellKnown + "/2026-11-20":     {Operation: route.Checkpoint, Path: wellKnown + "/2026-11-20"},
		wellKnown + "/7.heads":        {Operation: route.Checkpoint, Path: wellKnown + "/7.heads"},
		wellKnown + "/7/heads":        {},
		wellKnown + "/a/b":            {},
		wellKnown + "/":               {},
		wellKnown + "/..":             {},
		wellKnown + "/a%2Fb":          {},
		"/.well-known/other":          {},
		"/":                           {},
		"":                            {},
	} {
		t.Run(path, func(t *testing.T) {
			u, err := url.Parse(path)
			if path == "//api/v1/opportunities" { // Parse would read the first segment as a host; a server does not
				u, err = &url.URL{Path: path}, nil
			}
			require.NoError(t, err)
			got, ok := route.Match(u)
			require.Equal(t, want, got)
			require.Equal(t, want != route.Route{}, ok)
		})
	}
}

// For any id, the path for the service matches the same operation with the same id.
func TestUpstreamPathIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SampledFrom([]string{"/api/v1/opportunities/", "/account/", "/billing/sandbox/", "/.well-known/opportunity-history/"}).Draw(t, "top") + rapid.StringMatching(`([a-z./?#;%&+ -]|%[0-9A-Fa-f]{2}){0,12}`).Draw(t, "rest")
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return // net/http rejects such a request
		}
		first, ok := route.Match(u)
		if !ok {
			return
		}
		again, err := url.ParseRequestURI(first.Path)
		require.NoError(t, err)
		require.Empty(t, again.RawQuery)
		second, ok := route.Match(again)
		require.True(t, ok)
		require.Equal(t, first, second)
	})
}
