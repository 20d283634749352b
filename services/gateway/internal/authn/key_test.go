package authn

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
)

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

// A resolved key is checked like any other, by this process's clock, and without a lookup.
func TestResolvedKey(t *testing.T) {
	now := time.Now()
	a := New(nil, Authority{}, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	defer a.Close()
	resolve := func(p api.Principal) (*Principal, error) {
		key, err := Resolved(p)
		require.NoError(t, err)
		return a.Resolve(t.Context(), key, netip.Addr{})
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
