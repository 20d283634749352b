package authquota_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/account"
)

// person adds a person to an account created by an operator.
func (s *stores) person(t *testing.T, accountID, email string) {
	t.Helper()
	require.NoError(t, s.open(t).Exec("INSERT INTO people (account_id, email, password_hash, created_at) VALUES (?, ?, 'none', 0)", accountID, email).Error)
}

func on(c *clock) func(*authquota.Config) {
	return func(cfg *authquota.Config) { cfg.Now = c.Now }
}

// subjects returns the subjects of the mails to an address, oldest first.
func (s *stores) subjects(t *testing.T, to string) (all []string) {
	t.Helper()
	for _, m := range s.mails(t) {
		if m.address == to {
			all = append(all, m.subject)
		}
	}
	return all
}

func TestNoticesAreSentBeforeKeysExpire(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := clockAt(tenOClock)
		svc := s.start(t, on(now))
		key := svc.issue(nil) // 365 days
		s.person(t, key.Account, "ada@example.org")
		short := svc.issue(map[string]any{"account": key.Account, "expiresIn": "120h"})
		revoked := svc.issue(map[string]any{"account": key.Account})
		read[listedKey](svc.revoke(revoked.ID))
		replaced := svc.issue(map[string]any{"account": key.Account})
		require.NoError(t, s.open(t).Exec("UPDATE api_keys SET replaced_at = 1 WHERE id = ?", replaced.ID).Error)
		svc.issue(nil) // an account without a person
		restart := func() {
			t.Helper()
			svc.stop()
			svc = s.startMigrated(t, on(now))
		}
		var want []string
		told := func(more ...string) {
			t.Helper()
			want = append(want, more...)
			storetest.Eventually(t, "told", func() bool { return len(s.subjects(t, "ada@example.org")) >= len(want) && s.waiting(t) == 0 })
			require.Equal(t, want, s.subjects(t, "ada@example.org"))
		}
		named := "Your key Unnamed key expires within "
		storetest.Eventually(t, "told of the revocation", func() bool { return len(s.mails(t)) == 1 })
		want = s.subjects(t, "ada@example.org")

		now.move(4 * 24 * time.Hour) // the short one never had seven days; it has one left
		restart()
		told(named + "a day")
		require.Contains(t, s.mails(t)[1].plain, short.Key[len(short.Key)-4:])
		require.NotContains(t, s.mails(t)[1].plain, short.Key)

		now.move(331*24*time.Hour - 2*time.Second) // a moment before 30 days are left
		restart()
		told()
		now.move(2 * time.Second)
		restart()
		told(named + "30 days")
		require.Contains(t, s.mails(t)[2].plain, account.When(key.ExpiresAt))
		restart()
		told() // once

		now.move(29*24*time.Hour + time.Hour) // no process ran when seven days were left: only the latest notice is sent
		restart()
		told(named + "a day")
		now.move(24 * time.Hour)
		restart()
		told() // it has expired
		require.Len(t, s.mails(t), len(want), "nobody else was told anything")
	})
}

func TestSeveralProcessesSendOneNotice(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := clockAt(tenOClock)
		svc := s.start(t, on(now))
		for range 30 {
			key := svc.issue(map[string]any{"expiresIn": "800h"})
			s.person(t, key.Account, key.Account+"@example.org")
		}
		svc.stop()
		now.move(700 * time.Hour)
		for range 3 {
			s.startMigrated(t, on(now))
		}
		storetest.Eventually(t, "all told", func() bool { return len(s.mails(t)) >= 30 && s.waiting(t) == 0 })
		var to []string
		for _, m := range s.mails(t) {
			to = append(to, m.address)
		}
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(to))), 30)
		require.Len(t, to, 30)
	})
}

func TestMailsAreSentForOperatorChanges(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := clockAt(tenOClock)
		svc := s.start(t, on(now))
		key, other := svc.issue(nil), svc.issue(nil)
		s.person(t, key.Account, "ada@example.org")
		for _, act := range [][2]string{
			{"suspend", `{"reason":"an unpaid invoice"}`}, {"suspend", `{"reason":"once more"}`}, {"resume", `{"reason":"paid"}`},
			{"grant", `{"tier":"developer"}`}, {"grant", `{"tier":"developer"}`},
		} {
			now.move(time.Second)
			read[listedAccount](svc.change(key.Account, act[0], act[1]))
			read[listedAccount](svc.change(other.Account, act[0], act[1]))
		}
		storetest.Eventually(t, "told", func() bool { return len(s.mails(t)) == 3 && s.waiting(t) == 0 })
		require.Equal(t, []string{"Your account is suspended", "Your account is no longer suspended", "Your plan is now developer"},
			s.subjects(t, "ada@example.org"))
		require.Contains(t, s.mails(t)[0].plain, "Reason given by the operator: an unpaid invoice\n")
		require.NotContains(t, s.mails(t)[1].plain, "paid", "the reason for resuming is for the audit log")
	})
}
