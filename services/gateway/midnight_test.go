package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
)

// While authquota is unavailable from 23:58 to 00:03 UTC, keys that were resolved before work on
// every gateway, and each account has its quota once on each of the two days.
func TestMidnightWithoutAuthquota(t *testing.T) {
	w, c := newEnvironment(t), newClock()
	midnight := c.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	at := func(since time.Duration) { c.advance(midnight.Add(since).Sub(c.now())) }
	at(-10 * time.Minute)
	replicas := []replica{w.start(c.config), w.start(c.config), w.start(c.config)}
	const accounts, perDay = 4, 25
	keys := make([]apikey.Key, accounts)
	for i := range keys {
		keys[i] = w.authquota.issue(fmt.Sprintf("acc_%d", i), api.Limits{PerMinute: 1000, PerDay: perDay})
	}
	admitted := [2][accounts]int{}
	callAll := func(day int) {
		for i, key := range keys {
			for _, r := range replicas {
				a := r.get(t, key)
				if a.status == 200 {
					admitted[day][i]++
					continue
				}
				require.Equal(t, "daily_limit_reached", a.code(t), "at %v", c.now())
			}
		}
	}
	at(-2 * time.Minute)
	callAll(0)
	w.authquota.set(func() { w.authquota.down = true })
	const step = 10 * time.Second
	for since := -2*time.Minute + step; since < 3*time.Minute; since += step {
		at(since)
		callAll(map[bool]int{true: 1}[since >= 0])
	}
	w.authquota.set(func() { w.authquota.down = false })
	at(3 * time.Minute)
	callAll(1)
	for _, day := range admitted {
		require.Equal(t, [accounts]int{perDay, perDay, perDay, perDay}, day)
	}
}
