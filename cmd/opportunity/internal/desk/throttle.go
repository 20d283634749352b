package desk

import (
	"sync"
	"time"
)

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
