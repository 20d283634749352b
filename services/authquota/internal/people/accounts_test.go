package people_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

func onBoth(t *testing.T, test func(t *testing.T, db testkit.DB, s *people.Store, k *keys.Store)) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		k := keys.NewStore(db.DB)
		test(t, db, people.NewStore(db.DB), k)
	})
}

func issue(t *testing.T, k *keys.Store, order keys.Order, digest string) keys.Key {
	t.Helper()
	key, err := k.Issue(t.Context(), "bob", order, keys.MaxLife, keys.Record{Digest: strings.Repeat(digest, 64), Prefix: "oda_live_", LastFour: "abcd"})
	require.NoError(t, err)
	return key
}

func TestAccountsAreListedWithTheirKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, db testkit.DB, s *people.Store, k *keys.Store) {
		ctx := t.Context()
		id, _ := db.Person(t, "ada_l@example.org")
		db.Person(t, "adaxl@example.org")
		issue(t, k, keys.Order{Account: id}, "a")
		revoked := issue(t, k, keys.Order{Account: id}, "b")
		_, err := k.Revoke(ctx, "bob", revoked.ID, false)
		require.NoError(t, err)
		unowned := issue(t, k, keys.Order{Tier: api.Developer}, "c")

		listed, more, err := s.Accounts(ctx, people.AccountSearch{Email: "ADA_L", Page: account.Page{Limit: 10}})
		require.NoError(t, err)
		require.False(t, more)
		require.Len(t, listed, 1, "an underscore is no wildcard")
		require.Equal(t, id, listed[0].ID)
		require.Equal(t, 1, listed[0].ActiveKeys)
		page, more, err := s.Accounts(ctx, people.AccountSearch{Page: account.Page{Limit: 2}})
		require.NoError(t, err)
		require.True(t, more)
		rest, _, err := s.Accounts(ctx, people.AccountSearch{Page: account.Page{After: page[1].ID, Limit: 2}})
		require.NoError(t, err)
		require.Equal(t, unowned.Account, rest[0].ID)

		details, err := s.Account(ctx, id)
		require.NoError(t, err)
		require.Equal(t, "ada_l@example.org", details.Person.Email)
		require.Equal(t, 1, details.Sessions)
		require.Len(t, details.Keys, 2)
		require.Equal(t, "key.revoke", details.Audit[0].Action)
		details, err = s.Account(ctx, unowned.Account)
		require.NoError(t, err)
		require.Nil(t, details.Person)
		_, err = s.Account(ctx, account.NewID())
		require.ErrorContains(t, err, "no account")
	})
}

func TestChangeOfAnAccountIsRecordedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, db testkit.DB, s *people.Store, _ *keys.Store) {
		ctx := t.Context()
		id, _ := db.Person(t, "ada@example.org")
		suspend, err := account.Suspend("unpaid")
		require.NoError(t, err)
		grant, err := account.Grant(api.Developer)
		require.NoError(t, err)
		db.TakeTouched(t)
		again, err := account.Suspend("once more")
		require.NoError(t, err)
		resume, err := account.Resume("settled")
		require.NoError(t, err)
		for _, change := range []account.Change{again, resume} {
			_, err := s.ChangeAccount(ctx, "carl", id, change)
			require.NoError(t, err)
		}
		mails := db.TakeMails(t)
		require.Len(t, mails, 2)
		require.Contains(t, mails[0].Text, "Reason given by the operator: once more\n")
		require.Equal(t, "Your account is no longer suspended", mails[1].Subject)
		require.NotContains(t, mails[1].Text, "settled", "the reason for resuming is for the audit log")
		db.TakeTouched(t)
		for _, change := range []account.Change{suspend, suspend, grant, grant} {
			_, err := s.ChangeAccount(ctx, "bob", id, change)
			require.NoError(t, err)
		}
		require.Equal(t, []string{"ada@example.org: Your account is suspended", "ada@example.org: Your plan is now developer"}, db.TakeSubjects(t))
		require.Equal(t, []string{id, id, id, id}, db.TakeTouched(t), "also for a repetition: the change before may not be in effect yet")
		entries, more, err := s.Audit(ctx, people.AuditSearch{Actor: "bob", Action: "account.", Limit: 1})
		require.NoError(t, err)
		require.True(t, more)
		require.Equal(t, "account.grant", entries[0].Action)
		older, more, err := s.Audit(ctx, people.AuditSearch{Account: id, Actor: "bob", Before: entries[0].ID, Limit: 1})
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, "account.suspend", older[0].Action)
		before, _, err := s.Audit(ctx, people.AuditSearch{Until: entries[0].At, Limit: 1})
		require.NoError(t, err)
		require.Empty(t, before)
		until, _, err := s.Audit(ctx, people.AuditSearch{Actor: "bob", Until: entries[0].At.Add(time.Microsecond), Limit: 1})
		require.NoError(t, err)
		require.Equal(t, entries, until)
	})
}

// Anyone can cause failures, so they are grouped to keep other events visible.
func TestFailuresAreGrouped(t *testing.T) {
	onBoth(t, func(t *testing.T, db testkit.DB, s *people.Store, _ *keys.Store) {
		ctx := t.Context()
		id, _ := db.Person(t, "ada@example.org")
		for range 3 {
			require.NoError(t, db.Exec("INSERT INTO audit_log (at, actor, action, subject, detail) VALUES (?, ?, 'person.sign_in_failed', ?, '{}')",
				db.Now().UnixMicro(), id, id).Error)
		}
		failed, err := s.Failures(ctx, id, []string{"person.sign_in_failed"}, db.Now())
		require.NoError(t, err)
		require.Len(t, failed, 1)
		require.Equal(t, 3, failed[0].Times)
		events, err := s.Events(ctx, id, []string{"person.sign_up", "person.sign_in"}, 1)
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Equal(t, "person.sign_in", events[0].Action)
		require.True(t, events[0].Own)
	})
}
