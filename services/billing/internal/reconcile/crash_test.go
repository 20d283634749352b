package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/subscription"
)

// A process may crash at any step of handling an event. Nothing of the event is stored then, and the
// event has its whole effect when the processor sends it again.
func TestEventHasItsWholeEffectOrNone(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		s := start(t, url)
		id, _ := s.processor.Subscribe("", "acc_1")
		e := subscription.Event{ID: "evt_1", Type: "invoice.paid", Subscription: id}
		for _, step := range []string{"INSERT ON entitlements", "INSERT ON subscriptions", "INSERT ON customers",
			"INSERT ON changes", "UPDATE ON entitlements", "INSERT ON audit_log"} {
			end := servicetest.Crash(t, url, step)
			_, err := s.HandleEvent(t.Context(), e)
			end()
			require.ErrorContains(t, err, "crash", step)
			for _, table := range []string{"entitlements", "subscriptions", "customers", "changes", "audit_log"} {
				rows := int64(0)
				require.NoError(t, s.db.Table(table).Count(&rows).Error)
				require.Zero(t, rows, "%s after a crash before %s", table, step)
			}
		}
		var version int64
		for range 2 {
			require.Equal(t, reconcile.Done, storetest.Must(s.HandleEvent(t.Context(), e))(t))
			require.Equal(t, []string{"acc_1"}, s.pending())
			require.Equal(t, api.Commercial, s.entitlement("acc_1").Tier)
			if version == 0 {
				version = s.entitlement("acc_1").Version
			}
			require.Equal(t, version, s.entitlement("acc_1").Version, "an event that arrives again changes nothing")
		}
	})
}
