package pages

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"
)

// noticeCookie has the notice for the next page. The prefix ensures that only this host can set it,
// over HTTPS or on this machine.
const noticeCookie = "__Host-notice"

// Cookie returns the value of a cookie, or an empty string.
func Cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// SetCookie sets a cookie for this host: a session cookie if life is 0. A negative life deletes it.
// name must start with __Host-.
func (k *Kit) SetCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // SameSite is Lax or Strict
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: k.Cookies,
		MaxAge: int(life / time.Second),
	})
}

func (k *Kit) leaveNotice(w http.ResponseWriter, text string) {
	k.SetCookie(w, noticeCookie, base64.RawURLEncoding.EncodeToString([]byte(text)), time.Minute)
}

func (k *Kit) takeNotice(w http.ResponseWriter, r *http.Request) string {
	value := Cookie(r, noticeCookie)
	if value == "" {
		return ""
	}
	k.SetCookie(w, noticeCookie, "", -time.Second)
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// Under reports whether path belongs to the site.
func (k *Kit) Under(path string) bool {
	return path == k.Root || strings.HasPrefix(path, k.Root+"/")
}

// Own reports whether target leads to a page of the site, however browsers interpret unusual
// characters.
func (k *Kit) Own(target string) bool {
	if strings.ContainsFunc(target, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return false
	}
	u, err := url.Parse(target)
	return err == nil && u.Scheme == "" && u.Host == "" && u.User == nil && u.Opaque == "" && u.Fragment == "" &&
		k.Under(u.Path) && path.Clean(u.Path) == u.Path
}

// WithNext adds next, the page to continue to, to the query of a path. It returns the path alone if
// next is empty.
func WithNext(path, next string) string {
	if next == "" {
		return path
	}
	return path + "?" + url.Values{"next": {next}}.Encode()
}
