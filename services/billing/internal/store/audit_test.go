package store_test

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// served is a repo with the rights that serving has, and no more.
func openStore(t *testing.T, url string, clock *time.Time) (*store.Store, *database.DB) {
	t.Helper()
	cfg := database.Config{URL: url, MaxConnections: 4}
	as := cfg
	if cfg.URL[:8] == "postgres" {
		cfg.ServingRole, as.URL = storetest.Role(t, url)
	}
	tel := storetest.Must(telemetry.Start(t.Context(), "billing", telemetry.Config{LogLevel: slog.LevelError}))(t)
	require.NoError(t, database.Migrate(t.Context(), cfg, tel, store.Migrations))
	db := storetest.Must(database.Open(as, tel))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return store.New(db, func() time.Time { return *clock }), db
}

type entry struct{ Actor, Action, Subject, Detail string }

// Every change records its actor and cause, and entries cannot be changed or deleted.
func TestAuditLog(t *testing.T) {
	storetest.OnBothDatabases(t, func(t *testing.T, url string) {
		clock := now
		repo, db := openStore(t, url, &clock)
		state := subscription.State{ID: "sub_1", Account: "acc_1", Customer: "cus_1", Tier: api.Commercial,
			Paid: &subscription.Payment{Invoice: "in_1", Until: now.AddDate(0, 1, 0)}}
		apply := func(cause store.Cause) {
			ticket := storetest.Must(repo.Ticket(t.Context()))(t)
			storetest.Must(repo.Apply(t.Context(), ticket, cause, state))(t)
		}
		apply(store.Cause{Actor: "processor", Event: "evt_1"})
		apply(store.Cause{Actor: "processor", Event: "evt_2"}) // no change
		state.CancelAtPeriodEnd = true
		apply(store.Cause{Actor: "acc_1", Action: "subscription.cancel"})
		var log []entry
		require.NoError(t, db.Raw("SELECT actor, action, subject, detail FROM audit_log ORDER BY id").Scan(&log).Error)
		var actions []string
		for _, e := range log {
			actions = append(actions, e.Actor+" "+e.Action+" "+e.Subject)
		}
		require.Equal(t, []string{
			"processor subscription.change sub_1", "processor entitlement.change acc_1",
			"acc_1 subscription.cancel sub_1", "acc_1 subscription.change sub_1", "acc_1 entitlement.change acc_1",
		}, actions)
		var detail struct {
			Event    string
			Had, Has api.Entitlement
		}
		require.NoError(t, json.Unmarshal([]byte(log[1].Detail), &detail))
		require.Equal(t, "evt_1", detail.Event)
		require.Equal(t, api.Free, detail.Had.Tier)
		require.Equal(t, api.Commercial, detail.Has.Tier)
		for _, forbidden := range []string{"UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log",
			"INSERT INTO audit_log (id, at, actor, action, subject, detail) SELECT id, at, 'x', action, subject, detail " +
				"FROM audit_log LIMIT 1"} {
			require.Error(t, db.Exec(forbidden).Error, forbidden)
		}
	})
}

// Moving a subscription to another account moves its entitlement.
func TestSubscriptionMovesToAnotherAccount(t *testing.T) {
	storetest.OnBothDatabases(t, func(t *testing.T, url string) {
		clock := now
		repo, _ := openStore(t, url, &clock)
		for i, account := range []string{"acc_2", "acc_1"} {
			storetest.Must(repo.Apply(t.Context(), int64(i+1), store.Cause{Actor: "test"}, subscription.State{
				ID: "sub_1", Account: account, Customer: "cus_1", Tier: api.Commercial,
				Paid: &subscription.Payment{Until: now.AddDate(0, 1, 0)},
			}))(t)
		}
		for account, tier := range map[string]api.Tier{"acc_2": api.Free, "acc_1": api.Commercial} {
			require.Equal(t, tier, storetest.Must(repo.Account(t.Context(), account))(t).Entitlement.Tier, account)
		}
		require.Len(t, storetest.Must(repo.Due(t.Context(), 10))(t), 2)
	})
}
