package billing_test

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/stripetest"
)

// execute changes the database as an operator does, with the service stopped.
func (s *service) execute(statements ...string) {
	s.t.Helper()
	tel, err := telemetry.Start(s.t.Context(), "billing", telemetry.Config{LogLevel: slog.LevelError})
	require.NoError(s.t, err)
	db, err := database.Open(s.cfg.Database, tel)
	require.NoError(s.t, err)
	for _, statement := range statements {
		done := db.Exec(statement)
		require.NoError(s.t, done.Error, statement)
		require.NotZero(s.t, done.RowsAffected, statement)
	}
	require.NoError(s.t, db.Close())
}

// Billing was set back to a time before something was bought, which was refunded since. Its versions are taken from the time, so that what
// the comparison finds reaches authquota.
func TestARestoreOfBilling(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.afterRestore(now)
		require.NotEmpty(t, reconciled(s).Differences)
		require.Equal(t, api.Refunded, s.knows("acc_1").Trouble)
	})
}

// A customer who is newer than the backup is compared by nobody, and is back with what the processor announces once more.
func TestARestoreOfBillingFromBeforeACustomer(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		told := s.afterRestore(now, "DELETE FROM customers", "DELETE FROM events")
		require.Empty(t, reconciled(s).Differences)
		require.False(t, s.standing("acc_1").Customer)
		s.announced(told...)
		require.True(t, s.standing("acc_1").Customer)
		require.Equal(t, api.Refunded, s.knows("acc_1").Trouble)
	})
}

// Where its clock was ahead at that time the versions are not above those that authquota has, and what the page on outages says helps.
func TestARestoreOfBillingWhoseClockWasAhead(t *testing.T) {
	page, err := os.ReadFile("../../docs/operators/outages.md")
	require.NoError(t, err)
	found := regexp.MustCompile("`(UPDATE entitlements [^`]*);`").FindSubmatch(page)
	require.NotNil(t, found)
	statement := strings.Join(strings.Fields(string(found[1])), " ")
	onBoth(t, func(t *testing.T, s *service) {
		s.afterRestore(now.Add(10 * 24 * time.Hour))
		require.NotEmpty(t, reconciled(s).Differences)
		storetest.Eventually(t, "told", func() bool { return s.metric(`billing_entitlement_pushes_total{outcome="accepted"} 1`) })
		require.Equal(t, api.Refunded, s.standing("acc_1").Entitlement.Trouble)
		require.Equal(t, api.Commercial, s.authquota.of("acc_1").Tier, "authquota has heard something newer, it believes")

		s.stop()
		s.execute(statement)
		s.run()
		require.Equal(t, api.Refunded, s.knows("acc_1").Trouble)
		storetest.Eventually(t, "nothing is owed", func() bool { return s.metric("billing_entitlements_pending 0") })
	})
}

// afterRestore has an account buy while billing's clock stands at then, and get its money back while billing is away and set back.
func (s *service) afterRestore(then time.Time, more ...string) (told []stripetest.Event) {
	s.t.Helper()
	page := s.checkout("acc_1")
	s.stop()
	s.cfg.Now = func() time.Time { return then }
	s.run()
	id, told := s.stripe.Pay(page)
	s.announced(told...)
	require.Equal(s.t, api.Commercial, s.knows("acc_1").Tier)
	s.stop()
	s.stripe.Refund(id, 2900)
	s.execute(append(more, "DELETE FROM subscriptions", "DELETE FROM entitlements")...)
	s.cfg.Now = func() time.Time { return now.Add(time.Minute) }
	s.run()
	return told
}
