package intake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
	"opportunity.internal/services/billing/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var schema = servicetest.NewSchema(migrations.Files)

// fakeProcessor is a processor whose state the test changes.
type fakeProcessor map[string]subscription.State

func (m fakeProcessor) Subscription(_ context.Context, id string) (subscription.State, error) {
	s, ok := m[id]
	if !ok {
		return s, processor.ErrNotFound
	}
	if s.Paid != nil { // later changes must not show in this result
		paid := *s.Paid
		s.Paid = &paid
	}
	return s, nil
}

func (m fakeProcessor) Charge(_ context.Context, invoice string) error {
	for id, s := range m {
		if s.PendingInvoice == invoice {
			s.PendingInvoice, s.Paid = "", &subscription.Payment{Invoice: invoice, Until: now.AddDate(0, 1, 0)}
			m[id] = s
		}
	}
	return nil
}

// transitions are the changes in the life of one subscription, in order.
var transitions = []struct {
	name  string
	apply func(*subscription.State)
}{
	{"created", func(s *subscription.State) {
		*s = subscription.State{ID: s.ID, Account: s.Account, Customer: "cus_" + s.Account, Tier: api.Commercial, Failing: true}
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

func permutations(n int, each func([]int)) {
	order := make([]int, 0, n)
	used := make([]bool, n)
	var next func()
	next = func() {
		if len(order) == n {
			each(order)
			return
		}
		for i := range n {
			if !used[i] {
				used[i], order = true, append(order, i)
				next()
				used[i], order = false, order[:len(order)-1]
			}
		}
	}
	next()
}

// Every state is read when its event arrives and applied later. In whatever order the states are applied, one of them twice, the one read
// last wins. Six states make 720 orders; SQLite, which is slower, gets the 120 orders of the first five.
func TestStateReadLastWinsInAnyOrder(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		db := servicetest.OpenDatabase(t, url)
		steps, orders := transitions, 720
		if db.Dialect == database.SQLite {
			steps, orders = transitions[:5], 120
		}
		repo := store.New(db, func() time.Time { return now })
		n := 0
		permutations(len(steps), func(order []int) {
			n++
			account := fmt.Sprintf("acc_%d", n)
			state := subscription.State{ID: "sub_" + account, Account: account}
			fetched := make([]intake.Fetched, len(steps))
			for i, step := range steps {
				step.apply(&state)
				read, err := fakeProcessor{state.ID: state}.Subscription(t.Context(), state.ID)
				require.NoError(t, err)
				cause := intake.Cause{Actor: intake.ActorProcessor, Event: fmt.Sprintf("evt_%d_%d", n, i)}
				fetched[i] = intake.Fetched{Ticket: int64(i + 1), Cause: cause, State: &read}
			}
			for i, next := range order {
				change, err := repo.Apply(t.Context(), fetched[next])
				require.NoError(t, err)
				require.False(t, change.Duplicate)
				if i == n%len(order) { // duplicate delivery
					change, err = repo.Apply(t.Context(), fetched[next])
					require.NoError(t, err)
					require.True(t, change.Duplicate)
				}
			}
			requireStored(t, repo, account, fakeProcessor{state.ID: state}, "order %v", order)
		})
		require.Equal(t, orders, n)
	})
}

// delivery is one event being processed in three steps: take a ticket, read the state, apply it. Other deliveries may run in between.
type delivery struct {
	event  processor.Event
	ticket int64
	state  *subscription.State
	step   int
}

// Subscriptions change while events of earlier changes are being processed, late or twice. Once all are processed, the store has the
// processor's state.
func TestAnyInterleavingEndsWithProcessorState(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		repo := store.New(servicetest.OpenDatabase(t, url), func() time.Time { return now })
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			account, applied := fmt.Sprintf("acc_%d", run), map[string]int{}
			fake := fakeProcessor{}
			for i := range rapid.IntRange(1, 2).Draw(rt, "subscriptions") {
				id := fmt.Sprintf("sub_%d_%d", run, i)
				fake[id] = subscription.State{ID: id, Account: account}
				applied[id] = 0
			}
			var deliveries []*delivery
			events := 0
			change := func(id string) {
				state := fake[id]
				transitions[applied[id]].apply(&state)
				fake[id] = state
				applied[id]++
				events++
				for range rapid.IntRange(1, 2).Draw(rt, "times") {
					deliveries = append(deliveries, &delivery{event: processor.Event{ID: fmt.Sprintf("evt_%d_%d", run, events), Subscription: id}})
				}
			}
			ids := []string{fmt.Sprintf("sub_%d_0", run), fmt.Sprintf("sub_%d_%d", run, len(fake)-1)}
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
				if deliveries[i].advance(t, repo, fake) {
					deliveries = append(deliveries[:i], deliveries[i+1:]...)
				}
			}
			for id := range fake {
				for applied[id] < len(transitions) { // of the other subscription too
					change(id)
				}
			}
			for _, d := range deliveries {
				for !d.advance(t, repo, fake) {
				}
			}
			requireStored(t, repo, account, fake)
		})
	})
}

// advance runs the next step and reports whether it was the last.
func (d *delivery) advance(t *testing.T, repo *store.Store, fake fakeProcessor) (arrived bool) {
	var err error
	switch d.step {
	case 0:
		d.ticket, err = repo.Ticket(t.Context())
	case 1:
		var state subscription.State
		state, err = fake.Subscription(t.Context(), d.event.Subscription)
		d.state = &state
	case 2:
		_, err = repo.Apply(t.Context(), intake.Fetched{Ticket: d.ticket, Cause: intake.Cause{Actor: intake.ActorProcessor, Event: d.event.ID}, State: d.state})
	}
	require.NoError(t, err)
	d.step++
	return d.step == 3
}

// requireStored asserts that the store has the processor's states of an account and the entitlement derived from them.
func requireStored(t *testing.T, repo *store.Store, account string, fake fakeProcessor, msgAndArgs ...any) {
	t.Helper()
	found, err := repo.Account(t.Context(), account)
	require.NoError(t, err)
	stored := fakeProcessor{}
	for _, s := range found.States {
		stored[s.ID] = s
	}
	require.Equal(t, fake, stored, msgAndArgs...)
	found.Entitlement.Version = 0
	require.Equal(t, subscription.DeriveEntitlement(found.States), found.Entitlement, msgAndArgs...)
}
