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
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
	"opportunity.internal/services/billing/migrations"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// served is a store with the rights that serving has, and no more.
func served(t *testing.T, url string, clock *time.Time) (*store.Store, *database.DB) {
	t.Helper()
	cfg := database.Config{URL: url, MaxConnections: 4}
	as := cfg
	if cfg.URL[:8] == "postgres" {
		cfg.ServingRole, as.URL = storetest.Role(t, url)
	}
	tel, err := telemetry.Start(t.Context(), "billing", telemetry.Config{LogLevel: slog.LevelError})
	require.NoError(t, err)
	require.NoError(t, database.Migrate(t.Context(), cfg, tel, migrations.Files))
	db, err := database.Open(as, tel)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return store.New(db, func() time.Time { return *clock }), db
}

type entry struct{ Actor, Action, Subject, Detail string }

// Every change says who made it and why, and nobody can change what it says.
func TestAuditLog(t *testing.T) {
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			clock := now
			kept, db := served(t, url, &clock)
			state := subscription.State{ID: "sub_1", Account: "acc_1", Customer: "cus_1", Tier: api.Commercial,
				Paid: &subscription.Payment{Invoice: "in_1", Until: now.AddDate(0, 1, 0)}}
			take := func(why intake.Cause) {
				ticket, err := kept.Ticket(t.Context())
				require.NoError(t, err)
				_, err = kept.Take(t.Context(), intake.Fetched{Ticket: ticket, Cause: why, State: &state})
				require.NoError(t, err)
			}
			take(intake.Cause{Actor: intake.Processor, Event: "evt_1"})
			take(intake.Cause{Actor: intake.Processor, Event: "evt_2"}) // which changes nothing
			state.CancelAtPeriodEnd = true
			take(intake.Cause{Actor: "acc_1", Action: "subscription.cancel"})
			var log []entry
			require.NoError(t, db.Raw("SELECT actor, action, subject, detail FROM audit_log ORDER BY id").Scan(&log).Error)
			var acts []string
			for _, e := range log {
				acts = append(acts, e.Actor+" "+e.Action+" "+e.Subject)
			}
			require.Equal(t, []string{
				"processor subscription.change sub_1", "processor entitlement.change acc_1",
				"acc_1 subscription.cancel sub_1", "acc_1 subscription.change sub_1", "acc_1 entitlement.change acc_1",
			}, acts)
			var detail struct {
				Event    string
				Had, Has api.Entitlement
			}
			require.NoError(t, json.Unmarshal([]byte(log[1].Detail), &detail))
			require.Equal(t, "evt_1", detail.Event)
			require.Equal(t, api.Free, detail.Had.Tier)
			require.Equal(t, api.Commercial, detail.Has.Tier)
			for _, forbidden := range []string{"UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log",
				"INSERT INTO audit_log (id, at, actor, action, subject, detail) SELECT id, at, 'x', action, subject, detail FROM audit_log LIMIT 1"} {
				require.Error(t, db.Exec(forbidden).Error, forbidden)
			}
		})
	}
}

func TestClaimsAreForgottenAfterSixtyDays(t *testing.T) {
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			clock := now
			kept, _ := served(t, url, &clock)
			_, err := kept.Take(t.Context(), intake.Fetched{Cause: intake.Cause{Event: "evt_1"}})
			require.NoError(t, err)
			claimed := func() bool {
				require.NoError(t, kept.Forget(t.Context()))
				claimed, err := kept.Claimed(t.Context(), "evt_1")
				require.NoError(t, err)
				return claimed
			}
			clock = now.AddDate(0, 0, 60)
			require.True(t, claimed())
			clock = clock.Add(time.Second)
			require.False(t, claimed())
		})
	}
}

// A subscription that goes from one account to another takes what it gives with it.
func TestASubscriptionThatChangesItsAccount(t *testing.T) {
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			clock := now
			kept, _ := served(t, url, &clock)
			for i, account := range []string{"acc_2", "acc_1"} {
				_, err := kept.Take(t.Context(), intake.Fetched{Ticket: int64(i + 1), Cause: intake.Cause{Actor: "test"}, State: &subscription.State{
					ID: "sub_1", Account: account, Customer: "cus_1", Tier: api.Commercial, Paid: &subscription.Payment{Until: now.AddDate(0, 1, 0)},
				}})
				require.NoError(t, err)
			}
			for account, tier := range map[string]api.Tier{"acc_2": api.Free, "acc_1": api.Commercial} {
				standing, err := kept.Standing(t.Context(), account)
				require.NoError(t, err)
				require.Equal(t, tier, standing.Entitlement.Tier, account)
			}
			owed, err := kept.Owed(t.Context(), "", 10)
			require.NoError(t, err)
			require.Len(t, owed, 2)
		})
	}
}
