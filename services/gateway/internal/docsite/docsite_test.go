package docsite_test

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pages "opportunity.internal/docs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/sdk"
	"opportunity.internal/services/gateway/internal/docsite"
)

const publicURL = "https://api.opportunity.example"

func has(site *docsite.Site, path string) bool {
	return path == docsite.SearchPath || slices.Contains(site.Paths(), path)
}

func get(t *testing.T, site *docsite.Site, path string) *httptest.ResponseRecorder {
	t.Helper()
	at, _, _ := strings.Cut(path, "?")
	require.True(t, has(site, at), path)
	rec := httptest.NewRecorder()
	require.NoError(t, site.Serve(rec, httptest.NewRequest(http.MethodGet, path, nil)))
	require.Equal(t, http.StatusOK, rec.Code)
	return rec
}

var (
	highlighting = regexp.MustCompile(`<span class="[cknms]">([^<]*)</span>`)
	label        = regexp.MustCompile(` data-label="[^"]*"`)
)

// plainly returns a page without the colors of code and the labels of cells.
func plainly(t *testing.T, site *docsite.Site, path string) string {
	t.Helper()
	return label.ReplaceAllString(highlighting.ReplaceAllString(get(t, site, path).Body.String(), "$1"), "")
}

// sharedSite is the site of the tests that change nothing.
var sharedSite = sync.OnceValues(func() (*docsite.Site, error) { return siteBy(docsite.Operator{}) })

func siteBy(by docsite.Operator) (*docsite.Site, error) {
	site, err := docsite.New(publicURL, by)
	if err != nil {
		return nil, err
	}
	return site, site.Show(docsite.Figures{Tiers: api.DefaultLimits(), Capacity: api.ServiceCapacity})
}

func newSite(t *testing.T) *docsite.Site {
	t.Helper()
	site, err := sharedSite()
	require.NoError(t, err)
	return site
}

var href = regexp.MustCompile(`href="(/[^"#]*)?(?:#([^"]*))?"`)

// Every link, including those of the menu, leads to a served document with the linked anchor.
func TestEveryLinkResolves(t *testing.T) {
	site := siteOf(t, docsite.Operator{})
	showCatalog(t, site, overview(t))
	paths := []string{"/", "/docs", "/docs/errors", "/docs/reference", "/docs/reference/listOpportunities",
		"/docs/reference/schemas", "/docs/search?q=key", "/sdk/", "/status", "/terms", "/privacy"}
	for _, p := range pages.Pages[1:] {
		paths = append(paths, "/docs/"+p.Slug)
	}
	for _, path := range paths {
		page := get(t, site, path).Body.String()
		links := href.FindAllStringSubmatch(page, -1)
		require.NotEmpty(t, links)
		for _, link := range links {
			target := link[1]
			if target == "/account" || strings.HasPrefix(target, "/account/") || strings.HasPrefix(target, docsite.RecordPath) {
				continue // a page of another part
			}
			if target == "" {
				target = path
			}
			there := get(t, site, target).Body.String()
			if link[2] != "" {
				require.Contains(t, there, `id="`+link[2]+`"`, "%s links to %s", path, link[0])
			}
		}
		require.NotContains(t, page, "localhost", "examples show the reader's own deployment")
		require.NotRegexp(t, `<script[^>]*>[^<]`, page, "the policy blocks inline scripts")
	}
}

// Pages have a table of contents and lead on. A row of a table is a block on phones, so its cells
// name their columns.
func TestParts(t *testing.T) {
	site := newSite(t)
	for path, parts := range map[string][]string{
		"/docs/filters": {`<nav class="contents" aria-label="On this page">` + "\n<details>\n<summary>On this page</summary>" +
			"\n<ul>\n" + `<li><a href="#`, ` rel="prev"><span>Previous</span> `, ` rel="next"><span>Next</span> `},
		"/docs":            {`<form action="/docs/search" role="search">`},
		"/docs/agents":     {`<td data-label="Call of the API"><code>GET /api/v1/search</code></td>`},
		"/docs/quickstart": {`<link rel="alternate" type="text/markdown" href="/docs/quickstart.md">`},
		"/terms": {"<title>Terms of use", "Redistribute the data", "Show evidence and dates", "No warranty", "Suspension",
			"Version " + api.TermsVersion, api.UsageRight, "has not published a contact"},
		"/privacy": {"<title>Privacy", "Audit log", "400 days", "Stripe", "Cookies", "no client addresses",
			"has not published a contact"},
	} {
		page := get(t, site, path)
		require.Equal(t, "text/html; charset=utf-8", page.Header().Get("Content-Type"))
		for _, part := range parts {
			require.Contains(t, page.Body.String(), part, path)
		}
	}
	require.NotContains(t, get(t, site, "/docs/search").Body.String(), "<nav class=\"turn\"")
	require.False(t, has(site, "/.well-known/security.txt"), "security.txt without a contact")
}

