package session

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"
)

// CodeLife is the lifetime of a one-time code.
const CodeLife = 15 * time.Minute

// Code is a one-time code. The zero value has expired.
type Code struct {
	mu      sync.Mutex
	hash    [sha256.Size]byte
	expires time.Time
}

// NewCode returns a code that is valid for CodeLife, and its text.
func NewCode(now time.Time) (*Code, string) {
	text := base64.RawURLEncoding.EncodeToString(random(24))
	return &Code{hash: sha256.Sum256([]byte(text)), expires: now.Add(CodeLife)}, text
}

// Valid reports whether text is the code and can still be used.
func (c *Code) Valid(text string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.valid(text, now)
}

// Use is like Valid, but returns true only once.
func (c *Code) Use(text string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.valid(text, now) {
		return false
	}
	c.expires = time.Time{}
	return true
}

func (c *Code) valid(text string, now time.Time) bool {
	hash := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(hash[:], c.hash[:]) == 1 && now.Before(c.expires)
}
