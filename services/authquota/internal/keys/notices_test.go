package keys_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/keys"
)

func TestNoticesAreSentOnceBeforeKeysExpire(t *testing.T) {
	const day = 24 * time.Hour
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		key, _ := f.issue(keys.Order{Account: id}, keys.MaxLife)
		f.issue(keys.Order{Account: id}, 5*day)
		revoked, _ := f.issue(keys.Order{Account: id}, keys.MaxLife)
		_, err := f.RevokeOwn(ctx, id, revoked.ID)
		require.NoError(t, err)
		replaced, _ := f.issue(keys.Order{Account: id}, 5*day)
		_, _, err = f.Rotate(ctx, id, replaced.ID, stored(100))
		require.NoError(t, err)
		f.issue(keys.Order{}, keys.MaxLife) // an account without a person
		f.db.TakeMails(t)
		due := func(within ...string) {
			t.Helper()
			var want []string
			for _, days := range within {
				want = append(want, "ada@example.org: Your key Unnamed key expires within "+days)
			}
			require.NoError(t, f.Remind(ctx))
			require.NoError(t, f.Remind(ctx), "again")
			require.Equal(t, want, f.db.TakeSubjects(t))
		}
		due()
		f.db.Advance(4 * day) // the short ones never had seven days; the successor has one left
		due("a day", "a day") // not of the replaced one
		f.db.Advance(key.ExpiresAt.Sub(f.db.Now()) - 30*day - time.Microsecond)
		due()
		f.db.Advance(time.Microsecond)
		due("30 days")
		f.db.Advance(29*day + time.Hour) // no process ran when seven days were left: only the latest notice is sent
		due("a day")
		f.db.Advance(day)
		due() // it has expired
	})
}

func TestSeveralProcessesSendOneNotice(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		const people = 10
		for i := range people {
			f.issue(keys.Order{Account: f.person(fmt.Sprintf("person%d@example.org", i))}, 800*time.Hour)
		}
		f.db.Advance(700 * time.Hour)
		require.Equal(t, 3, succeeded(t, atOnce(3, func(int) error { return f.Remind(t.Context()) }), ""))
		require.Len(t, f.db.TakeMails(t), people)
	})
}
