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

// visit is a request to a handler.
type visit struct {
	*gin.Context

	Person  account.Person  // zero if access is open
	Session session.Session // zero if access is open
	now     time.Time
}

// The prefix ensures that only this host can set the cookie, over HTTPS or on this machine.
const (
	sessionCookie = "__Host-session"
	deviceCookie  = "__Host-device" // a browser that has signed in before
	noticeCookie  = "__Host-notice"
)

const maxForm = 64 << 10 // bytes; far above what any form needs

// client describes the browser.
func (v *visit) client() session.Client { return session.Of(v.Request.UserAgent(), v.address()) }

// address returns the browser's IP address, as reported by the gateway.
func (v *visit) address() string { return v.GetHeader(api.ClientHeader) }

func (v *visit) cookie(name string) string {
	c, err := v.Request.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets a cookie: a session cookie if life is 0. A negative life deletes it.
func (v *visit) setCookie(name, value string, life time.Duration) {
	http.SetCookie(v.Writer, &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(life / time.Second),
	})
}

// forget deletes the session cookie.
func (v *visit) forget() { v.setCookie(sessionCookie, "", -time.Second) }

// next returns the page to continue to, from the query or the form, or the home page.
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

// ownPath reports whether target leads to one of the pages, however browsers interpret unusual characters.
func ownPath(target string) bool {
	if strings.ContainsFunc(target, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return false
	}
	u, err := url.Parse(target)
	return err == nil && u.Scheme == "" && u.Host == "" && u.User == nil && u.Opaque == "" && u.Fragment == "" &&
		Under(u.Path) && path.Clean(u.Path) == u.Path
}

// with adds a query to a path, from pairs of names and values. It omits empty values.
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

// enter identifies the visitor and returns where to redirect first, if anywhere.
func (s *Site) enter(v *visit, level access) (elsewhere string, err error) {
	if level == open {
		return "", nil
	}
	back := s.back(v)
	if back == home || level == halfway {
		back = "" // home is the default, and a step of signing in cannot be resumed
	}
	secret := v.cookie(sessionCookie)
	if secret == "" {
		return with("/account/sign-in", "next", back), nil
	}
	v.Session, v.Person, err = s.Sessions.Session(v.Request.Context(), secret)
	if problem.Of(err).Code == problem.NotFound { // keep the cookie, because the browser may have a newer one by now
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

// back returns the page to continue to after proving a factor: the requested page or, because a form cannot be submitted again,
// the page with the form: at the same path or at the closest parent that can be opened.
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

// notice returns the notice left by the previous page and removes it.
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
