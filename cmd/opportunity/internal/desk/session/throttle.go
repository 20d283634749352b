package session

import (
	"sync"
	"time"
)

// Failed sign-ins that an address can have within a period. Tokens have at least 32 characters, so the throttle protects the service
// from load rather than from guesses.
const (
	maxFailures = 10
	period      = time.Minute
)

// Throttle counts failed sign-ins by address. The zero value is ready to use.
type Throttle struct {
	mu       sync.Mutex
	failures map[string][]time.Time // within the latest period
}

// Wait returns how long the address has to wait before its next attempt; 0 if it can try now.
func (t *Throttle) Wait(address string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := t.failures[address]
	for len(recent) > 0 && now.Sub(recent[0]) >= period {
		recent = recent[1:]
	}
	if len(recent) < maxFailures {
		return 0
	}
	return period - now.Sub(recent[0])
}

// Fail counts a failed attempt.
func (t *Throttle) Fail(address string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failures == nil {
		t.failures = map[string][]time.Time{}
	}
	for other, times := range t.failures { // this bounds the map
		if now.Sub(times[len(times)-1]) >= period {
			delete(t.failures, other)
		}
	}
	recent := append(t.failures[address], now)
	t.failures[address] = recent[max(0, len(recent)-maxFailures):]
}
