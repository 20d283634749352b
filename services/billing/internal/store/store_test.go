package store_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// openStore returns a store with the rights that serving has, and no more, and its database.
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schema = servicetest.NewSchema(store.Migrations)

// states are the states at the processor, by id.
type states map[string]subscription.State

// read returns a copy of a state: later changes do not show in it.
func (m states) read(id string) subscription.State {
	s := m[id]
	if s.Paid != nil {
		paid := *s.Paid
		s.Paid = &paid
	}
	return s
}

// transitions are the changes in the life of one subscription, in order.
var transitions = []struct {
	name  string
	apply func(*subscription.State)
}{
	{"created", func(s *subscription.State) {
		*s = subscription.State{ID: s.ID, Account: s.Account, Customer: "cus_" + s.Account, Tier: api.Commercial,
			Failing: true}
	}},
	{"paid", func(s *subscription.State) {
		s.Failing, s.Paid = false, &subscription.Payment{Invoice: "in_1", Until: now.AddDate(0, 1, 0)}
	}},
	{"updated", func(s *subscription.State) {
		s.Paid = &subscription.Payment{Invoice: "in_2", Until: now.AddDate(0, 2, 0)}
	}},
	{"cancelled", func(s *subscription.State) { s.CancelAtPeriodEnd = true }},
	{"deleted", func(s *subscription.State) { s.Ended = true }},
	{"refunded", func(s *subscription.State) {
		s.Paid = &subscription.Payment{Invoice: "in_2", Until: now.AddDate(0, 2, 0), Refunded: true}
	}},
}

// delivery is one event being processed in three steps: take a ticket, read the state, apply it.
// Other deliveries may run in between.
type delivery struct {
	subscription string
	ticket       int64
	state        subscription.State
	step         int
}

// Subscriptions change while events of earlier changes are being processed, late or twice. Once all
// are processed, the store has the processor's state.
func TestAnyInterleavingEndsWithProcessorState(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		repo := store.New(servicetest.OpenDatabase(t, url), func() time.Time { return now })
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			account, applied := fmt.Sprintf("acc_%d", run), map[string]int{}
			processor := states{}
			for i := range rapid.IntRange(1, 2).Draw(rt, "subscriptions") {
				id := fmt.Sprintf("sub_%d_%d", run, i)
				processor[id] = subscription.State{ID: id, Account: account}
				applied[id] = 0
			}
			var deliveries []*delivery
			change := func(id string) {
				state := processor[id]
				transitions[applied[id]].apply(&state)
				processor[id] = state
				applied[id]++
				for range rapid.IntRange(1, 2).Draw(rt, "times") {
					deliveries = append(deliveries, &delivery{subscription: id})
				}
			}
			ids := []string{fmt.Sprintf("sub_%d_0", run), fmt.Sprintf("sub_%d_%d", run, len(processor)-1)}
			for {
				id := rapid.SampledFrom(ids).Draw(rt, "which")
				more := applied[id] < len(transitions)
				if !more && len(deliveries) == 0 {
					break
				}
				if more && (len(deliveries) == 0 || rapid.Bool().Draw(rt, "change")) {
					change(id)
					continue
				}
				i := rapid.IntRange(0, len(deliveries)-1).Draw(rt, "delivery")
				if deliveries[i].advance(t, repo, processor) {
					deliveries = append(deliveries[:i], deliveries[i+1:]...)
				}
			}
			for id := range processor {
				for applied[id] < len(transitions) { // of the other subscription too
					change(id)
				}
			}
			for _, d := range deliveries {
				for !d.advance(t, repo, processor) {
				}
			}
			requireStored(t, repo, account, processor)
		})
	})
}

// advance runs the next step and reports whether it was the last.
func (d *delivery) advance(t *testing.T, repo *store.Store, processor states) (arrived bool) {
	var err error
	switch d.step {
	case 0:
		d.ticket, err = repo.Ticket(t.Context())
	case 1:
		d.state = processor.read(d.subscription)
	case 2:
		_, err = repo.Apply(t.Context(), d.ticket, store.Cause{Actor: "processor"}, d.state)
	}
	require.NoError(t, err)
	d.step++
	return d.step == 3
}

// requireStored asserts that the store has the processor's states of an account and the entitlement
// derived from them.
func requireStored(t *testing.T, repo *store.Store, account string, processor states, msgAndArgs ...any) {
	t.Helper()
	found := storetest.Must(repo.Account(t.Context(), account))(t)
	stored := states{}
	for _, s := range found.States {
		stored[s.ID] = s
	}
	require.Equal(t, processor, stored, msgAndArgs...)
	found.Entitlement.Version = 0
	require.Equal(t, subscription.DeriveEntitlement(found.States), found.Entitlement, msgAndArgs...)
}

// When two subscriptions of an account change concurrently, each change sees the other. Each is
// read twice, concurrently too.
func TestConcurrentChangesOfOneAccount(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		repo := store.New(servicetest.OpenDatabase(t, url), func() time.Time { return now })
		for n := range 20 {
			account := fmt.Sprintf("acc_%d", n)
			apply := func(i int) {
				ticket := storetest.Must(repo.Ticket(t.Context()))(t)
				id := fmt.Sprintf("sub_%d_%d", n, i)
				storetest.Must(repo.Apply(t.Context(), ticket, store.Cause{Actor: "test"}, subscription.State{
					ID: id, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
					Paid: &subscription.Payment{Invoice: "in_" + id, Until: now.Add(time.Duration(i+1) * time.Hour)},
				}))(t)
			}
			apply(0) // makes the account known
			var all sync.WaitGroup
			for _, i := range []int{1, 1, 2, 2} {
				all.Go(func() { apply(i) })
			}
			all.Wait()
			found := storetest.Must(repo.Account(t.Context(), account))(t)
			require.Equal(t, now.Add(3*time.Hour), *found.Entitlement.PaidUntil, account)
		}
	})
}
