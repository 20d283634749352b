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

// execute runs SQL statements as an operator would, with the service stopped. Each must change a row.
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

// Billing is restored to a time before a purchase that was refunded since. Versions come from the clock, so authquota accepts what the
// reconciliation pushes.
func TestRestore(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		s.afterRestore(now)
		require.NotEmpty(t, reconcile(s).Differences)
		require.Equal(t, api.Refunded, s.waitForPush("acc_1").Trouble)
	})
}

// A customer created after the backup is not reconciled. The next webhook event brings it back.
func TestRestoreToBeforeCustomer(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		events := s.afterRestore(now, "DELETE FROM customers", "DELETE FROM events")
		require.Empty(t, reconcile(s).Differences)
		require.False(t, s.subscription("acc_1").Customer)
		s.sendEvents(events...)
		require.True(t, s.subscription("acc_1").Customer)
		require.Equal(t, api.Refunded, s.waitForPush("acc_1").Trouble)
	})
}

// If billing's clock was ahead before the restore, the new versions are not greater than authquota's. The SQL statement in
// docs/operators/outages.md fixes that.
func TestRestoreAfterClockWasAhead(t *testing.T) {
	page, err := os.ReadFile("../../docs/operators/outages.md")
	require.NoError(t, err)
	found := regexp.MustCompile("`(UPDATE entitlements [^`]*);`").FindSubmatch(page)
	require.NotNil(t, found)
	statement := strings.Join(strings.Fields(string(found[1])), " ")
	onBothDatabases(t, func(t *testing.T, s *service) {
		s.afterRestore(now.Add(10 * 24 * time.Hour))
		require.NotEmpty(t, reconcile(s).Differences)
		storetest.Eventually(t, "pushed", func() bool { return s.HasMetric(`billing_entitlement_pushes_total{outcome="accepted"} 1`) })
		require.Equal(t, api.Refunded, s.subscription("acc_1").Entitlement.Trouble)
		require.Equal(t, api.Commercial, s.authquota.entitlement("acc_1").Tier, "authquota has a greater version")

		s.Stop()
		s.execute(statement)
		s.run()
		require.Equal(t, api.Refunded, s.waitForPush("acc_1").Trouble)
		storetest.Eventually(t, "nothing is pending", func() bool { return s.HasMetric("billing_entitlements_pending 0") })
	})
}

// afterRestore buys the plan with billing's clock at then, refunds it while billing is stopped, and restores the database to before the
// purchase.
func (s *service) afterRestore(then time.Time, more ...string) (events []stripetest.Event) {
	s.t.Helper()
	page := s.checkout("acc_1")
	s.Stop()
	s.cfg.Now = func() time.Time { return then }
	s.run()
	id, events := s.stripe.Pay(page)
	s.sendEvents(events...)
	require.Equal(s.t, api.Commercial, s.waitForPush("acc_1").Tier)
	s.Stop()
	s.stripe.Refund(id, 2900)
	s.execute(append(more, "DELETE FROM subscriptions", "DELETE FROM entitlements")...)
	s.cfg.Now = func() time.Time { return now.Add(time.Minute) }
	s.run()
	return events
}
