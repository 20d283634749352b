package e2e

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the algorithm of authenticator apps
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// person is a user of the account pages, with a browser.
type person struct {
	t               testing.TB
	s               *stack
	email, password string
	codes           []string // recovery codes
	cookies         map[string]string
}

var (
	seedOnPage  = regexp.MustCompile(`<code class="secret">([^<]+)</code>`)
	tokenOnPage = regexp.MustCompile(`name="token" value="([^"]+)"`)
	codesOnPage = regexp.MustCompile(`<li><code>([^<]+)</code></li>`)
)

// signUp creates an account with an authenticator and recovery codes.
func (s *stack) signUp(t testing.TB, email string) *person {
	t.Helper()
	p := &person{t: t, s: s, email: email, password: "seventeen-quiet-bicycles-sing", cookies: map[string]string{}}
	p.post(http.StatusSeeOther, "/account/sign-up", "email", email)
	p.post(http.StatusSeeOther, "/account/confirm", "token", p.token(p.link("confirm-address")), "password", p.password)
	seed := seedOnPage.FindStringSubmatch(p.get(http.StatusOK, "/account/authenticator"))
	require.NotNil(t, seed)
	done := p.post(http.StatusOK, "/account/authenticator", "code",
		totp(t, strings.ReplaceAll(seed[1], " ", ""), time.Now()))
	for _, code := range codesOnPage.FindAllStringSubmatch(done, -1) {
		p.codes = append(p.codes, code[1])
	}
	require.NotEmpty(t, p.codes)
	return p
}

// link returns the path of the link in the newest mail of a kind to the person.
func (p *person) link(template string) (link string) {
	p.t.Helper()
	eventually(p.t, "the mail "+template+" arrives", func() bool {
		files, err := filepath.Glob(filepath.Join(p.s.mail, "*-"+template+"-*.eml"))
		require.NoError(p.t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(p.t, err)
			plain := strings.NewReplacer("=\r\n", "", "=\n", "", "=3D", "=").Replace(string(text))
			if _, after, ok := strings.Cut(plain, p.s.publicURL+"/account/"); ok && strings.Contains(plain, p.email) {
				link, _, _ = strings.Cut(strings.ReplaceAll(after, "\r", "\n"), "\n")
				link = "/account/" + strings.TrimSpace(link)
			}
		}
		return link != ""
	})
	return link
}

// token returns the token in the form of the page behind a link.
func (p *person) token(link string) string {
	p.t.Helper()
	token := tokenOnPage.FindStringSubmatch(p.get(http.StatusOK, link))
	require.NotNil(p.t, token)
	return token[1]
}

// signIn takes both steps of signing in, with a recovery code, in a new browser.
func (p *person) signIn(status int, code string) {
	p.t.Helper()
	p.cookies = map[string]string{}
	p.post(http.StatusSeeOther, "/account/sign-in", "email", p.email, "password", p.password)
	p.post(status, "/account/sign-in/code", "code", code)
}

func (p *person) get(status int, path string) string {
	p.t.Helper()
	return p.send(status, call{path: path, header: map[string]string{}})
}

// post submits a form. fields are pairs of names and values.
func (p *person) post(status int, path string, fields ...string) string {
	p.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return p.send(status, call{method: http.MethodPost, path: path, body: strings.NewReader(form.Encode()),
		header: map[string]string{
			"Content-Type": "application/x-www-form-urlencoded", "Origin": p.s.publicURL, "Sec-Fetch-Site": "same-origin",
		}})
}

// send sends the cookies of the browser and saves those of the response, although they are for
// HTTPS.
func (p *person) send(status int, c call) string {
	p.t.Helper()
	var cookies []string
	for name, value := range p.cookies {
		cookies = append(cookies, name+"="+value)
	}
	c.header["Cookie"] = strings.Join(cookies, "; ")
	a := do(p.t, p.s.url, c)
	require.Equal(p.t, status, a.StatusCode, "%s: %s", c.path, a.body)
	for _, cookie := range a.Cookies() {
		p.cookies[cookie.Name] = cookie.Value
	}
	return string(a.body)
}

// totp returns the code that an authenticator app shows at a time.
func totp(t testing.TB, seed string, at time.Time) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.TrimRight(strings.ToUpper(seed),
		"="))
	require.NoError(t, err)
	mac := hmac.New(sha1.New, key)
	require.NoError(t, binary.Write(mac, binary.BigEndian, at.Unix()/30))
	sum := mac.Sum(nil)
	number := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&15:]) & (1<<31 - 1)
	return fmt.Sprintf("%06d", number%1_000_000)
}
