package desk

import (
	"sync/atomic"
	"time"
)

// codeLife is the lifetime of a one-time code.
const codeLife = 15 * time.Minute

// signInCode is a one-time code: a sealed time of expiry.
type signInCode struct {
	sessions *sessionStore
	text     string
	used     atomic.Bool
}

func newSignInCode(sessions *sessionStore, now time.Time) *signInCode {
	expires, _ := now.Add(codeLife).MarshalText() // a year of four digits
	return &signInCode{sessions: sessions, text: sessions.Seal(expires)}
}

// Valid reports whether text is the code and can still be used.
func (c *signInCode) Valid(text string, now time.Time) bool {
	var expires time.Time
	content, own := c.sessions.Unseal(text)
	return own && expires.UnmarshalText(content) == nil && now.Before(expires) && !c.used.Load()
}

// Use is like Valid, but returns true only once.
func (c *signInCode) Use(text string, now time.Time) bool {
	return c.Valid(text, now) && c.used.CompareAndSwap(false, true)
}
