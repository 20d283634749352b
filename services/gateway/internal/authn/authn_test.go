package authn

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

var pepper, olderPepper = make([]byte, 32), []byte("the pepper before it, of 32 byte")

// authority is a fake authquota.
type authority struct {
	mu       sync.Mutex
	digests  []string // full digests in the order of addition
	lookups  int
	pulls    int
	unlisted bool          // the list of keys is unavailable
	gate     chan struct{} // if not nil, lookups wait until it is closed
	pageSize int
}

func (a *authority) add(key apikey.Key, under []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.digests = append(a.digests, key.Digests([][]byte{under})[0])
}

func (a *authority) Resolve(ctx context.Context, q api.PrincipalQuery) (api.Principal, error) {
	a.mu.Lock()
	a.lookups++
	exists := slices.ContainsFunc(q.Digests, func(d string) bool { return slices.Contains(a.digests, d) })
	gate := a.gate
	a.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return api.Principal{}, ctx.Err()
		}
	}
	if !exists {
		return api.Principal{}, &peer.StatusError{Status: http.StatusNotFound}
	}
	return api.Principal{Account: "acc_a", ExpiresAt: time.Now().Add(time.Hour)}, nil
}

func (a *authority) KeyDigests(_ context.Context, after api.KeyPosition) (api.KeyDigests, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pulls++
	if a.unlisted {
		return api.KeyDigests{}, errors.New("unavailable")
	}
	n := int(after.Sequence)
	if n > len(a.digests) || n > 0 && a.digests[n-1][:api.KeyDigestLength] != after.Digest {
		n, after = 0, api.KeyPosition{}
	}
	page := api.KeyDigests{After: after, Last: after}
	for _, d := range a.digests[n:] {
		if page.More = len(page.Digests) == a.pageSize; page.More {
			break
		}
		d = d[:api.KeyDigestLength]
		page.Digests = append(page.Digests, d)
		page.Last = api.KeyPosition{Sequence: page.Last.Sequence + 1, Digest: d}
	}
	return page, nil
}

func (a *authority) counts() (lookups, pulls int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lookups, a.pulls
}

// start runs an authenticator against the authority until the test ends.
func (a *authority) start(t *testing.T, now func() time.Time) *Authenticator {
	t.Helper()
	a.pageSize = 3
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	keys := New([][]byte{pepper, olderPepper}, Authority{a.Resolve, a.KeyDigests}, now, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- keys.Run(ctx, tel) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		keys.Close()
	})
	return keys
}

const somewhere = "198.51.100.1"

// resolve returns the error code, or an empty string for a valid key.
func resolve(t *testing.T, keys *Authenticator, key apikey.Key, from string) problem.Code {
	t.Helper()
	_, err := keys.Resolve(t.Context(), KeyOf(key), netip.MustParseAddr(from))
	if err == nil {
		return ""
	}
	return problem.Of(err).Code
}

// resolveAll resolves keys concurrently, the i-th from the address from(i), and counts the results
// by code.
func resolveAll(t *testing.T, keys *Authenticator, send []apikey.Key, from func(i int) string) map[problem.Code]int {
	t.Helper()
	results := map[problem.Code]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, key := range send {
		all.Go(func() {
			code := resolve(t, keys, key, from(i))
			mu.Lock()
			defer mu.Unlock()
			results[code]++
		})
	}
	all.Wait()
	return results
}

func same(int) string { return somewhere }

func random(n int) []apikey.Key {
	keys := make([]apikey.Key, n)
	for i := range keys {
		keys[i] = apikey.Generate(apikey.Live)
	}
	return keys
}

// All guesses get 401 and cost authquota a bounded number of syncs. Uncached and new valid keys
// from the same address still resolve.
func TestGuessesReachAuthquotaOnlyInSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		valid, rotated := apikey.Generate(apikey.Live), apikey.Generate(apikey.Live)
		a := new(authority)
		a.add(valid, pepper)
		a.add(rotated, olderPepper)
		keys := a.start(t, time.Now)
		const waves, wave = 20, 500
		began := time.Now()
		for range waves {
			require.Equal(t, map[problem.Code]int{problem.InvalidAPIKey: wave}, resolveAll(t, keys, random(wave), same))
		}
		lookups, pulls := a.counts()
		require.Zero(t, lookups, "lookups")
		require.LessOrEqual(t, pulls, 2+int(time.Since(began)/syncPause), "pulls")

		var guessing sync.WaitGroup
		for _, guess := range random(wave) {
			guessing.Go(func() { resolve(t, keys, guess, somewhere) })
		}
		fresh := apikey.Generate(apikey.Live)
		a.add(fresh, pepper)
		for _, key := range []apikey.Key{valid, rotated, fresh} {
			_, before := a.counts()
			require.Empty(t, resolve(t, keys, key, somewhere))
			_, after := a.counts()
			require.LessOrEqual(t, after-before, 1, "pulls that a valid key waits for")
		}
		guessing.Wait()
		lookups, _ = a.counts()
		require.Equal(t, 3, lookups, "lookups of existing keys")
	})
}

