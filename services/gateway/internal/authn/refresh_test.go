package authn

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// load is an authenticator with many cached keys.
type load struct {
	*testing.T
	*authority
	keys   *Authenticator
	cached []apikey.Key
	log    bytes.Buffer
}

func newLoad(t *testing.T, keys int) *load {
	l := &load{T: t, authority: newAuthority()}
	for range keys {
		l.cached = append(l.cached, l.issue(pepper))
	}
	l.keys, _ = l.start(t, time.Now, &l.log)
	require.Equal(t, map[problem.Code]int{"": keys}, resolveAll(t, l.keys, l.cached))
	return l
}

// run uses every key twice a second for d, and returns the number of lookups meanwhile. Each use
// must succeed at once.
func (l *load) run(d time.Duration) int {
	l.Helper()
	before, _ := l.counts()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		for _, key := range l.cached {
			began := time.Now()
			require.Empty(l, resolve(l.T, l.keys, key))
			require.Equal(l, began, time.Now(), "a cached key does not wait")
		}
	}
	synctest.Wait()
	after, _ := l.counts()
	return after - before
}

func TestOutageCostsOneRefreshASecond(t *testing.T) {
	for name, delay := range map[string]time.Duration{"authquota refuses": 0, "authquota is silent": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoad(t, 100)
				require.Zero(t, l.run(59*time.Second), "no refresh in the first minute")

				l.set(func() { l.err, l.delay = &peer.StatusError{Status: http.StatusServiceUnavailable}, delay })
				require.LessOrEqual(t, l.run(10*time.Second), maxRefreshes+10*refreshProbes+1)
				require.LessOrEqual(t, l.run(100*time.Second), 100*refreshProbes+1)
				require.Equal(t, 1, strings.Count(l.log.String(), `"WARN"`), l.log.String())
				require.NotContains(t, l.log.String(), `"ERROR"`)

				l.set(func() { l.err, l.delay = nil, 0 })
				l.run(refreshAfter / 2) // a key may have to wait twice: before the recovery is noticed, and once more after it
				require.Contains(t, l.log.String(), "key refresh recovered")
				require.Zero(t, l.run(20*time.Second), "every key was refreshed soon after the recovery, not later")
			})
		})
	}
}

// A key whose refresh failed waits 5 to 15 seconds, each time for another time, so that the keys of
// an outage do not come back together.
func TestFailedRefreshOfAKeyIsRetriedAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(t, 1)
		l.run(refreshAfter)
		l.set(func() { l.err = &peer.StatusError{Status: http.StatusServiceUnavailable} })
		var attempts []time.Time
		for outage := time.Now(); time.Since(outage) < 200*time.Second; { // the key is usable for longer
			if l.run(500*time.Millisecond) > 0 {
				attempts = append(attempts, time.Now())
			}
		}
		var waits []time.Duration
		for i, at := range attempts[1:] {
			waits = append(waits, at.Sub(attempts[i]))
		}
		require.GreaterOrEqual(t, slices.Min(waits), refreshRetry/2)
		require.LessOrEqual(t, slices.Max(waits), refreshRetry*3/2+500*time.Millisecond)
		require.Greater(t, slices.Max(waits)-slices.Min(waits), time.Second)
	})
}
