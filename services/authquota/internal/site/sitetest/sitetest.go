// Package sitetest visits pages in tests, with a browser without JavaScript.
package sitetest

import (
	"bytes"
	"context"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/people/session"
	"opportunity.internal/services/authquota/internal/site"
)

// PublicURL is the public URL of the site.
const PublicURL = "https://api.example"

const token = "an internal token for tests of 32 or more"

// Site is a site whose session store has one person, signed in to the browser.
type Site struct {
	Now     time.Time
	Person  people.Person
	Current session.Session
	Outage  error // returned by the session store if not nil
	Cookies map[string]string

	t       testing.TB
	handler http.Handler
	log     bytes.Buffer
}

// Secret is the secret of the session.
const Secret = "the secret of the session"

// New returns a site at 10:00 on 20 November 2026 with the features that add returns.
func New(t testing.TB, add func(s *Site) []site.Feature) *Site {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	s := &Site{
		Now: now, t: t, Cookies: map[string]string{"__Host-session": Secret},
		Person: people.Person{
			Account: "acc_0199a7a0000070008000000000000000", Email: "ada@example.org", AuthenticatorConfirmed: true,
			Standing: account.Standing{Granted: api.BaseTier}, Tier: api.BaseTier,
		},
		Current: session.Session{ID: "ses_0199a7a0000070008000000000000000", Stage: session.Full, AuthenticatedAt: now},
	}
	pages, err := site.New(site.Config{
		Errors: problem.Writer{BaseURL: PublicURL, Log: s.Logger()}, Tokens: peer.Tokens{Values: []string{token}}, PublicURL: PublicURL,
		Now: func() time.Time { return s.Now }, Sessions: s,
	}, add(s)...)
	require.NoError(t, err)
	s.handler = pages.Handler()
	return s
}

// Session returns the session and the person for the secret of the browser.
func (s *Site) Session(_ context.Context, given string) (session.Session, people.Person, error) {
	switch {
	case s.Outage != nil:
		return session.Session{}, people.Person{}, s.Outage
	case given != Secret:
		return session.Session{}, people.Person{}, problem.New(problem.NotFound, "There is no such session.")
	}
	return s.Current, s.Person, nil
}

// Logger returns a logger that writes to Log.
func (s *Site) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(&s.log, nil)) }

// Log returns what was logged.
func (s *Site) Log() string { return s.log.String() }

// Get visits a page.
func (s *Site) Get(path string) Page { return s.Send(http.MethodGet, path, nil, nil) }

// Post submits a form as if from one of our own pages. fields are pairs of names and values.
func (s *Site) Post(path string, fields ...string) Page {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return s.Send(http.MethodPost, path, form, http.Header{"Origin": {PublicURL}, "Sec-Fetch-Site": {"same-origin"}})
}

// Send sends a request as the gateway does. A nil form sends none.
func (s *Site) Send(method, path string, form url.Values, header http.Header) Page {
	s.t.Helper()
	kind := ""
	if form != nil {
		kind = "application/x-www-form-urlencoded"
	}
	return s.send(method, path, kind, form.Encode(), header)
}

// SendJSON posts a JSON value as the gateway does.
func (s *Site) SendJSON(path string, value []byte, header http.Header) Page {
	s.t.Helper()
	return s.send(http.MethodPost, path, "application/json", string(value), header)
}

func (s *Site) send(method, path, kind, body string, header http.Header) Page {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	r.Header = http.Header{
		"Authorization": {"Bearer " + token}, http.CanonicalHeaderKey(api.ClientHeader): {"203.0.113.7"},
		"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"},
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for name, value := range s.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value}) //nolint:gosec // a request has no cookie attributes
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	response := w.Result()
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	for _, c := range response.Cookies() {
		s.Cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(s.Cookies, c.Name)
		}
	}
	return Page{s.t, response.StatusCode, response.Header, string(read)}
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

// Leads requires a redirect to target.
func (p Page) Leads(target string) Page {
	p.t.Helper()
	require.Equal(p.t, http.StatusSeeOther, p.Status, "%s", p.Text())
	require.Equal(p.t, target, p.Header.Get("Location"))
	return p
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// Text returns the visible text.
func (p Page) Text() string {
	return spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(p.Body, " ")), " ")
}
