package authquota_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
)

// startWithClock runs the service with a clock that only the test moves.
func (s *stores) startWithClock(t *testing.T, adjust ...func(*authquota.Config)) (*service, *clock) {
	t.Helper()
	c := clockAt(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	svc := s.start(t, append(adjust, func(cfg *authquota.Config) { cfg.Now = c.Now })...)
	svc.now = c.Now
	return svc, c
}

const goodPassword = "ploughing-under-seven-lanterns"

// mail waits for the n-th mail of a template to an address, counted from 1, and returns it.
func (s *service) mail(to, template string, n int) received {
	s.t.Helper()
	var found []received
	storetest.Eventually(s.t, "mail "+template, func() bool {
		found = nil
		for _, m := range s.mails(s.t) {
			if m.address == to && strings.Contains(m.name, "Z-"+template+"-") {
				found = append(found, m)
			}
		}
		return len(found) >= n
	})
	return found[n-1]
}

var links = regexp.MustCompile(`https://api\.example(/account/[^\s")]+)`)

// links returns the paths in a mail.
func (m received) links() (paths []string) {
	for _, l := range links.FindAllStringSubmatch(m.plain, -1) {
		paths = append(paths, l[1])
	}
	return paths
}

var (
	seeds  = regexp.MustCompile(`<code class="secret">([^<]+)</code>`)
	codes  = regexp.MustCompile(`<li><code>([^<]+)</code></li>`)
	tokens = regexp.MustCompile(`name="token" value="([^"]+)"`)
)

// token returns the hidden token of a form.
func (p page) token() string {
	p.t.Helper()
	found := tokens.FindStringSubmatch(p.body)
	require.NotNil(p.t, found, "%s", p.body)
	return html.UnescapeString(found[1])
}

// askFor submits an address to a page and returns the link sent by mail.
func (b *browser) askFor(path, email, template string, n int) string {
	b.svc.t.Helper()
	require.Equal(b.svc.t, http.StatusSeeOther, b.post(path, "email", email).status)
	return b.svc.mail(email, template, n).links()[0]
}

// signUp completes signing up: the address, the link in the mail, the password, the authenticator and the recovery codes.
func (b *browser) signUp(email string) {
	t := b.svc.t
	t.Helper()
	b.confirm(b.askFor("/account/sign-up", email, "confirm-address", 1))
	b.email, b.password = email, goodPassword
	b.seed = b.get("/account/authenticator").shows(http.StatusOK, "Set up an authenticator").seed()
	p := b.post("/account/authenticator", "code", b.code()).shows(http.StatusOK, "Your recovery codes")
	for _, c := range codes.FindAllStringSubmatch(p.body, -1) {
		b.codes = append(b.codes, c[1])
	}
	require.Len(t, b.codes, 10)
	require.NoError(t, b.svc.open(t).Raw("SELECT account_id FROM people WHERE email = ?", email).Scan(&b.account).Error)
}

// confirm follows the link of a mail and chooses the password.
func (b *browser) confirm(link string) {
	b.svc.t.Helper()
	form := b.get(link).shows(http.StatusOK, "Choose a password")
	b.post("/account/confirm", "token", form.token(), "password", goodPassword).leads("/account/authenticator")
}

func (p page) seed() string {
	p.t.Helper()
	found := seeds.FindStringSubmatch(p.body)
	require.NotNil(p.t, found, "%s", p.body)
	return strings.ReplaceAll(found[1], " ", "")
}

// code returns the current code of the authenticator.
func (b *browser) code() string {
	b.svc.t.Helper()
	now := time.Now()
	if b.svc.now != nil {
		now = b.svc.now()
	}
	code, err := totp.GenerateCode(b.seed, now)
	require.NoError(b.svc.t, err)
	return code
}

// wrongCode returns a code that is not valid now nor within a minute.
func (b *browser) wrongCode() string {
	b.svc.t.Helper()
	for _, candidate := range []string{"000000", "111111", "222222", "333333"} {
		right := false
		for _, d := range []time.Duration{-time.Minute, -30 * time.Second, 0, 30 * time.Second, time.Minute} {
			code, err := totp.GenerateCode(b.seed, b.svc.now().Add(d))
			require.NoError(b.svc.t, err)
			right = right || code == candidate
		}
		if !right {
			return candidate
		}
	}
	panic("unreachable: five codes cannot be four others")
}

// enterPassword takes the first step of signing in.
func (b *browser) enterPassword() page {
	b.svc.t.Helper()
	return b.post("/account/sign-in", "email", b.email, "password", b.password)
}

// other returns another, unknown browser of the same person.
func (b *browser) other() *browser {
	o := *b
	o.cookies, o.jar = map[string]string{}, new(sync.Mutex)
	return &o
}
