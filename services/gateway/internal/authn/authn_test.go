package authn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/telemetry"
)

var pepper, olderPepper = make([]byte, 32), []byte("the pepper before it, of 32 byte")

// authority is a fake authquota. Tests change its fields in set.
type authority struct {
	mu        sync.Mutex
	digests   []string      // full digests in the order of addition
	principal api.Principal // of each key
	err       error         // of each lookup
	delay     time.Duration // of each lookup
	unlisted  error         // of the list of keys
	lookups   int
	pulls     int
}

// newAuthority returns a fake whose keys have the principal, or a valid one.
func newAuthority(principal ...api.Principal) *authority {
	return &authority{principal: append(principal, api.Principal{Account: "acc_a",
		ExpiresAt: time.Now().Add(24 * time.Hour)})[0]}
}

// issue adds a key.
func (a *authority) issue(under []byte) apikey.Key {
	key := apikey.Generate(apikey.Live)
	a.set(func() { a.digests = append(a.digests, key.Digests([][]byte{under})[0]) })
	return key
}

func (a *authority) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *authority) resolve(ctx context.Context, q api.PrincipalQuery) (api.Principal, error) {
	a.mu.Lock()
	a.lookups++
	p, err, delay := a.principal, a.err, a.delay
	exists := slices.ContainsFunc(q.Digests, func(d string) bool { return slices.Contains(a.digests, d) })
	a.mu.Unlock()
	// Not with a channel of a timer: under the race detector, the runtime of Go 1.26.8 has crashed
	// there in a synctest bubble.
	delayed, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	<-delayed.Done()
	switch {
	case ctx.Err() != nil:
		return p, ctx.Err()
	case !exists:
		return p, &peer.StatusError{Status: http.StatusNotFound}
	}
	return p, err
}

// keyDigests returns a page of at most three digests.
func (a *authority) keyDigests(_ context.Context, after api.KeyPosition) (api.KeyDigests, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pulls++
	n := int(after.Sequence)
	if n > len(a.digests) || n > 0 && a.digests[n-1][:api.KeyDigestLength] != after.Digest {
		n, after = 0, api.KeyPosition{}
	}
	page := api.KeyDigests{After: after, Last: after, More: len(a.digests) > n+3}
	for _, d := range a.digests[n:min(n+3, len(a.digests))] {
		d = d[:api.KeyDigestLength]
		page.Digests = append(page.Digests, d)
		page.Last = api.KeyPosition{Sequence: page.Last.Sequence + 1, Digest: d}
	}
	return page, a.unlisted
}

func (a *authority) counts() (lookups, pulls int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lookups, a.pulls
}

// start runs an authenticator against the authority until the test ends.
func (a *authority) start(t *testing.T, now func() time.Time, log io.Writer) (*Authenticator, *telemetry.Telemetry) {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: log})
	require.NoError(t, err)
	keys := New([][]byte{pepper, olderPepper}, Authority{a.resolve, a.keyDigests}, now, tel.Log)
	tel.Registry.MustRegister(keys.Collectors()...)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- keys.Run(ctx, tel) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		keys.Close()
	})
	return keys, tel
}

// resolve returns the error code, or an empty string for a valid key.
func resolve(t *testing.T, keys *Authenticator, key apikey.Key) problem.Code {
	t.Helper()
	_, err := keys.Resolve(t.Context(), KeyOf(key))
	if err == nil {
		return ""
	}
	return problem.Of(err).Code
}

// resolveAll resolves keys concurrently, and counts the results by code.
func resolveAll(t *testing.T, keys *Authenticator, send []apikey.Key) map[problem.Code]int {
	t.Helper()
	results := map[problem.Code]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, key := range send {
		all.Go(func() {
			code := resolve(t, keys, key)
			mu.Lock()
			defer mu.Unlock()
			results[code]++
		})
	}
	all.Wait()
	return results
}

func random(n int) []apikey.Key {
	keys := make([]apikey.Key, n)
	for i := range keys {
		keys[i] = apikey.Generate(apikey.Live)
	}
	return keys
}

