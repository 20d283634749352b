package people_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

func TestUnusedCodesAreThoseOfTheAccount(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		ada, _ := db.Person(t, "ada@example.org")
		bob, _ := db.Person(t, "bob@example.org")
		_, hashes := people.NewRecoveryCodes()
		require.NoError(t, people.NewStore(db.DB).RenewCodes(t.Context(), ada, hashes))
		codes := people.NewStore(db.DB)
		check := func(account string, hashes []string) bool {
			unused, err := codes.CodesUnused(t.Context(), account, hashes)
			require.NoError(t, err)
			return unused
		}
		require.True(t, check(ada, hashes))
		require.False(t, check(bob, hashes))
		require.False(t, check(ada, append([]string{hashes[0]}, hashes[:9]...)), "the same code twice")
		require.NoError(t, db.Exec("UPDATE recovery_codes SET used_at = 1 WHERE hash = ?", hashes[3]).Error)
		require.False(t, check(ada, hashes))
	})
}
