package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/gateway"
)

func TestOperatorTexts(t *testing.T) {
	terms := filepath.Join(t.TempDir(), "terms.md")
	require.NoError(t, os.WriteFile(terms, []byte("# Our terms\n"), 0o600))
	w := newEnvironment(t)
	gw := w.start(func(c *gateway.Config) {
		c.TermsFile, c.TermsVersion, c.Contact, c.SecurityContact = terms, "7", "help@api.example", "security@api.example"
	})
	a := gw.do(t, request{path: "/terms"})
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, "Our terms")
	require.Contains(t, a.body, "Version 7")
	require.Contains(t, gw.do(t, request{path: "/privacy"}).body, "data that this installation stores")
	require.Contains(t, gw.do(t, request{path: "/.well-known/security.txt"}).body,
		"Contact: mailto:security@api.example\n")
	require.Equal(t, 404, w.start().do(t, request{path: "/.well-known/security.txt"}).status,
		"security.txt without a contact")
	require.Zero(t, w.authquota.lookupCount(), "key lookups")
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
