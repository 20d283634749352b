package gateway_test

import (
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/gateway"
)

func TestSettings(t *testing.T) {
	good := map[string]string{
		"OPPORTUNITY_REDIS_URL":   "redis://127.0.0.1:6379",
		"OPPORTUNITY_PEER_TOKENS": strings.Join(servicetest.Tokens(peer.Gateway).Peers, ","),
		"OPPORTUNITY_PUBLIC_URL":  publicURL,
		"OPPORTUNITY_CATALOG_URL": "http://127.0.0.1:1", "OPPORTUNITY_HISTORY_URL": "http://127.0.0.1:2",
		"OPPORTUNITY_AUTHQUOTA_URL": "http://127.0.0.1:3",
		"OPPORTUNITY_KEY_PEPPERS":   strings.Repeat("07", 32),
	}
	run := func(settings map[string]string, command string) error {
		lookup := func(name string) (string, bool) { v, ok := settings[name]; return v, ok }
		return gateway.Main(t.Context(), lookup, []string{command})
	}
	for name, bad := range map[string]string{
		"OPPORTUNITY_PUBLIC_URL": publicURL + "/", "OPPORTUNITY_CATALOG_URL": "127.0.0.1:1",
		"OPPORTUNITY_KEY_PEPPERS":     "0707secret",
		"OPPORTUNITY_OPERATOR_TOKENS": "ann:short", "OPPORTUNITY_TRUSTED_PROXIES": "10.0.0.0",
		"OPPORTUNITY_SERVICE_CAPACITY": "0",
		"OPPORTUNITY_PEER_TOKENS":      "catalog:short",
	} {
		settings := maps.Clone(good)
		settings[name] = bad
		err := run(settings, "serve")
		require.ErrorContains(t, err, name)
		if strings.Contains(name, "TOKEN") || strings.Contains(name, "PEPPER") {
			require.NotContains(t, err.Error(), bad)
		}
	}
	err := run(good, "check")
	for _, missing := range []string{"redis: 127.0.0.1:6379", "catalog: http://127.0.0.1:1", "history: http://127.0.0.1:2",
		"authquota: http://127.0.0.1:3"} {
		require.ErrorContains(t, err, missing+": ")
	}
	require.ErrorContains(t, gateway.Main(t.Context(), nil, nil), "usage")

	w := newEnvironment(t)
	good["OPPORTUNITY_REDIS_URL"], good["OPPORTUNITY_AUTHQUOTA_URL"] = w.redis.URL, w.authquota.URL
	good["OPPORTUNITY_CATALOG_URL"], good["OPPORTUNITY_HISTORY_URL"] = w.catalog.URL, w.history.URL
	require.NoError(t, run(good, "check"))
	good["OPPORTUNITY_KEY_PEPPERS"] = hex.EncodeToString(otherPepper)
	require.ErrorContains(t, run(good, "check"), "OPPORTUNITY_KEY_PEPPERS of gateway and authquota differ")
}

// Package docsite tests the pages.
func TestOperatorTexts(t *testing.T) {
	terms := filepath.Join(t.TempDir(), "terms.md")
	require.NoError(t, os.WriteFile(terms, []byte("# Our terms\n"), 0o600))
	gw := newEnvironment(t).start(func(c *gateway.Config) {
		c.TermsFile, c.TermsVersion, c.Contact, c.SecurityContact = terms, "7", "help@api.example", "security@api.example"
	})
	require.Regexp(t, "Our terms(.|\n)*Version 7(.|\n)*mailto:help@api.example", gw.do(t, request{path: "/terms"}).body)
	require.Contains(t, gw.do(t, request{path: "/.well-known/security.txt"}).body,
		"Contact: mailto:security@api.example\n")
}

func TestOperatorTextSettings(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for want, c := range map[string]gateway.Config{
		"OPPORTUNITY_TERMS_FILE: open":          {TermsFile: filepath.Join(dir, "none"), TermsVersion: "1"},
		"OPPORTUNITY_TERMS_FILE: " + dir:        {TermsFile: file("empty", " \n"), TermsVersion: "1"},
		"OPPORTUNITY_PRIVACY_FILE: " + dir:      {PrivacyFile: file("large", strings.Repeat("x", 1<<20+1))},
		"is not UTF-8":                          {PrivacyFile: file("binary", "\xff")},
		"OPPORTUNITY_TERMS_VERSION: missing":    {TermsFile: file("terms", "x")},
		"OPPORTUNITY_TERMS_VERSION: must have":  {TermsVersion: "two words"},
		"OPPORTUNITY_CONTACT: invalid":          {Contact: "me"},
		"OPPORTUNITY_SECURITY_CONTACT: invalid": {SecurityContact: "http://x.example"},
	} {
		require.ErrorContains(t, c.Validate(), want)
	}
}

// The process collects garbage less often than by default, unless GOGC sets how often.
func TestHeapGrowsFivefold(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100) })
	for environment, want := range map[string]int{"": 400, "100": 100} {
		t.Setenv("GOGC", environment) // restores it after the test
		if environment == "" {
			os.Unsetenv("GOGC")
		}
		debug.SetGCPercent(100)
		require.ErrorContains(t, gateway.Main(t.Context(), nil, nil), "usage")
		require.Equal(t, want, debug.SetGCPercent(100), "growth of the heap in percent with GOGC=%q", environment)
	}
}
