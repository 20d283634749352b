package keys_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

func TestStatusOfAKey(t *testing.T) {
	end := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	key := keys.Key{ExpiresAt: end}
	require.Equal(t, keys.Active, key.StatusAt(end.Add(-1)))
	require.Equal(t, keys.Expired, key.StatusAt(end), "at the instant itself it has expired")
	key.RevokedAt = &end
	require.Equal(t, keys.Revoked, key.StatusAt(end.Add(-1)))
	require.Equal(t, keys.Revoked, key.StatusAt(end.Add(time.Hour)))
}

func TestPrincipalWhilePaidPeriodsEnd(t *testing.T) {
	end := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	tiers := account.TierTable{api.Free: {PerDay: 1}, api.Developer: {PerDay: 2}, api.Commercial: {PerDay: 3}}
	until := func(of api.Tier, d time.Duration) api.Entitlement {
		at := end.Add(d)
		return api.Entitlement{Tier: of, PaidUntil: &at}
	}
	for name, c := range map[string]struct {
		paid []api.Entitlement
		at   time.Duration // after end
		tier api.Tier
		next *api.PrincipalChange
	}{
		"never paid":     {nil, 0, api.Free, nil},
		"before the end": {[]api.Entitlement{until(api.Commercial, 0)}, -1, api.Commercial, &api.PrincipalChange{At: end, Tier: api.Free, Limits: tiers[api.Free]}},
		"a minute after the end": {
			[]api.Entitlement{until(api.Commercial, 0)}, time.Minute - 1, api.Commercial, &api.PrincipalChange{At: end, Tier: api.Free, Limits: tiers[api.Free]},
		},
		"later": {[]api.Entitlement{until(api.Commercial, 0)}, time.Minute, api.Free, nil},
		"another change follows": {
			[]api.Entitlement{until(api.Commercial, 0), until(api.Developer, time.Hour)}, 1, api.Developer,
			&api.PrincipalChange{At: end.Add(time.Hour), Tier: api.Free, Limits: tiers[api.Free]},
		},
	} {
		key := keys.Resolved{Key: keys.Key{Standing: account.Standing{Granted: api.Free, Paid: c.paid}}, Epoch: accountdb.Epoch{Number: 7}}
		got, err := key.Principal(end.Add(c.at), tiers)
		require.NoError(t, err, name)
		require.Equal(t, api.Principal{Tier: c.tier, Limits: tiers[c.tier], Epoch: 7, Next: c.next}, got, name)
	}
}

func TestOrders(t *testing.T) {
	own := account.NewID()
	for name, c := range map[string]struct {
		order keys.Order
		want  keys.Order
		life  time.Duration
	}{
		"least":            {keys.Order{UseCase: " x "}, keys.Order{UseCase: "x", Tier: api.Free}, keys.MaxLife},
		"of an account":    {keys.Order{UseCase: "x", Account: own}, keys.Order{UseCase: "x", Account: own}, keys.MaxLife},
		"with its tier":    {keys.Order{UseCase: "x", Tier: api.Commercial}, keys.Order{UseCase: "x", Tier: api.Commercial}, keys.MaxLife},
		"shorter":          {keys.Order{UseCase: "x", ExpiresIn: "90m"}, keys.Order{UseCase: "x", ExpiresIn: "90m", Tier: api.Free}, 90 * time.Minute},
		"longest":          {keys.Order{UseCase: "x", ExpiresIn: "8760h"}, keys.Order{UseCase: "x", ExpiresIn: "8760h", Tier: api.Free}, keys.MaxLife},
		"days":             {keys.Order{UseCase: "x", ExpiresIn: "1d12h"}, keys.Order{UseCase: "x", ExpiresIn: "1d12h", Tier: api.Free}, 36 * time.Hour},
		"shortest":         {keys.Order{UseCase: "x", ExpiresIn: "1us"}, keys.Order{UseCase: "x", ExpiresIn: "1us", Tier: api.Free}, time.Microsecond},
		"longest use case": {keys.Order{UseCase: strings.Repeat("é", 500)}, keys.Order{UseCase: strings.Repeat("é", 500), Tier: api.Free}, keys.MaxLife},
	} {
		t.Run(name, func(t *testing.T) {
			got, life, err := c.order.Checked()
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Equal(t, c.life, life)
		})
	}
	_, _, err := keys.Order{UseCase: "my key is " + apikey.Generate(apikey.Live).Reveal()}.Checked()
	require.Equal(t, problem.InvalidParameter, problem.Of(err).Code)
	require.Equal(t, apikey.Test, keys.Order{Test: true}.Prefix())
	require.Equal(t, apikey.Live, keys.Order{}.Prefix())
}
