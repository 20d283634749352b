package site

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyOurOwnPathsAreRedirectedTo(t *testing.T) {
	for _, own := range []string{"/account", "/account/keys", "/account/usage?day=2026-11-20", "/account/security/confirm?next=%2Faccount"} {
		require.True(t, ownPath(own), own)
	}
	for _, other := range []string{
		"", "/", "account", "/accounts", "/docs", "//evil.example/account", "https://evil.example/account", "/\\evil.example/account",
		"/account/../docs", "/account//evil", "/account/%2e%2e/docs", "\t/account", "/account\n", "javascript:alert(1)", "/account#x",
		"https:/account", "//account/x", "/account\\..\\", "http:account",
	} {
		require.False(t, ownPath(other), other)
	}
}

func FuzzOwnPath(f *testing.F) {
	f.Add("/account/keys?x=y")
	f.Add("//evil.example")
	f.Fuzz(func(t *testing.T, target string) {
		if ownPath(target) {
			require.True(t, len(target) >= len(Home) && target[:len(Home)] == Home, target)
			require.NotContains(t, target, "\\")
		}
	})
}
