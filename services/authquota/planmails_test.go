package authquota_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// The entitlement moves when its account is merged into another; billing continues to push it under
// the old ID.
func TestEntitlementMovesWithConnectedAccount(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, now := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		own, _ := b.obtain("Mine")
		older := svc.issue(nil)
		svc.entitled(older.Account, paid(begin, 1))
		b.connect(older.Key).Leads("/account/keys")
		require.Equal(t, api.Commercial, svc.principal(own).Tier)
		require.Equal(t, begin.AddDate(0, 1, 0), svc.principal(older.Key).Next.At)
		storetest.Eventually(t, "the mail arrives", func() bool { return slices.Contains(s.subjects(t, "ada@example.org"), "Your plan is now commercial") })
		b.Get("/account/plan").Shows(200, "commercial")

		before := svc.principal(own).Epoch
		svc.entitled(older.Account, paid(begin.AddDate(0, 1, 0), 2))
		require.Equal(t, begin.AddDate(0, 2, 0), svc.principal(own).Next.At)
		require.Greater(t, svc.principal(own).Epoch, before)
		svc.entitled(b.Account, paid(begin, 1))
		require.Equal(t, begin.AddDate(0, 2, 0), svc.principal(own).Next.At, "the later of both")
		require.Equal(t, int64(2), svc.shown(b.Account).Paid.Version)
		now.Advance(62 * 24 * time.Hour)
		require.Equal(t, api.Free, svc.principal(own).Tier)
		svc.restart()
		storetest.Eventually(t, "the mail arrives", func() bool { return slices.Contains(s.subjects(t, "ada@example.org"), "Your plan has ended") })
	})
}
