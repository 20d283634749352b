package authquota_test

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/people/session"
)

// browser is a browser without JavaScript behind the gateway. It keeps cookies, submits forms and follows no redirects.
type browser struct {
	svc     *service
	address string // IP address
	agent   string
	cookies map[string]string
	jar     *sync.Mutex // guards cookies, which copies of the browser share, like tabs

	email    string
	account  string
	password string   // set by signUp
	seed     string   // of the authenticator
	codes    []string // recovery codes
}

func (s *service) browser() *browser {
	return &browser{svc: s, address: "203.0.113.7", agent: "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", cookies: map[string]string{}, jar: new(sync.Mutex)}
}

// page is a response to a browser.
type page struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

func (b *browser) get(path string) page { return b.send(http.MethodGet, path, nil, nil) }

// post submits a form as if from one of our own pages.
func (b *browser) post(path string, fields ...string) page {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.send(http.MethodPost, path, form, http.Header{"Origin": {"https://api.example"}, "Sec-Fetch-Site": {"same-origin"}})
}

func (b *browser) send(method, path string, form url.Values, header http.Header) page {
	t := b.svc.t
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, b.svc.base+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set(api.ClientHeader, b.address)
	req.Header.Set("User-Agent", b.agent)
	b.jar.Lock()
	for name, value := range b.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	b.jar.Unlock()
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	b.jar.Lock()
	defer b.jar.Unlock()
	for _, c := range resp.Cookies() {
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return page{t, resp.StatusCode, resp.Header, string(body)}
}

// shows requires a page with this status and these texts.
func (p page) shows(status int, words ...string) page {
	p.t.Helper()
	require.Equal(p.t, status, p.status, "%s", p.text())
	require.Equal(p.t, "text/html; charset=utf-8", p.header.Get("Content-Type"))
	text := p.text()
	for _, w := range words {
		require.Contains(p.t, text, w)
	}
	return p
}

// leads requires a redirect to path.
func (p page) leads(path string) page {
	p.t.Helper()
	require.Equal(p.t, http.StatusSeeOther, p.status, "%s", p.text())
	require.Equal(p.t, path, p.header.Get("Location"))
	return p
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// text returns the visible text.
func (p page) text() string {
	return spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(p.body, " ")), " ")
}

// signIn creates an account with an authenticator and signs the browser in.
func (b *browser) signIn(email string) {
	t := b.svc.t
	t.Helper()
	db := b.svc.open(t)
	now := time.Now().UTC()
	if b.svc.now != nil {
		now = b.svc.now()
	}
	b.email, b.account = email, account.NewID()
	s, secret := session.New(b.account, session.Full, session.Life, session.Client{Agent: "Firefox on Linux", Network: "203.0.113.0/24"}, now)
	at := database.Micros(now)
	require.NoError(t, db.Exec("INSERT INTO accounts (id, tier, created_at) VALUES (?, 'free', ?)", b.account, at).Error)
	require.NoError(t, db.Exec("INSERT INTO people (account_id, email, password_hash, totp_confirmed_at, created_at) VALUES (?, ?, 'none', ?, ?)",
		b.account, email, at, at).Error)
	require.NoError(t, db.Exec(`INSERT INTO sessions (id, token_hash, account_id, stage, created_at, seen_at, authenticated_at, expires_at, agent, network)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, s.ID, session.Hash(secret), s.Account, s.Stage, at, at, at,
		database.Micros(s.ExpiresAt), s.Client.Agent, s.Client.Network).Error)
	b.cookies["__Host-session"] = secret
}
