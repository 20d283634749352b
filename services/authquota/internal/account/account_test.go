package account_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

func TestIDsAreKnownUniqueAndInOrder(t *testing.T) {
	last := ""
	for range 1000 {
		id := account.NewID()
		require.NoError(t, account.Known(id))
		require.Greater(t, id, last)
		last = id
		require.NoError(t, account.KnownKey(account.NewKeyID()))
	}
	require.Error(t, account.Known(account.NewKeyID()), "the two kinds cannot be confused")
	require.Error(t, account.KnownKey(account.NewID()))
}

// Repeating a change has no effect, and a change is recorded exactly if it has one.
func TestChangesAreIdempotent(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		a := account.Account{ID: account.NewID(), Standing: account.Standing{Granted: api.Free}}
		for i := range rapid.IntRange(1, 12).Draw(t, "acts") {
			at := now.Add(time.Duration(i) * time.Hour)
			change, err := map[string]func() (account.Change, error){
				"suspend": func() (account.Change, error) { return account.Suspend("why") },
				"resume":  func() (account.Change, error) { return account.Resume("why") },
				"grant": func() (account.Change, error) {
					return account.Grant(rapid.SampledFrom([]api.Tier{api.Free, api.Developer, api.Commercial}).Draw(t, "tier"))
				},
			}[rapid.SampledFrom([]string{"suspend", "resume", "grant"}).Draw(t, "act")]()
			if err != nil {
				t.Fatal(err)
			}
			before := a
			if detail := change.Apply(&a, at); (detail != nil) != !reflect.DeepEqual(a, before) {
				t.Fatalf("recorded %v where %v became %v", detail, before, a)
			}
			once := a
			if detail := change.Apply(&a, at.Add(time.Minute)); detail != nil || !reflect.DeepEqual(a, once) {
				t.Fatalf("%s twice is not once", change.Action)
			}
		}
	})
}

func TestStatusOfAKey(t *testing.T) {
	end := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	key := account.Key{ExpiresAt: end}
	require.Equal(t, account.Active, key.StatusAt(end.Add(-1)))
	require.Equal(t, account.Expired, key.StatusAt(end), "at the instant itself it has expired")
	key.RevokedAt = &end
	require.Equal(t, account.Revoked, key.StatusAt(end.Add(-1)))
	require.Equal(t, account.Revoked, key.StatusAt(end.Add(time.Hour)))
}

func TestOrders(t *testing.T) {
	own := account.NewID()
	for name, c := range map[string]struct {
		order account.Order
		want  account.Order
		life  time.Duration
	}{
		"least":            {account.Order{UseCase: " x "}, account.Order{UseCase: "x", Tier: api.Free}, account.MaxLife},
		"of an account":    {account.Order{UseCase: "x", Account: own}, account.Order{UseCase: "x", Account: own}, account.MaxLife},
		"with its tier":    {account.Order{UseCase: "x", Tier: api.Commercial}, account.Order{UseCase: "x", Tier: api.Commercial}, account.MaxLife},
		"shorter":          {account.Order{UseCase: "x", ExpiresIn: "90m"}, account.Order{UseCase: "x", ExpiresIn: "90m", Tier: api.Free}, 90 * time.Minute},
		"longest":          {account.Order{UseCase: "x", ExpiresIn: "8760h"}, account.Order{UseCase: "x", ExpiresIn: "8760h", Tier: api.Free}, account.MaxLife},
		"days":             {account.Order{UseCase: "x", ExpiresIn: "1d12h"}, account.Order{UseCase: "x", ExpiresIn: "1d12h", Tier: api.Free}, 36 * time.Hour},
		"shortest":         {account.Order{UseCase: "x", ExpiresIn: "1us"}, account.Order{UseCase: "x", ExpiresIn: "1us", Tier: api.Free}, time.Microsecond},
		"longest use case": {account.Order{UseCase: strings.Repeat("é", 500)}, account.Order{UseCase: strings.Repeat("é", 500), Tier: api.Free}, account.MaxLife},
	} {
		t.Run(name, func(t *testing.T) {
			got, life, err := c.order.Checked()
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Equal(t, c.life, life)
		})
	}
	_, _, err := account.Order{UseCase: "my key is " + apikey.Generate(apikey.Live).Reveal()}.Checked()
	require.Equal(t, problem.InvalidParameter, problem.Of(err).Code)
	require.Equal(t, apikey.Test, account.Order{Test: true}.Prefix())
	require.Equal(t, apikey.Live, account.Order{}.Prefix())
}
