// Package testkit provides what tests of authquota need: a DB on either database with a clock, the
// Box of its secrets and readers of its mails and audit log; a Person with a Browser behind the
// gateway, an authenticator and a SecurityKey; and an SMTPServer. It imports the features, so their
// tests are in packages of their own. Package sitekit runs the service with these parts.
package testkit

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// Browser is a browser behind the gateway. It keeps cookies, submits forms and follows no
// redirects. It is for one goroutine.
type Browser struct {
	Address string // IP address
	Agent   string
	Cookies map[string]string

	t    testing.TB
	base string
}

// VisitURL returns a browser whose requests go to a service.
func VisitURL(t testing.TB, base string) *Browser {
	return &Browser{
		Address: "203.0.113.7", Agent: "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", Cookies: map[string]string{}, t: t,
		base: base,
	}
}

// Other returns a browser without cookies, with the same address and agent.
func (b *Browser) Other() *Browser {
	other := *b
	other.Cookies = map[string]string{}
	return &other
}

// Get visits a page.
func (b *Browser) Get(path string) Page {
	b.t.Helper()
	return b.Send(http.MethodGet, path, nil, nil)
}

// Post submits a form as if from one of our own pages. fields are pairs of names and values.
func (b *Browser) Post(path string, fields ...string) Page {
	b.t.Helper()
	form := url.Values{}
	for pair := range slices.Chunk(fields, 2) {
		form.Add(pair[0], pair[1])
	}
	return b.Send(http.MethodPost, path, form, http.Header{"Origin": {PublicURL}, "Sec-Fetch-Site": {"same-origin"}})
}

// Send sends a request as the gateway does. A nil form sends none.
func (b *Browser) Send(method, path string, form url.Values, header http.Header) Page {
	b.t.Helper()
	kind := ""
	if form != nil {
		kind = "application/x-www-form-urlencoded"
	}
	return b.send(method, path, kind, form.Encode(), header)
}

// SendJSON posts a JSON value as the gateway does.
func (b *Browser) SendJSON(path string, value []byte, header http.Header) Page {
	b.t.Helper()
	return b.send(http.MethodPost, path, "application/json", string(value), header)
}

func (b *Browser) send(method, path, kind, body string, header http.Header) Page {
	b.t.Helper()
	r := storetest.Must(http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body)))(b.t)
	r.Header = http.Header{
		"Authorization": {"Bearer " + servicetest.Token(peer.Gateway)},
		http.CanonicalHeaderKey(api.ClientHeader): {b.Address}, "User-Agent": {b.Agent},
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value}) //nolint:gosec // a request has no cookie attributes
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(b.t, err)
	defer response.Body.Close()
	read := storetest.Must(io.ReadAll(response.Body))(b.t)
	for _, c := range response.Cookies() {
		b.Cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.Cookies, c.Name)
		}
	}
	return Page{b.t, response.StatusCode, response.Header, string(read)}
}

// Page is a response.
type Page struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   string
}

// Shows requires a page with this status and these texts.
func (p Page) Shows(status int, words ...string) Page {
	p.t.Helper()
	require.Equal(p.t, status, p.Status, "%s", p.Text())
	require.Equal(p.t, "text/html; charset=utf-8", p.Header.Get("Content-Type"))
	text := p.Text()
	for _, w := range words {
		require.Contains(p.t, text, w)
	}
	return p
}

// Lacks requires that the page has none of these texts, visible or not. One with a "<" is HTML:
// what a visitor sees may have it.
func (p Page) Lacks(texts ...string) Page {
	p.t.Helper()
	for _, text := range texts {
		require.NotContains(p.t, p.Body, text)
		if !strings.Contains(text, "<") {
			require.NotContains(p.t, p.Text(), text)
		}
	}
	return p
}

// Markup requires that the page has these parts of HTML.
func (p Page) Markup(parts ...string) Page {
	p.t.Helper()
	for _, part := range parts {
		require.Contains(p.t, p.Body, part)
	}
	return p
}

// Leads requires a redirect to target.
func (p Page) Leads(target string) Page {
	p.t.Helper()
	require.Equal(p.t, http.StatusSeeOther, p.Status, "%s", p.Text())
	require.Equal(p.t, target, p.Header.Get("Location"))
	return p
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	bdi    = strings.NewReplacer("<bdi>", "", "</bdi>", "") // part of a line
	spaces = regexp.MustCompile(`\s+`)
)

// Text returns the visible text.
func (p Page) Text() string {
	return spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(bdi.Replace(p.Body), " ")), " ")
}

// Find returns the first group of the first match of a pattern, without HTML escapes. The page must
// have one.
func (p Page) Find(pattern *regexp.Regexp) string {
	p.t.Helper()
	found := pattern.FindStringSubmatch(p.Body)
	require.NotNil(p.t, found, "no %s in %s", pattern, p.Body)
	return html.UnescapeString(found[1])
}

// Has reports whether the body contains text.
func (p Page) Has(text string) bool { return strings.Contains(p.Body, text) }
