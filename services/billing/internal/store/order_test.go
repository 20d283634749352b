package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

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

// When two subscriptions of an account change concurrently, each change sees the other. Each is read
// twice, concurrently too.
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
