package desk

import (
	"crypto/rand"
	"crypto/subtle"
	"sync/atomic"
	"time"
)

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