// The key set follows authquota's database, also after a restore to an earlier state.
func TestKeySetFollowsRestoredDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(authority)
		before, after := random(10), random(8)
		for _, key := range before {
			a.add(key, pepper)
		}
		keys := a.start(t, time.Now)
		synctest.Wait()
		require.Equal(t, 10, keys.keys.size())
		a.mu.Lock()
		a.digests = a.digests[:4]
		a.mu.Unlock()
		for _, key := range after {
			a.add(key, pepper)
		}
		require.Equal(t, map[problem.Code]int{"": 8}, resolveAll(t, keys, after, same))
		require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, before[9], somewhere))
		require.Equal(t, 12, keys.keys.size())
	})
}

// While the list of keys is unavailable, guesses are looked up within the limit of their network
// and get 503 beyond it.
func TestGuessesWithoutKeyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		valid := apikey.Generate(apikey.Live)
		a := &authority{unlisted: true, gate: make(chan struct{})}
		a.add(valid, pepper)
		frozen := time.Now() // the rate limit refills nothing
		keys := a.start(t, func() time.Time { return frozen })
		const n = 2000
		var inFlight int
		go func() {
			time.Sleep(time.Second) // in the bubble, so all lookups wait for authquota
			inFlight, _ = a.counts()
			close(a.gate)
		}()
		results := resolveAll(t, keys, random(n), same)
		require.Equal(t, guessBurst, inFlight)
		lookups, _ := a.counts()
		require.Less(t, lookups, 2*guessBurst)
		require.Equal(t, map[problem.Code]int{problem.InvalidAPIKey: lookups, problem.ServiceUnavailable: n - lookups},
			results)
		require.Empty(t, resolve(t, keys, valid, "198.51.100.2"), "valid key from another network")

		a.mu.Lock()
		a.unlisted = false
		a.mu.Unlock()
		require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, random(1)[0], somewhere))
		require.Empty(t, resolve(t, keys, valid, somewhere))
	})
}

// The burst of guesses of one network is exact.
func TestGuessBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := time.Now() // the rate limit refills nothing
		a := &authority{unlisted: true}
		keys := a.start(t, func() time.Time { return frozen })
		for range guessBurst {
			require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, random(1)[0], somewhere))
		}
		_, err := keys.Resolve(t.Context(), KeyOf(random(1)[0]), netip.MustParseAddr(somewhere))
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
		require.Equal(t, time.Second, problem.Of(err).RetryAfter)
		lookups, _ := a.counts()
		require.Equal(t, guessBurst, lookups)
	})
}

// A guess that waited for other lookups of its network is checked again: the list of keys may be
// available by then.
func TestWaitingGuessIsRejectedByTheKeyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &authority{unlisted: true, gate: make(chan struct{})}
		keys := a.start(t, time.Now)
		go func() {
			time.Sleep(time.Second) // in the bubble, so all others wait for authquota or for those that do
			a.mu.Lock()
			a.unlisted = false
			a.mu.Unlock()
			require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, random(1)[0], "198.51.100.2"))
			close(a.gate)
		}()
		require.Equal(t, map[problem.Code]int{problem.InvalidAPIKey: guessBurst + 5}, resolveAll(t, keys,
			random(guessBurst+5), same))
		lookups, _ := a.counts()
		require.Equal(t, guessBurst, lookups)
	})
}

// Many uncached valid keys from one network are delayed and never rejected. Other networks do not
// wait for them.
func TestManyValidKeysFromOneNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, networks := range [][]string{{somewhere}, {somewhere, "2001:db8::1", "2001:db8::2"}} {
			const n = 500
			a, valid := &authority{gate: make(chan struct{})}, random(n)
			for _, key := range valid {
				a.add(key, pepper)
			}
			keys := a.start(t, time.Now)
			var inFlight int
			go func() {
				time.Sleep(time.Second)
				inFlight, _ = a.counts()
				close(a.gate)
			}()
			require.Equal(t, map[problem.Code]int{"": n}, resolveAll(t, keys, valid,
				func(i int) string { return networks[i%len(networks)] }))
			require.Equal(t, guessBurst*min(len(networks), 2), inFlight, "lookups in flight from %v", networks)
			lookups, _ := a.counts()
			require.Equal(t, n, lookups)
		}
	})
}

// While authquota does not reply, requests get 503 within lookupTimeout.
func TestAuthquotaSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &authority{unlisted: true, gate: make(chan struct{})}
		keys := a.start(t, time.Now)
		began := time.Now()
		results := resolveAll(t, keys, random(10*guessBurst), same)
		require.Equal(t, []problem.Code{problem.ServiceUnavailable}, slices.Collect(maps.Keys(results)))
		require.LessOrEqual(t, time.Since(began), lookupTimeout)
	})
}
