package desk

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// signInForm is the data of the sign-in page.
type signInForm struct {
	Next, Name string
	Once       bool   // a one-time code was used or has expired
	Code       string // a valid one-time code; the page has a button instead of the form then
}

func signInPage(status int, next string, wrong ...string) view {
	response := view{Template: "sign-in", Title: "Sign in", Status: status, Data: signInForm{Next: next}}
	for _, message := range wrong {
		response = response.Wrong("", message)
	}
	return response
}

func (d *Desk) showSignIn(v *visit) (view, error) {
	return signInPage(0, d.nextPage(v)), nil
}

// nextPage returns the page to continue to after signing in.
func (d *Desk) nextPage(v *visit) string {
	if to := v.FormValue("next"); to != "" && d.kit.Own(to) {
		return to
	}
	return "/" // the first page that the role can use
}

func (d *Desk) forget(v *visit) { d.kit.SetCookie(v.w, sessionCookie, "", -time.Second) }

func (d *Desk) signInWithToken(v *visit) (view, error) {
	token, name := strings.TrimSpace(v.PostFormValue("token")), strings.TrimSpace(v.PostFormValue("name"))
	if token == "" || len(token) > maxToken || len(name) > maxName {
		return signInPage(http.StatusUnprocessableEntity, d.nextPage(v), "Enter your operator token."), nil
	}
	err := d.start(v, token, name)
	if errors.Is(err, errNoName) {
		return signInPage(http.StatusUnprocessableEntity, d.nextPage(v),
			"Enter your name: this operator token is shared."), nil
	}
	if rejected := new(adminapi.RequestError); errors.As(err, &rejected) && rejected.Status == http.StatusUnauthorized {
		d.Log.LogAttrs(v.Context(), slog.LevelWarn, "desk sign-in failed: unknown operator token",
			slog.String("address", v.RemoteAddr)) // of the browser, or of a proxy in front of the desk
		if wait := d.throttle.Fail(token, v.now); wait > 0 {
			return signInPage(0, d.nextPage(v)).TooMany(wait), nil
		}
		return signInPage(http.StatusUnauthorized, d.nextPage(v),
			"This operator token is not valid. Check that you copied all of it."), nil
	}
	if err != nil {
		return view{}, err
	}
	return view{Redirect: d.nextPage(v)}, nil
}

const (
	maxToken = 1024 // bytes; the sealed token must fit into a cookie
	maxName  = 100
)

// errNoName is the error of start for a token without a name, and no name of a person.
var errNoName = errors.New("no name of a person")

// start starts a session. The gateway's name for the token takes precedence over actor.
func (d *Desk) start(v *visit, token, actor string) error {
	me, _, err := adminapi.GetMe.Call(v.Context(), d.client(token, actor), adminapi.Input{})
	if err != nil {
		return err
	}
	if me.Name == api.SharedOperator {
		return errNoName
	}
	d.kit.SetCookie(v.w, sessionCookie, d.sessions.Start(token, me.Name, string(me.Role), v.UserAgent()), sessionLife)
	d.Log.LogAttrs(v.Context(), slog.LevelInfo, "desk sign-in", slog.String("actor", me.Name),
		slog.String("role", string(me.Role)))
	return nil
}

// showOnce asks for a click before it uses the one-time code, because previews of links open them
// too.
func (d *Desk) showOnce(v *visit) (view, error) {
	code := v.FormValue("code")
	if !d.code.Valid(code, v.now) {
		return view{Template: "sign-in", Title: "Sign in", Status: http.StatusGone, Data: signInForm{Once: true}}, nil
	}
	return view{Template: "sign-in", Title: "Sign in", Data: signInForm{Code: code, Name: d.Actor}}, nil
}

// signInOnce starts a session for the person at this machine.
func (d *Desk) signInOnce(v *visit) (view, error) {
	name := cmp.Or(d.Actor, strings.TrimSpace(v.PostFormValue("name")))
	if name == "" || len(name) > maxName || !d.code.Use(v.PostFormValue("code"), v.now) {
		return d.showOnce(v)
	}
	return view{Redirect: "/"}, d.start(v, d.Token, name)
}

func (d *Desk) signOut(v *visit) (view, error) {
	d.sessions.End(v.Session.ID)
	d.forget(v)
	return view{Redirect: "/sign-in"}, nil
}

func (d *Desk) showSessions(v *visit) (view, error) {
	return view{Template: "sessions", Title: "Sessions", Data: d.sessions.List(v.Session.Token)}, nil
}

func (d *Desk) endSession(v *visit) (view, error) {
	for _, s := range d.sessions.List(v.Session.Token) {
		if s.ID == v.PathValue("id") {
			d.sessions.End(s.ID)
		}
	}
	return view{Redirect: "/sessions", Notice: "The session has ended."}, nil
}

func (d *Desk) setKeys(v *visit) (view, error) {
	if v.PostFormValue("keys") == "off" {
		d.kit.SetCookie(v.w, keysCookie, "off", 365*24*time.Hour)
		return view{Redirect: "/help", Notice: "Keyboard shortcuts are off."}, nil
	}
	d.kit.SetCookie(v.w, keysCookie, "", -time.Second)
	return view{Redirect: "/help", Notice: "Keyboard shortcuts are on."}, nil
}

// codeLife is the lifetime of a one-time code.
const codeLife = 15 * time.Minute

// signInCode is a one-time code.
type signInCode struct {
	text    string
	expires time.Time
	used    atomic.Bool
}

func newSignInCode(now time.Time) *signInCode {
	return &signInCode{text: rand.Text(), expires: now.Add(codeLife)}
}

// Valid reports whether text is the code and can still be used.
func (c *signInCode) Valid(text string, now time.Time) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(c.text)) == 1 && now.Before(c.expires) && !c.used.Load()
}

// Use is like Valid, but returns true only once.
func (c *signInCode) Use(text string, now time.Time) bool {
	return c.Valid(text, now) && c.used.CompareAndSwap(false, true)
}

const (
	maxFailures = 10 // with one prefix in a period, before the throttle asks for a wait
	period      = time.Minute
	prefixSize  = 8 // bytes
)

// throttle counts failed sign-ins by the first characters of their token. The zero value is ready
// to use.
//
// It only slows down failures: a valid token is never counted, so failed attempts cannot lock out
// its holder, not even from the same address. Tokens have at least 32 characters, too many to
// guess.
type throttle struct {
	mu       sync.Mutex
	start    time.Time // of the period
	failures map[string]int
}

// Fail counts a failed attempt and returns how long to wait before the next one with this prefix, 0
// for the first ones of a period.
func (t *throttle) Fail(token string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.start) >= period { // this bounds the map
		t.start, t.failures = now, map[string]int{}
	}
	prefix := token[:min(len(token), prefixSize)]
	t.failures[prefix]++
	if t.failures[prefix] <= maxFailures {
		return 0
	}
	return period - now.Sub(t.start)
}
