package desk

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"
)

// codeLife is the lifetime of a one-time code.
const codeLife = 15 * time.Minute

// signInCode is a one-time code. The zero value has expired.
type signInCode struct {
	mu      sync.Mutex
	hash    [sha256.Size]byte
	expires time.Time
}

func newSignInCode(now time.Time) (*signInCode, string) {
	text := base64.RawURLEncoding.EncodeToString(random(24))
	return &signInCode{hash: sha256.Sum256([]byte(text)), expires: now.Add(codeLife)}, text
}

// Valid reports whether text is the code and can still be used.
func (c *signInCode) Valid(text string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.valid(text, now)
}

// Use is like Valid, but returns true only once.
func (c *signInCode) Use(text string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.valid(text, now) {
		return false
	}
	c.expires = time.Time{}
	return true
}

func (c *signInCode) valid(text string, now time.Time) bool {
	hash := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(hash[:], c.hash[:]) == 1 && now.Before(c.expires)
}
