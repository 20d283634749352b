package docsite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/docsite"
)

func siteOf(t *testing.T, by docsite.Operator) *docsite.Site {
	t.Helper()
	site, err := siteBy(by)
	require.NoError(t, err)
	return site
}

func contact(t *testing.T, s string) docsite.Contact {
	t.Helper()
	c, err := docsite.ParseContact(s)
	require.NoError(t, err)
	return c
}

func TestOperatorTexts(t *testing.T) {
	site := siteOf(t, docsite.Operator{
		Terms: []byte("# Our terms\n\nBe kind. <script>alert(1)</script> [x](javascript:alert(1)) <javascript:alert(2)> " +
			"<data:text/html,x> ![x](vbscript:x) " +
			"[ours](/docs) <https://a.example> <b@a.example>\n"),
		Privacy:      []byte("# Our privacy\n"),
		TermsVersion: "7", Contact: contact(t, "help@api.example"), Now: time.Now,
	})
	terms := get(t, site, "/terms").Body.String()
	require.Contains(t, terms, "Our terms")
	require.Contains(t, terms, "Version 7")
	require.Contains(t, terms, `<a href="mailto:help@api.example">help@api.example</a>`)
	require.NotContains(t, terms, "alert(1)</script>")
	for _, scheme := range []string{"javascript", "data", "vbscript"} {
		require.NotRegexp(t, `(href|src)="`+scheme, terms)
	}
	for _, link := range []string{`href="/docs"`, `href="https://a.example"`, `href="mailto:b@a.example"`} {
		require.Contains(t, terms, link)
	}
	require.Contains(t, get(t, site, "/privacy").Body.String(), "Our privacy")
}

// Every page has the contact, including error pages.
func TestEveryPageHasTheContact(t *testing.T) {
	site := siteOf(t, docsite.Operator{Contact: contact(t, "https://api.example/help"), Now: time.Now})
	pages := map[string]string{"an error": string(site.ErrorPage(problem.NoEndpoint()))}
	for _, path := range []string{"/docs", "/docs/errors", "/docs/limits", "/terms", "/privacy"} {
		pages[path] = get(t, site, path).Body.String()
	}
	for name, page := range pages {
		require.Contains(t, page, `<a href="https://api.example/help">Contact the operator</a>`, name)
		require.Contains(t, page, `<a href="/terms">Terms of use</a> <a href="/privacy">Privacy</a>`, name)
	}
}

func TestSecurityTxt(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	by := docsite.Operator{Contact: contact(t, "help@api.example"), Now: func() time.Time { return now }}
	site := siteOf(t, by)
	const path = "/.well-known/security.txt"
	first := get(t, site, path)
	require.Equal(t, "text/plain; charset=utf-8", first.Header().Get("Content-Type"))
	require.Equal(t, "Contact: mailto:help@api.example\nExpires: 2027-05-19T00:00:00Z\nPreferred-Languages: en\n"+
		"Canonical: https://api.opportunity.example/.well-known/security.txt\n", first.Body.String())
	now = now.AddDate(1, 0, 0)
	require.Contains(t, get(t, site, path).Body.String(), "Expires: 2028-05-18T00:00:00Z", "Expires after 180 days")

	by.SecurityContact = contact(t, "https://api.example/security")
	require.Contains(t, get(t, siteOf(t, by), path).Body.String(), "Contact: https://api.example/security\n")
}

func TestContacts(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "a@b.example": "mailto:a@b.example", "mailto:a@b.example": "mailto:a@b.example",
		"https://b.example/help": "https://b.example/help",
	} {
		require.Equal(t, want, contact(t, s).URL, s)
	}
	for _, s := range []string{"http://b.example", "javascript:alert(1)", "Ann <a@b.example>", "a",
		"https://u:p@b.example", "a@b.example\nX: y"} {
		_, err := docsite.ParseContact(s)
		require.ErrorContains(t, err, "use an email address or an https URL", s)
	}
}
