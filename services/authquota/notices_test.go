package authquota_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/account"
)

// subjects returns the subjects of the mails to an address, oldest first.
func (s *stores) subjects(t *testing.T, to string) (all []string) {
	t.Helper()
	for _, m := range s.mails(t) {
		if m.to == to {
			all = append(all, m.subject)
		}
	}
	return all
}

func TestNoticeIsSentBeforeAKeyExpires(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := servicetest.NewClock(begin)
		svc := s.start(t, on(now))
		b := svc.browser()
		b.signUp("ada@example.org")
		key := svc.issue(map[string]any{"account": b.Account})
		svc.stop()
		now.Advance(335 * 24 * time.Hour)
		s.start(t, on(now))
		storetest.Eventually(t, "notified", func() bool { return len(s.mails(t)) == 1 && s.waiting(t) == 0 })
		require.Equal(t, []string{"Your key Unnamed key expires within 30 days"}, s.subjects(t, "ada@example.org"))
		require.Contains(t, s.mails(t)[0].plain, key.Key[len(key.Key)-4:])
		require.NotContains(t, s.mails(t)[0].plain, key.Key)
		require.Contains(t, s.mails(t)[0].plain, account.FormatTime(key.ExpiresAt))
	})
}
