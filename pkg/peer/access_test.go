package peer_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// secret returns a token of 32 characters.
func secret(c string) string { return strings.Repeat(c, 32) }

// history starts a history service that accepts these tokens. It responds to allowed requests with
// its name.
func history(t *testing.T, callers ...string) (url string, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	errors := problem.Writer{Log: slog.New(slog.NewTextHandler(log, nil))}
	access := peer.NewAccess(peer.History, peer.Callers{Tokens: callers}, errors)
	s := httptest.NewServer(access.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, peer.History)
	})))
	t.Cleanup(s.Close)
	return s.URL, log
}

func status(t *testing.T, url, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestAccess(t *testing.T) {
	url, log := history(t, "gateway:"+secret("n"), "gateway:"+secret("o"), "catalog:"+secret("c"))
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/operator/v1/events", secret("n"), 200},
		{"/operator/v1/events", secret("o"), 200}, // the older token, during a rotation
		{"/operator/v1/events", secret("c"), 403},
		{"/operator/v1/events", secret("x"), 401},
		{"/operator/v1/events", "", 401},
		{"/internal/v1/summaries", secret("c"), 200},
		{"/internal/v1/summaries?after=1", secret("n"), 403},
		{"/internal/v1/summaries/", secret("c"), 404},
		{"/internal/v1/reviews", secret("c"), 200},
		{"/internal/v2/anything", secret("n"), 404},
		{"/.well-known/opportunity-history", "", 200},
		{"/.well-known/opportunity-history/log/checkpoint", "", 200},
		{"/.well-known/opportunity-history/log/checkpoint", secret("n"), 200},
		{"/.well-known/opportunity-history/log/checkpoint", secret("x"), 401},
		{"/readyz", "", 200},
	} {
		require.Equal(t, c.want, status(t, url+c.path, c.token), "%s with %.1s", c.path, c.token)
	}
	require.Contains(t, log.String(),
		`msg="call of another service forbidden" caller=catalog method=GET route=/operator/v1/`)
	require.NotContains(t, log.String(), secret("c"))
}

func TestReadinessChecksTheToken(t *testing.T) {
	url, _ := history(t, "gateway:"+secret("n"), "gateway:"+secret("o"), "catalog:"+secret("c"))
	require.NoError(t, peer.CheckReady(t.Context(), url), "probes have no token")
	check := func(token, caller string) error {
		return peer.Tokens{Peers: []string{"history:" + token}}.CheckReady(t.Context(), caller, peer.History, url, nil)
	}
	require.NoError(t, check(secret("n"), peer.Gateway))
	require.NoError(t, check(secret("o"), peer.Gateway))
	require.Equal(t, peer.RejectedToken(peer.Gateway, peer.History), check(secret("x"), peer.Gateway))
	require.EqualError(t, check(secret("c"), peer.Gateway),
		"the token of gateway is rejected: compare history:... in OPPORTUNITY_PEER_TOKENS of gateway with gateway:... in "+
			"OPPORTUNITY_CALLER_TOKENS of history",
		"history knows the token as that of catalog")
}

func TestInvalidTokensAreRejected(t *testing.T) {
	s := secret("s")
	peers := func(tokens ...string) peer.Tokens { return peer.Tokens{Peers: tokens} }
	callers := func(tokens ...string) peer.Callers { return peer.Callers{Tokens: tokens} }
	for want, err := range map[string]error{
		"OPPORTUNITY_PEER_TOKENS: the token for history is missing": peers("catalog:"+s).Validate(peer.Catalog, peer.History),
		"OPPORTUNITY_PEER_TOKENS: entry 2 must be the name of a service, a colon and a token; the services are gateway, " +
			"catalog, history, authquota, billing": peers("catalog:"+s, s).Validate(),
		"OPPORTUNITY_PEER_TOKENS: the token of catalog must have at least 32 characters": peers("catalog:short").Validate(),
		"OPPORTUNITY_PEER_TOKENS: catalog has two tokens: only the service that is called can have several": peers(
			"catalog:"+s, "catalog:"+s).Validate(),
		"OPPORTUNITY_CALLER_TOKENS is missing: list a token for each of gateway, history": callers().Validate(peer.Catalog),
		"OPPORTUNITY_CALLER_TOKENS: billing does not call catalog; its callers are gateway, history": callers(
			"billing:" + s).Validate(peer.Catalog),
		"OPPORTUNITY_CALLER_TOKENS: gateway and history have the same token: each service needs its own": callers(
			"gateway:"+s, "history:"+s).Validate(peer.Catalog),
	} {
		require.EqualError(t, err, want)
	}
	require.NoError(t, peers("catalog:"+s, " history:"+s).Validate(peer.Catalog, peer.History))
	require.NoError(t, callers("gateway:"+s, "gateway:"+secret("t")).Validate(peer.Catalog))
}
