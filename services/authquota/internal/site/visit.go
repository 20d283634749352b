package site

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
	"opportunity.internal/services/authquota/internal/people"
)

// Visit is a request to a handler.
type Visit struct {
	*gin.Context

	Person  people.Person  // zero if access is open
	Session people.Session // zero if access is open
	Now     time.Time
}

// The prefix ensures that only this host can set the cookie, over HTTPS or on this machine.
const (
	sessionCookie = "__Host-session"
	deviceCookie  = "__Host-device" // a browser that has signed in before
	noticeCookie  = "__Host-notice"
)

// deviceLife is the maximum cookie lifetime of browsers.
const deviceLife = 400 * 24 * time.Hour

// Client describes the browser.
func (v *Visit) Client() people.Client { return people.ClientOf(v.Request.UserAgent(), v.Address()) }

// Address returns the browser's IP address, as reported by the gateway.
func (v *Visit) Address() string { return v.GetHeader(api.ClientHeader) }

// SessionSecret returns the secret of the browser's session, or an empty string.
func (v *Visit) SessionSecret() string { return v.cookie(sessionCookie) }

// DeviceSecret returns the secret of a browser that has signed in before, or an empty string.
func (v *Visit) DeviceSecret() string { return v.cookie(deviceCookie) }

// Entry returns the browser for signing in.
func (v *Visit) Entry() people.Entry {
	return people.Entry{Before: v.SessionSecret(), Device: v.DeviceSecret(), Client: v.Client()}
}

// Admit sets the browser's new cookies.
func (v *Visit) Admit(a people.Admitted) {
	if a.Session != "" {
		v.Renew(a.Session)
	}
	if a.Device != "" {
		v.setCookie(deviceCookie, a.Device, deviceLife)
	}
}

// Renew sets the session cookie to the session's new secret.
func (v *Visit) Renew(secret string) { v.setCookie(sessionCookie, secret, 0) }

// Forget deletes the session cookie.
func (v *Visit) Forget() { v.setCookie(sessionCookie, "", -time.Second) }

func (v *Visit) cookie(name string) string {
	c, err := v.Request.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets a cookie: a session cookie if life is 0. A negative life deletes it.
func (v *Visit) setCookie(name, value string, life time.Duration) {
	http.SetCookie(v.Writer, &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(life / time.Second),
	})
}

// Next returns the page to continue to, from the query or the form, or the home page.
func (v *Visit) Next() string {
	to := v.PostForm("next")
	if to == "" {
		to = v.Query("next")
	}
	if !ownPath(to) {
		return Home
	}
	return to
}

// Onward returns the page to continue to, for a form or a link; empty for the home page.
func (v *Visit) Onward() string {
	if next := v.Next(); next != Home {
		return next
	}
	return ""
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

// WithNext adds next to the query of a path. It returns the path alone if next is empty.
func WithNext(path, next string) string {
	if next == "" {
		return path
	}
	return path + "?" + url.Values{"next": {next}}.Encode()
}

// notice returns the notice left by the previous page and removes it.
func (v *Visit) notice() string {
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

func (v *Visit) leaveNotice(text string) {
	v.setCookie(noticeCookie, base64.RawURLEncoding.EncodeToString([]byte(text)), time.Minute)
}
