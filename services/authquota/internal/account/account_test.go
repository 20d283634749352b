package account_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
)

func TestIDsAreKnownUniqueAndInOrder(t *testing.T) {
	last := ""
	for range 1000 {
		id := account.NewID()
		require.NoError(t, account.CheckID(id))
		require.Greater(t, id, last)
		last = id
		require.NoError(t, keys.CheckID(keys.NewID()))
	}
	require.Error(t, account.CheckID(keys.NewID()), "the two kinds cannot be confused")
	require.Error(t, keys.CheckID(account.NewID()))
}

// Repeating a change has no effect, and a change is recorded exactly if it has one.
func TestChangesAreIdempotent(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		a := account.Account{ID: account.NewID(), Standing: account.Standing{Granted: api.Free}}
		for i := range rapid.IntRange(1, 12).Draw(t, "acts") {
			at := now.Add(time.Duration(i) * time.Hour)
			change, err := map[string]func() (account.Change, error){
				"suspend": func() (account.Change, error) {
					return account.Suspend(rapid.SampledFrom([]string{"abuse", "unpaid", api.ReasonNotStated}).Draw(t, "reason"))
				},
				"resume": func() (account.Change, error) { return account.Resume("why") },
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

func TestReasonOfASuspensionCanBeStatedLater(t *testing.T) {
	var a account.Account
	first := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	suspend := func(reason string) map[string]any {
		change, err := account.Suspend(reason)
		require.NoError(t, err)
		return change.Apply(&a, first.Add(time.Duration(len(a.SuspendReason))*time.Hour))
	}
	require.Equal(t, map[string]any{"reason": api.ReasonNotStated}, suspend(api.ReasonNotStated))
	require.Equal(t, map[string]any{"reason": "abuse", "before": api.ReasonNotStated}, suspend("abuse"))
	require.Nil(t, suspend(api.ReasonNotStated), "a stated reason is kept")
	require.Equal(t, "abuse", a.SuspendReason)
	require.Equal(t, first, *a.SuspendedAt)
}
