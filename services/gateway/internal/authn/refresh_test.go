package authn

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
)

// load is an authenticator with many cached keys, and counts its lookups.
type load struct {
	*testing.T
	keys    *Authenticator
	cached  []Key
	log     bytes.Buffer
	lookups atomic.Int64
	failing atomic.Bool
	delay   time.Duration // of authquota, at most lookupTimeout
}

func newLoad(t *testing.T, keys int) *load {
	l := &load{T: t}
	l.keys = New([][]byte{pepper}, Authority{l.resolve, noList}, time.Now, slog.New(slog.NewTextHandler(&l.log, nil)))
	t.Cleanup(l.keys.Close)
	var resolved sync.WaitGroup
	for i := range keys {
		key := KeyOf(apikey.Generate(apikey.Live))
		l.cached = append(l.cached, key)
		resolved.Go(func() {
			_, err := l.keys.Resolve(t.Context(), key, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
			assert.NoError(t, err)
		})
	}
	resolved.Wait()
	return l
}

func (l *load) resolve(ctx context.Context, _ api.PrincipalQuery) (api.Principal, error) {
	l.lookups.Add(1)
	// Not with a channel of a timer: under the race detector, the runtime of Go 1.26.8 has crashed
	// there in a synctest bubble.
	delayed, cancel := context.WithTimeout(ctx, l.delay)
	defer cancel()
	<-delayed.Done()
	if ctx.Err() != nil {
		return api.Principal{}, ctx.Err()
	}
	if l.failing.Load() {
		return api.Principal{}, &peer.StatusError{Status: http.StatusServiceUnavailable}
	}
	return api.Principal{ExpiresAt: time.Now().Add(24 * time.Hour)}, nil
}

// run uses every key twice a second for d, and returns the number of lookups meanwhile. Each use
// must succeed at once.
func (l *load) run(d time.Duration) int64 {
	l.Helper()
	before := l.lookups.Load()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		for _, key := range l.cached {
			began := time.Now()
			_, err := l.keys.Resolve(l.Context(), key, netip.MustParseAddr("10.0.0.1"))
			require.NoError(l, err)
			require.Equal(l, began, time.Now(), "a cached key does not wait")
		}
	}
	synctest.Wait()
	return l.lookups.Load() - before
}

func TestOutageCostsOneRefreshASecond(t *testing.T) {
	for name, delay := range map[string]time.Duration{"authquota refuses": 0, "authquota is silent": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoad(t, 100)
				l.run(59 * time.Second)
				require.EqualValues(t, 100, l.lookups.Load(), "no refresh in the first minute")

				l.failing.Store(true)
				l.delay = delay
				first := l.run(10 * time.Second)
				require.LessOrEqual(t, first, int64(maxRefreshes+10*refreshProbes+1))
				require.LessOrEqual(t, l.run(100*time.Second), int64(100*refreshProbes+1))
				require.Equal(t, 1, strings.Count(l.log.String(), "level=WARN"), l.log.String())
				require.NotContains(t, l.log.String(), "level=ERROR")

				l.failing.Store(false)
				l.delay = 0
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
		l.failing.Store(true)
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
