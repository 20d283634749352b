package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/gateway"
)

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
