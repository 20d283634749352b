package authn

import (
	"context"
	"errors"
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
	"opportunity.internal/pkg/service/servicetest"
)

// account is a fake authquota that has one key and no list of keys.
type account struct {
	mu        sync.Mutex
	principal api.Principal
	err       error
	lookups   int
}

func (a *account) resolve(context.Context, api.PrincipalQuery) (api.Principal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lookups++
	return a.principal, a.err
}

func noList(context.Context, api.KeyPosition) (api.KeyDigests, error) {
	return api.KeyDigests{}, errors.New("unavailable")
}

// set changes the response of authquota and resets the number of lookups.
func (a *account) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	a.lookups = 0
}

// authenticator returns an authenticator of the account, and a function that resolves its key after
// d.
func (a *account) authenticator(t *testing.T) (keys *Authenticator,
	after func(d time.Duration) (*Principal, problem.Code)) {
	keys = New([][]byte{pepper}, Authority{a.resolve, noList}, time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(keys.Close)
	key := KeyOf(apikey.Generate(apikey.Live))
	return keys, func(d time.Duration) (*Principal, problem.Code) {
		time.Sleep(d)
		p, err := keys.Resolve(t.Context(), key, netip.MustParseAddr(somewhere))
		synctest.Wait() // for a refresh in the background
		if err == nil {
			return p, ""
		}
		return p, problem.Of(err).Code
	}
}

func TestResolvedKeyIsUsableForFiveMinutesOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &account{principal: api.Principal{Account: "acc_a", ExpiresAt: time.Now().Add(time.Hour)}}
		_, after := a.authenticator(t)
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
		a := &account{principal: api.Principal{
			Tier: api.Commercial, Suspended: true, ExpiresAt: time.Now().Add(time.Hour),
			Next: &api.PrincipalChange{At: time.Now().Add(30 * time.Second), Tier: api.Free},
		}}
		_, after := a.authenticator(t)
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
		a := &account{principal: api.Principal{ExpiresAt: time.Now().Add(30 * time.Second)}}
		keys, after := a.authenticator(t)
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
		a := &account{principal: api.Principal{
			Epoch: 1, ExpiresAt: time.Now().Add(time.Hour),
			Next: &api.PrincipalChange{At: time.Now().Add(10 * time.Second), Tier: api.Free},
		}}
		keys, after := a.authenticator(t)
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
		require.Equal(t, 2, a.lookups)
	})
}

// After a failover, a principal from before it is looked up again, even if the cached one would
// still be usable.
func TestNewTermOutdatesPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &account{principal: api.Principal{Account: "acc_a", ExpiresAt: time.Now().Add(time.Hour)}}
		keys, after := a.authenticator(t)
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
		explorer, err := keys.Resolve(t.Context(), key, netip.MustParseAddr(somewhere))
		require.NoError(t, err)
		require.True(t, keys.InTerm(explorer), "the principal of a call of the explorer was not looked up before")
	})
}

func TestStepOfTheWallClockDoesNotAgeResolvedKeys(t *testing.T) {
	a := &account{principal: api.Principal{Account: "acc_a", ExpiresAt: time.Now().Add(24 * time.Hour)}}
	var step atomic.Int64
	keys := New([][]byte{pepper}, Authority{a.resolve, noList}, func() time.Time {
		return servicetest.Stepped(time.Now(), time.Duration(step.Load()))
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(keys.Close)
	key := KeyOf(apikey.Generate(apikey.Live))
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		step.Store(int64(by))
		_, err := keys.Resolve(t.Context(), key, netip.MustParseAddr(somewhere))
		require.NoError(t, err)
		a.set(func() { a.err = &peer.StatusError{Status: http.StatusServiceUnavailable} })
	}
	require.Zero(t, a.lookups)
}