func TestEveryCodeIsExplained(t *testing.T) {
	page := get(t, newSite(t), "/docs/errors").Body.String()
	for _, e := range problem.Table {
		require.Contains(t, page, `id="`+string(e.Code)+`"`)
	}
	_, subscription, _ := strings.Cut(page, `id="subscription_required"`)
	subscription, _, _ = strings.Cut(subscription, `id="account_suspended"`)
	require.Contains(t, subscription, `<a href="/account/plan">Compare plans</a>`)
}

// The description names this deployment. It has no comments, and its parts stay in the order of the
// source.
func TestServedDescription(t *testing.T) {
	site := newSite(t)
	require.Contains(t, string(api.OpenAPIYAML), "# The contract", "the source has comments")
	served := get(t, site, "/openapi.yaml").Body.String()
	require.Contains(t, served, "servers:\n  - url: "+publicURL+"\n")
	require.NotRegexp(t, `(?m)(^|\s)# `, served)
	var order []int
	for _, part := range []string{"openapi:", "\ninfo:", "\nservers:", "\npaths:", "\ncomponents:", "\n  schemas:"} {
		order = append(order, strings.Index(served, part))
	}
	require.IsIncreasing(t, order)
	var document struct {
		OpenAPI string
		Servers []struct{ URL string }
	}
	require.NoError(t, json.Unmarshal(get(t, site, "/openapi.json").Body.Bytes(), &document))
	require.Equal(t, "3.1.0", document.OpenAPI)
	require.Equal(t, publicURL, document.Servers[0].URL)
}

func TestErrorPageEscapesMessage(t *testing.T) {
	page := string(newSite(t).ErrorPage(problem.New(problem.NotFound, "There is no <b>such</b> page.")))
	require.Contains(t, page, "<title>Not Found · Opportunity Data API</title>")
	require.Contains(t, page, "There is no &lt;b&gt;such&lt;/b&gt; page.")
	require.Regexp(t, `href="/docs/static/style\.[0-9a-f]+\.css"`, page)
	require.NotContains(t, page, "aria-current")
}

func TestPagesAreCachedAndLockedDown(t *testing.T) {
	site := newSite(t)
	first := get(t, site, "/docs")
	require.True(t, strings.HasPrefix(first.Header().Get("Content-Security-Policy"), "default-src 'none'"))
	require.Equal(t, "nosniff", first.Header().Get("X-Content-Type-Options"))
	req := httptest.NewRequest(http.MethodGet, "/docs", nil)
	req.Header.Set("If-None-Match", first.Header().Get("ETag"))
	again := httptest.NewRecorder()
	require.NoError(t, site.Serve(again, req))
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Zero(t, again.Body.Len())
}

// The text of each Markdown page is served as it is, with the address of this installation.
func TestPagesAsMarkdown(t *testing.T) {
	site := newSite(t)
	for path, text := range map[string]string{
		"/docs/index.md": "# Documentation\n", "/docs/quickstart.md": "OPPORTUNITY_URL=" + publicURL,
		"/docs/errors.md": "| 402 | [`subscription_required`](#subscription_required) |",
		"/sdk/index.md":   "npm install " + publicURL, "/docs.md": "# Documentation\n", "/terms.md": "# Terms of use",
		"/privacy.md": "# Privacy",
	} {
		served := get(t, site, path)
		require.Equal(t, "text/markdown; charset=utf-8", served.Header().Get("Content-Type"))
		require.Contains(t, served.Body.String(), text)
	}
}

// A search finds the sections that have words of the query, and shows where. Its text is never
// HTML.
func TestSearch(t *testing.T) {
	site := newSite(t)
	for query, want := range map[string][]string{
		"retry-after":               {`href="/docs/limits#`, "<mark>Retry</mark>-After"},
		"FRESHUNTIL":                {`href="/docs/reference/schemas#`, "<mark>freshUntil</mark>"},
		"cursor expired":            {`href="/docs/errors#cursor_expired"`},
		"":                          {"or the name of a field"},
		"nosuchword":                {"0 pages have words", "Use other words"},
		"key nosuchword":            {`href="/docs/authentication`},
		"<script>alert(1)</script>": {"“&lt;script&gt;alert(1)&lt;/script&gt;”", `value="&lt;script&gt;`},
		strings.Repeat("é", 200):    {"“" + strings.Repeat("é", 100) + "”"},
		"the key of a record":       {"20 or more pages"},
	} {
		page := get(t, site, "/docs/search?q="+url.QueryEscape(query)).Body.String()
		for _, part := range want {
			require.Contains(t, page, part, query)
		}
		require.NotContains(t, page, "<script>alert")
		require.LessOrEqual(t, strings.Count(page, "<li><h2>"), 20)
	}
}