// All guesses get 401 and cost authquota a bounded number of syncs. Uncached and new valid keys
// still resolve.
func TestGuessesReachAuthquotaOnlyInSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		valid, rotated := a.issue(pepper), a.issue(olderPepper)
		keys, _ := a.start(t, time.Now, io.Discard)
		const waves, wave = 20, 500
		began := time.Now()
		for range waves {
			require.Equal(t, map[problem.Code]int{problem.InvalidAPIKey: wave}, resolveAll(t, keys, random(wave)))
		}
		lookups, pulls := a.counts()
		require.Zero(t, lookups, "lookups")
		require.LessOrEqual(t, pulls, 2+int(time.Since(began)/syncPause), "pulls")

		var guessing sync.WaitGroup
		for _, guess := range random(wave) {
			guessing.Go(func() { resolve(t, keys, guess) })
		}
		for _, key := range []apikey.Key{valid, rotated, a.issue(pepper)} {
			_, before := a.counts()
			require.Empty(t, resolve(t, keys, key))
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
		a := newAuthority()
		var before, after []apikey.Key
		for range 10 {
			before = append(before, a.issue(pepper))
		}
		keys, _ := a.start(t, time.Now, io.Discard)
		synctest.Wait()
		require.Equal(t, 10, keys.keys.size())
		a.set(func() { a.digests = a.digests[:4] })
		for range 8 {
			after = append(after, a.issue(pepper))
		}
		require.Equal(t, map[problem.Code]int{"": 8}, resolveAll(t, keys, after))
		require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, before[9]))
		require.Equal(t, 12, keys.keys.size())
	})
}

// While the list of keys is unavailable, a key that is not in the set gets 503 within
// lookupTimeout and costs no lookup. Others resolve.
func TestKeysThatCannotBeChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		known := a.issue(pepper)
		keys, _ := a.start(t, time.Now, io.Discard)
		synctest.Wait()
		a.set(func() { a.unlisted = errors.New("unavailable") })
		added, began := a.issue(pepper), time.Now()
		require.Equal(t, map[problem.Code]int{problem.ServiceUnavailable: 101},
			resolveAll(t, keys, append(random(100), added)))
		require.LessOrEqual(t, time.Since(began), lookupTimeout)
		require.Empty(t, resolve(t, keys, known))
		a.set(func() { a.unlisted = nil })
		require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, random(1)[0]))
		require.Empty(t, resolve(t, keys, added))
		lookups, _ := a.counts()
		require.Equal(t, 2, lookups)
	})
}

// cached returns an authenticator with one key, and a function that resolves it after d.
func (a *authority) cached(t *testing.T) (keys *Authenticator, after func(d time.Duration) (*Principal, problem.Code)) {
	t.Helper()
	key := KeyOf(a.issue(pepper))
	keys, _ = a.start(t, time.Now, io.Discard)
	return keys, func(d time.Duration) (*Principal, problem.Code) {
		time.Sleep(d)
		p, err := keys.Resolve(t.Context(), key)
		synctest.Wait() // for a refresh in the background
		if err == nil {
			return p, ""
		}
		return p, problem.Of(err).Code
	}
}

func TestResolvedKeyIsUsableForFiveMinutesOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		_, after := a.cached(t)
		_, code := after(0)
		require.Empty(t, code)
		_, _ = after(59 * time.Second)
		require.Equal(t, 1, a.lookups, "lookups in the first minute")
		_, _ = after(2 * time.Second)
		require.Equal(t, 2, a.lookups, "a refresh after a minute")

		a.set(func() { a.err = &peer.StatusError{Status: http.StatusServiceUnavailable} })
		_, code = after(5*time.Minute - time.Second)
		require.Empty(t, code, "from memory")
		_, code = after(2 * time.Second)
		require.Equal(t, problem.ServiceUnavailable, code)
		a.set(func() { a.err = nil })
		_, code = after(0)
		require.Empty(t, code, "authquota is back")
	})
}

func TestScheduledChangeAppliesFromItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(api.Principal{
			Tier: api.Commercial, Suspended: true, ExpiresAt: time.Now().Add(time.Hour),
			Next: &api.PrincipalChange{At: time.Now().Add(30 * time.Second), Tier: api.Free},
		})
		_, after := a.cached(t)
		p, _ := after(0)
		require.Equal(t, api.Commercial, p.Tier)
		p, _ = after(time.Until(a.principal.Next.At) - time.Nanosecond)
		require.Equal(t, api.Commercial, p.Tier)
		p, _ = after(time.Nanosecond)
		require.Equal(t, api.Free, p.Tier)
		require.True(t, p.Suspended)
		require.Contains(t, p.Caller, `"free"`)
		require.Equal(t, 1, a.lookups)
	})
}

func TestExpiredAndRevokedKeysAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(api.Principal{ExpiresAt: time.Now().Add(30 * time.Second)})
		keys, after := a.cached(t)
		_, _ = after(0)
		_, code := after(time.Until(a.principal.ExpiresAt) - time.Nanosecond)
		require.Empty(t, code)
		p, code := after(time.Nanosecond)
		require.Equal(t, problem.ExpiredAPIKey, code)
		require.NotNil(t, p, "its calls are counted")

		a.set(func() { a.principal.RevokedAt = new(time.Now()) })
		keys.Forget(p)
		_, code = after(0)
		require.Equal(t, problem.RevokedAPIKey, code)
	})
}

func TestForgetRemovesOnlyTheOutdatedPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(api.Principal{
			Epoch: 1, ExpiresAt: time.Now().Add(time.Hour),
			Next: &api.PrincipalChange{At: time.Now().Add(10 * time.Second), Tier: api.Free},
		})
		keys, after := a.cached(t)
		first, _ := after(0)
		changed, _ := after(10 * time.Second)
		require.NotSame(t, first, changed)
		a.set(func() { a.principal = api.Principal{Epoch: 2, ExpiresAt: a.principal.ExpiresAt} })
		keys.Forget(changed)
		second, _ := after(0)
		require.EqualValues(t, 2, second.Epoch, "also after the scheduled change")

		keys.Forget(first)
		again, _ := after(0)
		require.Same(t, second, again, "a newer principal stays")
		keys.Forget(second)
		again, _ = after(0)
		require.NotSame(t, second, again)
		require.Equal(t, 3, a.lookups)
	})
}

// After a failover, a principal from before it is looked up again, even if the cached one would
// still be usable.
func TestNewTermOutdatesPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		keys, after := a.cached(t)
		first, _ := after(0)
		require.True(t, keys.InTerm(first))
		keys.NewTerm()
		require.False(t, keys.InTerm(first))
		second, _ := after(0)
		require.True(t, keys.InTerm(second))
		_, _ = after(0)
		require.Equal(t, 2, a.lookups)

		key, err := Resolved(a.principal)
		require.NoError(t, err)
		explorer, err := keys.Resolve(t.Context(), key)
		require.NoError(t, err)
		require.True(t, keys.InTerm(explorer), "the principal of a call of the explorer was not looked up before")
	})
}

func TestStepOfTheWallClockDoesNotAgeResolvedKeys(t *testing.T) {
	a := newAuthority()
	key := a.issue(pepper)
	var step atomic.Int64
	now := func() time.Time { return servicetest.Stepped(time.Now(), time.Duration(step.Load())) }
	keys, _ := a.start(t, now, io.Discard)
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		step.Store(int64(by))
		require.Empty(t, resolve(t, keys, key))
	}
	lookups, _ := a.counts()
	require.Equal(t, 1, lookups)
}

