package authn

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// crowd sends n different keys from the address of i at once, while authquota takes its time. It tells how many look-ups were
// under way then, how many there were in the end, and the answers by code; empty for a key that is known.
func crowd(t *testing.T, n int, held bool, from func(i int) string) (flying, asked int, answers map[problem.Code]int) {
	t.Helper()
	var lookups atomic.Int64
	gate := make(chan struct{})
	still := time.Now() // so that nobody is given another guess meanwhile
	a := New([][]byte{make([]byte, 32)}, func(context.Context, api.PrincipalQuery) (api.Principal, error) {
		lookups.Add(1)
		<-gate
		if !held {
			return api.Principal{}, &peer.StatusError{Status: http.StatusNotFound}
		}
		return api.Principal{Account: "acc_a", ExpiresAt: still.Add(time.Hour)}, nil
	}, func() time.Time { return still }, slog.New(slog.DiscardHandler))
	defer a.Close()
	answers = map[problem.Code]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			_, err := a.Resolve(t.Context(), KeyOf(apikey.Generate(apikey.Live)), netip.MustParseAddr(from(i)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answers[""]++
				return
			}
			answers[problem.Of(err).Code]++
		})
	}
	synctest.Wait()
	flying = int(lookups.Load())
	close(gate)
	all.Wait()
	return flying, int(lookups.Load()), answers
}

func same(int) string { return "198.51.100.1" }

// Guesses that come all at once reach authquota no more often than the limit allows, and those already under way.
func TestGuessesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		flying, asked, answers := crowd(t, n, false, same)
		require.Equal(t, guessBurst, flying)
		require.Less(t, asked, 2*guessBurst)
		require.Equal(t, map[problem.Code]int{problem.InvalidAPIKey: asked, problem.MinuteLimitReached: n - asked}, answers)
	})
}

// Many good keys behind one address are slowed down and never refused, while none of them is cached yet; other addresses do not
// wait for them.
func TestGoodKeysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		flying, asked, answers := crowd(t, n, true, same)
		require.Equal(t, guessBurst, flying)
		require.Equal(t, n, asked)
		require.Equal(t, map[problem.Code]int{"": n}, answers)

		flying, _, _ = crowd(t, n, true, func(i int) string { return []string{"198.51.100.1", "2001:db8::1", "2001:db8::2"}[i%3] })
		require.Equal(t, 2*guessBurst, flying, "an address, and a network of two")
	})
}

// Whoever waits for its turn in vain is told so after the time of a look-up.
func TestAuthquotaSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New([][]byte{make([]byte, 32)}, func(ctx context.Context, _ api.PrincipalQuery) (api.Principal, error) {
			<-ctx.Done()
			return api.Principal{}, ctx.Err()
		}, time.Now, slog.New(slog.DiscardHandler))
		defer a.Close()
		var all sync.WaitGroup
		for range 10 * guessBurst {
			all.Go(func() {
				_, err := a.Resolve(t.Context(), KeyOf(apikey.Generate(apikey.Live)), netip.MustParseAddr(same(0)))
				if problem.Of(err).Code != problem.ServiceUnavailable {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}
