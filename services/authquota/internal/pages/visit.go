package pages

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/session"
)

// visit is what a handler gets.
type visit struct {
	*gin.Context

	Person  account.Person  // zero where the page is open
	Session session.Session // zero where the page is open
	now     time.Time
}

// Only this host's own pages, over HTTPS or on this machine, can set a cookie with this prefix.
const (
	sessionCookie = "__Host-session"
	deviceCookie  = "__Host-device" // a browser that has signed in before
	noticeCookie  = "__Host-notice"
)

const maxForm = 64 << 10 // bytes; far above what any form needs

// client describes the browser.
func (v *visit) client() session.Client { return session.Of(v.Request.UserAgent(), v.address()) }

// address is where the browser calls from, as the gateway found it.
func (v *visit) address() string { return v.GetHeader(api.ClientHeader) }

func (v *visit) cookie(name string) string {
	c, err := v.Request.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie keeps a secret in the browser: until it is closed where life is 0, not at all where life is negative.
func (v *visit) setCookie(name, value string, life time.Duration) {
	http.SetCookie(v.Writer, &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(life / time.Second),
	})
}

// forget takes the session from the browser.
func (v *visit) forget() { v.setCookie(sessionCookie, "", -time.Second) }

// next is where the person was going, as the query or the form says, or the first page.
func (v *visit) next() string {
	to := v.PostForm("next")
	if to == "" {
		to = v.Query("next")
	}
	if !ownPath(to) {
		return home
	}
	return to
}

// ownPath reports whether a browser that is sent to target stays within the pages, however it reads odd characters.
func ownPath(target string) bool {
	if strings.ContainsFunc(target, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return false
	}
	u, err := url.Parse(target)
	return err == nil && u.Scheme == "" && u.Host == "" && u.User == nil && u.Opaque == "" && u.Fragment == "" &&
		Under(u.Path) && path.Clean(u.Path) == u.Path
}

// with is a path with a query of names and values in turn; pairs without a value are left out.
func with(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// full reports whether the person has proven both factors.
func (v *visit) full() bool {
	return v.Session.Stage == session.Full && v.Person.AuthenticatorConfirmed
}

// enter finds out who visits, and where else the visit must go first.
func (s *Site) enter(v *visit, level access) (elsewhere string, err error) {
	if level == open {
		return "", nil
	}
	back := s.back(v)
	if back == home || level == halfway {
		back = "" // everybody ends up at home anyway, and nobody comes back to a step of signing in
	}
	secret := v.cookie(sessionCookie)
	if secret == "" {
		return with("/account/sign-in", "next", back), nil
	}
	v.Session, v.Person, err = s.Sessions.Session(v.Request.Context(), secret)
	if problem.Of(err).Code == problem.NotFound { // the cookie stays: the browser may have got another one in the meantime
		return with("/account/sign-in", "next", back), nil
	}
	if err != nil {
		return "", err
	}
	switch full := v.full(); {
	case level == halfway && full:
		return home, nil
	case level == halfway || full && (level == signedIn || v.Session.Recent(v.now)):
		return "", nil
	case full:
		return with("/account/security/confirm", "next", back), nil
	case v.Person.AuthenticatorConfirmed:
		return with("/account/sign-in/code", "next", back), nil
	}
	return "/account/authenticator", nil
}

// back is where to go on once the person has proven who they are: the page that was asked for or, as a form cannot be sent again,
// the one that the form stands on: at its own path, or at the nearest above that can be opened.
func (s *Site) back(v *visit) string {
	if v.Request.Method == http.MethodGet || v.Request.Method == http.MethodHead {
		return v.Request.URL.RequestURI()
	}
	at, pattern := v.Request.URL.Path, v.FullPath()
	for at != home && !s.opens[pattern] {
		at, pattern = path.Dir(at), path.Dir(pattern)
	}
	return at
}

// notice takes what the page before left to be said once.
func (v *visit) notice() string {
	value := v.cookie(noticeCookie)
	if value == "" {
		return ""
	}
	v.setCookie(noticeCookie, "", -time.Second)
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return ""
	}
	return string(text)
}

func (v *visit) leaveNotice(text string) {
	v.setCookie(noticeCookie, base64.RawURLEncoding.EncodeToString([]byte(text)), time.Minute)
}
