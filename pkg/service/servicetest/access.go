package servicetest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
)

var services = []string{peer.Gateway, peer.Catalog, peer.History, peer.Authquota, peer.Billing}

// Token returns the token that the service name sends to all others. OlderToken returns the one
// before it.
func Token(name string) string { return name + " token in tests of 32 or more characters" }

// OlderToken returns the token that the service name sent before Token.
func OlderToken(name string) string { return name + " older token in tests of 32 or more characters" }

func allTokens() (out []string) {
	for _, name := range services {
		out = append(out, Token(name), OlderToken(name))
	}
	return out
}

// Tokens returns the tokens that the service name sends.
func Tokens(name string) (t peer.Tokens) {
	for _, other := range services {
		t.Peers = append(t.Peers, other+":"+Token(name))
	}
	return t
}

// Callers returns the tokens that the service name accepts: both of each service that calls it.
func Callers(name string) (c peer.Callers) {
	for _, caller := range peer.CallersOf(name) {
		c.Tokens = append(c.Tokens, caller+":"+Token(caller), caller+":"+OlderToken(caller))
	}
	return c
}

// Caller returns a service that may call the path of the service name, by default the gateway.
func Caller(name, path string) string {
	path, _, _ = strings.Cut(path, "?")
	for _, r := range peer.Rules(name) {
		if r.Covers(path) && !r.Public() {
			return r.Callers[0]
		}
	}
	return peer.Gateway
}

// RequireAccess fails the test unless the service name, which runs at url, lets exactly the
// services call a path that peer.Rules names, and logs the others.
func RequireAccess(t testing.TB, name, url string, log func() string) {
	t.Helper()
	status := func(path, authorization string) int {
		return Send(t, http.MethodGet, url+path, nil, http.Header{"Authorization": {authorization}}).Status
	}
	rejected := []int{http.StatusUnauthorized, http.StatusForbidden}
	for _, r := range peer.Rules(name) {
		path := r.Path
		if strings.HasSuffix(path, "/") {
			path += "x"
		}
		for _, wrong := range []string{"Bearer", "Bearer wrong", "Bearer " + Token(peer.Gateway) + "x", Token(peer.Gateway),
			"bearer " + Token(peer.Gateway)} {
			require.Equal(t, http.StatusUnauthorized, status(path, wrong), "%s with %q", path, wrong)
		}
		require.Equal(t, r.Public(), !slices.Contains(rejected, status(path, "")), "%s without a token", path)
		for _, caller := range services {
			for _, token := range []string{Token(caller), OlderToken(caller)} {
				got := status(path, "Bearer "+token)
				switch {
				case !slices.Contains(Callers(name).Tokens, caller+":"+token):
					require.Equal(t, http.StatusUnauthorized, got, "%s by %s, which calls nothing", path, caller)
				case r.Public() || slices.Contains(r.Callers, caller):
					require.NotContains(t, rejected, got, "%s by %s", path, caller)
				default:
					require.Equal(t, http.StatusForbidden, got, "%s by %s", path, caller)
					require.Regexp(t, `"call of another service forbidden".*"caller":"`+caller+`".*"route":"`+r.Path+`"`, log())
				}
			}
		}
	}
	require.Equal(t, http.StatusNotFound, status("/internal/v1/nothing", "Bearer "+Token(peer.Gateway)),
		"a path without a rule")
}