// The page that answers a question is among the first three.
func TestSearchAnswersQuestions(t *testing.T) {
	site := newSite(t)
	first := regexp.MustCompile(`<li><h2><a href="([^"#]*)`)
	for question, want := range map[string]string{
		"CORS": "/docs/faq", "price": "/docs/limits", "prices": "/docs/limits", "How much does it cost?": "/docs/limits",
		"plans": "/docs/limits", "rate limit": "/docs/limits", "How many requests may I send a day?": "/docs/limits",
		"429 too many requests": "/docs/errors", "invalid_api_key": "/docs/errors",
		"what does cursor_expired mean": "/docs/errors",
		"rotate a key":                  "/docs/authentication", "How do I get a key?": "/docs/authentication",
		"I lost my key": "/docs/faq",
		"revoke":        "/docs/authentication", "bearer token": "/docs/authentication",
		"Is there an export?": "/docs/export", "CSV": "/docs/export", "sqlite database": "/docs/export",
		"keep my database up to date": "/docs/keep-a-copy", "sync": "/docs/keep-a-copy", "webhooks": "/docs/faq",
		"changes since yesterday": "/docs/changes", "pagination": "/docs/filters", "sort order": "/docs/filters",
		"filter by province": "/docs/filters", "checked_after": "/docs/reference/listOpportunities",
		"freshUntil": "/docs/data", "stale": "/docs/data", "why is a value null?": "/docs/data",
		"what does unverified mean": "/docs/data", "may I redistribute the data": "/terms",
		"May I show records to my users?": "/docs/data",
		"personal data":                   "/privacy", "cookies": "/privacy", "report a vulnerability": "/docs/support",
		"contact the operator": "/docs/support",
		"python":               "/sdk/", "install typescript": "/sdk/", "ChatGPT or Claude agent": "/docs/agents",
		"MCP":  "/docs/agents",
		"etag": "/docs/caching", "gzip compression": "/docs/caching", "verify a signature": "/docs/provable-history",
		"cancel my subscription": "/docs/free-to-paid", "upgrade": "/docs/free-to-paid", "deprecated": "/docs/versioning",
		"what changed in the last version": "/docs/changelog", "uptime": "/status",
		"robots.txt of my site":           "/docs/link-checker",
		"How do I send my first request?": "/docs/quickstart", "example of a record": "/docs/example-record",
		"retrying after an outage": "/docs/requests",
	} {
		var found []string
		for _, match := range first.FindAllStringSubmatch(get(t, site,
			"/docs/search?q="+url.QueryEscape(question)).Body.String(), 3) {
			found = append(found, match[1])
		}
		assert.Contains(t, found, want, question)
	}
}

func FuzzSearch(f *testing.F) {
	site, err := docsite.New(publicURL, docsite.Operator{})
	require.NoError(f, err)
	f.Add("key é")
	f.Fuzz(func(t *testing.T, query string) {
		page := get(t, site, "/docs/search?q="+url.QueryEscape(query)).Body.String()
		require.True(t, utf8.ValidString(page))
	})
}

// Crawlers find every page, and every page states its address and what it is about.
func TestCrawlersFindEveryPage(t *testing.T) {
	site := newSite(t)
	require.Contains(t, get(t, site, "/robots.txt").Body.String(), "Sitemap: "+publicURL+"/sitemap.xml\n")
	var sitemap struct {
		URLs []string `xml:"url>loc"`
	}
	require.NoError(t, xml.Unmarshal(get(t, site, "/sitemap.xml").Body.Bytes(), &sitemap))
	require.Greater(t, len(sitemap.URLs), len(pages.Pages))
	described := map[string]string{}
	for _, url := range sitemap.URLs {
		page := get(t, site, strings.TrimPrefix(url, publicURL)).Body.String()
		require.Contains(t, page, `<link rel="canonical" href="`+url+`">`)
		description := regexp.MustCompile(`<meta name="description" content="([^"]{50,170})">`).FindStringSubmatch(page)
		require.NotNil(t, description, url)
		require.Empty(t, described[description[1]], "%s has the description of another page", url)
		described[description[1]] = url
	}
	list := get(t, site, "/llms.txt").Body.String()
	links := regexp.MustCompile(`\]\(`+publicURL+`([^)]*)\): `).FindAllStringSubmatch(list, -1)
	require.Greater(t, len(links), len(pages.Pages))
	for _, link := range links {
		get(t, site, link[1])
	}
}

// The SDKs are served with their media types, and the page has commands with the address of the
// installation.
func TestSDKs(t *testing.T) {
	site := newSite(t)
	page := plainly(t, site, "/sdk/")
	require.Equal(t, page, plainly(t, site, "/sdk"))
	require.Contains(t, page, "npm install "+publicURL+"/sdk/"+sdk.Tarball+"\n")
	require.Contains(t, page, "pip install "+publicURL+"/sdk/"+sdk.Wheel+"\n")
	require.Contains(t, page, `GOPROXY=&#34;`+publicURL+`/sdk/go,`)

	archives, err := sdk.Archives()
	require.NoError(t, err)
	for name, want := range archives {
		served := get(t, site, "/sdk/"+name)
		require.Equal(t, want, served.Body.Bytes(), name)
		require.NotEqual(t, "text/html; charset=utf-8", served.Header().Get("Content-Type"), name)
	}
	require.Equal(t, "application/gzip", get(t, site, "/sdk/"+sdk.Tarball).Header().Get("Content-Type"))
	require.False(t, has(site, "/sdk/go/example.com/other/@v/list"), "go asks the next proxy about other modules")
}