// A resolved key is checked like any other, by this process's clock, and without a lookup.
func TestResolvedKey(t *testing.T) {
	now := time.Now()
	a := New(nil, Authority{}, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	defer a.Close()
	resolve := func(p api.Principal) (*Principal, error) {
		key, err := Resolved(p)
		require.NoError(t, err)
		return a.Resolve(t.Context(), key)
	}
	p, err := resolve(api.Principal{Key: "key_a", Tier: api.Commercial, ExpiresAt: now.Add(1),
		Next: &api.PrincipalChange{At: now, Tier: api.Free}})
	require.NoError(t, err)
	require.Equal(t, api.Free, p.Tier, "the paid period has ended")
	require.JSONEq(t, `{"tier":"free","pageSize":0,"history":false}`, p.Caller)
	a.Forget(p)

	p, err = resolve(api.Principal{Key: "key_a", ExpiresAt: now.Add(1), RevokedAt: &now})
	require.Equal(t, problem.RevokedAPIKey, problem.Of(err).Code)
	require.Equal(t, "key_a", p.Key, "for the usage of the key")
	_, err = resolve(api.Principal{ExpiresAt: now})
	require.Equal(t, problem.ExpiredAPIKey, problem.Of(err).Code)
}

func TestRead(t *testing.T) {
	key := apikey.Generate(apikey.Live)
	token := key.Reveal()
	older, err := apikey.ParseOlderForm(`jb-[0-9]{4}`)
	require.NoError(t, err)
	for _, header := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token + " "} {
		got, err := Read([]string{header}, older)
		require.NoError(t, err, header)
		require.Equal(t, KeyOf(key), got)
		require.Equal(t, key.Digests([][]byte{pepper, olderPepper}), got.digests([][]byte{pepper, olderPepper}))
		require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", got, got, got, got), token)
	}
	got, err := Read([]string{"Bearer jb-4711"}, older)
	require.NoError(t, err)
	require.Equal(t, apikey.OlderSum(got.of).Digests([][]byte{pepper}), got.digests([][]byte{pepper}))

	for want, headers := range map[problem.Code][][]string{
		problem.MissingAPIKey: {nil, {""}, {"Bearer"}, {"Bearer  "}, {token}, {"Basic " + token}, {"Bearer" + token},
			{"Bearer " + token, "Bearer " + token}},
		problem.InvalidAPIKey: {
			{"Bearer " + token[:len(token)-1]}, {"Bearer jb-471"}, {"Bearer " + token + " " + token},
		},
	} {
		for _, h := range headers {
			_, err := Read(h, older)
			require.Equal(t, want, problem.Of(err).Code, h)
			require.NotContains(t, err.Error(), token)
		}
	}
	_, err = Read([]string{"Bearer jb-4711"}, apikey.OlderForm{})
	require.Equal(t, problem.InvalidAPIKey, problem.Of(err).Code, "no older form is configured")
}

// counters returns the counters of a metric by their labels.
func counters(t *testing.T, metrics prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				labels := ""
				for _, l := range m.GetLabel() {
					labels += l.GetValue() + " "
				}
				values[labels] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func TestLookupsAndRejectionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		key := a.issue(pepper)
		keys, tel := a.start(t, time.Now, io.Discard)
		lookups := func() map[string]float64 { return counters(t, tel.Registry, "gateway_key_lookups_total") }
		want := map[string]float64{"found miss ": 0, "found refresh ": 0, "unknown miss ": 0, "unknown refresh ": 0,
			"failed miss ": 0, "failed refresh ": 0}
		require.Equal(t, want, lookups(), "series exist from the start")

		p, err := keys.Resolve(t.Context(), KeyOf(key))
		require.NoError(t, err)
		a.set(func() { a.err = errors.New("unavailable") })
		time.Sleep(refreshAfter + time.Second)
		require.Empty(t, resolve(t, keys, key))
		synctest.Wait()
		keys.Forget(p)
		require.Equal(t, problem.ServiceUnavailable, resolve(t, keys, key))
		a.set(func() { a.err = &peer.StatusError{Status: http.StatusNotFound} })
		require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, key))
		want["found miss "], want["failed refresh "], want["failed miss "], want["unknown miss "] = 1, 1, 1, 1
		require.Equal(t, want, lookups())

		require.Equal(t, problem.InvalidAPIKey, resolve(t, keys, random(1)[0]))
		require.Equal(t, map[string]float64{"": 1}, counters(t, tel.Registry, "gateway_unknown_keys_rejected_total"))
		require.Equal(t, map[string]float64{"keys ": 0}, counters(t, tel.Registry, "feed_pull_failures_total"))
		a.set(func() { a.unlisted = errors.New("unavailable") })
		time.Sleep(syncEvery + 2*syncPause)
		synctest.Wait()
		require.Equal(t, map[string]float64{"keys ": 1}, counters(t, tel.Registry, "feed_pull_failures_total"))
	})
}
