package accountpages

import (
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/people"
)

// Visit is a request to a handler.
type Visit struct {
	*gin.Context

	Person  people.Person  // zero if access is open
	Session people.Session // zero if access is open
	Now     time.Time

	kit *pages.Kit
}

const (
	sessionCookie = "__Host-session"
	deviceCookie  = "__Host-device" // a browser that has signed in before
)

// deviceLife is the maximum cookie lifetime of browsers.
const deviceLife = 400 * 24 * time.Hour

// Client describes the browser.
func (v *Visit) Client() people.Client { return people.ClientOf(v.Request.UserAgent(), v.Address()) }

// Address returns the browser's IP address, as reported by the gateway.
func (v *Visit) Address() string { return v.GetHeader(api.ClientHeader) }

// SessionSecret returns the secret of the browser's session, or an empty string.
func (v *Visit) SessionSecret() string { return pages.Cookie(v.Request, sessionCookie) }

// DeviceSecret returns the secret of a browser that has signed in before, or an empty string.
func (v *Visit) DeviceSecret() string { return pages.Cookie(v.Request, deviceCookie) }

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
		v.kit.SetCookie(v.Writer, deviceCookie, a.Device, deviceLife)
	}
}

// Renew sets the session cookie to the session's new secret.
func (v *Visit) Renew(secret string) { v.kit.SetCookie(v.Writer, sessionCookie, secret, 0) }

// Forget deletes the session cookie.
func (v *Visit) Forget() { v.kit.SetCookie(v.Writer, sessionCookie, "", -time.Second) }

// Next returns the page to continue to, from the query or the form, or the home page.
func (v *Visit) Next() string {
	to := v.PostForm("next")
	if to == "" {
		to = v.Query("next")
	}
	if !v.kit.Own(to) {
		return homePath
	}
	return to
}

// Onward returns the page to continue to, for a form or a link; empty for the home page.
func (v *Visit) Onward() string {
	if next := v.Next(); next != homePath {
		return next
	}
	return ""
}
