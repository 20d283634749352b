package intake_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
	"opportunity.internal/services/billing/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// opened is a migrated database.
func opened(t *testing.T, url string) *database.DB {
	t.Helper()
	cfg := database.Config{URL: url, MaxConnections: 10}
	tel, err := telemetry.Start(t.Context(), "billing", telemetry.Config{LogLevel: slog.LevelError})
	require.NoError(t, err)
	require.NoError(t, database.Migrate(t.Context(), cfg, tel, migrations.Files))
	db, err := database.Open(cfg, tel)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// money is a processor that changes when the test says so.
type money map[string]subscription.State

func (m money) Subscription(_ context.Context, id string) (subscription.State, error) {
	s, ok := m[id]
	if !ok {
		return s, processor.ErrUnknown
	}
	if s.Paid != nil { // an answer does not change any more
		paid := *s.Paid
		s.Paid = &paid
	}
	return s, nil
}

func (m money) Charge(_ context.Context, invoice string) error {
	for id, s := range m {
		if s.Waiting == invoice {
			s.Waiting, s.Paid = "", &subscription.Payment{Invoice: invoice, Until: now.AddDate(0, 1, 0)}
			m[id] = s
		}
	}
	return nil
}

// life is what happens to one subscription, in the order in which it happens.
var life = []struct {
	name    string
	happens func(*subscription.State)
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

// Each answer was asked for at once when it was announced, and then delayed: whatever the order in which they are written, with one of
// them announced twice, the last that was asked for stays. All six make 720 orders; where the store is the slower one, the first five
// make 120.
func TestAllOrdersOfDelayedAnswersEndAlike(t *testing.T) {
	for name, url := range storetest.Databases(t) {
		steps, orders := life, 720
		if name == database.SQLite {
			steps, orders = life[:5], 120
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := store.New(opened(t, url), func() time.Time { return now })
			n := 0
			permutations(len(steps), func(order []int) {
				n++
				account := fmt.Sprintf("acc_%d", n)
				state := subscription.State{ID: "sub_" + account, Account: account}
				answers := make([]intake.Fetched, len(steps))
				for i, step := range steps {
					step.happens(&state)
					answer, err := money{state.ID: state}.Subscription(t.Context(), state.ID)
					require.NoError(t, err)
					answers[i] = intake.Fetched{Ticket: int64(i + 1), Cause: intake.Cause{Actor: intake.Processor, Event: fmt.Sprintf("evt_%d_%d", n, i)}, State: &answer}
				}
				for i, which := range order {
					change, err := kept.Take(t.Context(), answers[which])
					require.NoError(t, err)
					require.False(t, change.Repeated)
					if i == n%len(order) { // one of them comes again
						change, err = kept.Take(t.Context(), answers[which])
						require.NoError(t, err)
						require.True(t, change.Repeated)
					}
				}
				standing, err := kept.Standing(t.Context(), account)
				require.NoError(t, err)
				require.Equal(t, []subscription.State{state}, standing.States, "order %v", order)
				standing.Entitlement.Version = 0
				require.Equal(t, subscription.Entitle([]subscription.State{state}), standing.Entitlement, "order %v", order)
			})
			require.Equal(t, orders, n)
		})
	}
}

// delivery is one announcement on its way: first a ticket is taken, then the processor is asked, then the answer is kept. Between any
// two of these anything else may happen.
type delivery struct {
	event  processor.Event
	ticket int64
	state  *subscription.State
	step   int
}

// Subscriptions change while announcements of earlier changes are anywhere on their way, twice or late. When all have arrived, what is
// kept is what the processor has.
func TestAnyInterleavingEndsWithWhatTheProcessorHas(t *testing.T) {
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := store.New(opened(t, url), func() time.Time { return now })
			run := 0
			rapid.Check(t, func(rt *rapid.T) {
				run++
				account, happened := fmt.Sprintf("acc_%d", run), map[string]int{}
				has := money{}
				for i := range rapid.IntRange(1, 2).Draw(rt, "subscriptions") {
					id := fmt.Sprintf("sub_%d_%d", run, i)
					has[id] = subscription.State{ID: id, Account: account}
					happened[id] = 0
				}
				var onTheWay []*delivery
				events := 0
				change := func(id string) {
					state := has[id]
					life[happened[id]].happens(&state)
					has[id] = state
					happened[id]++
					events++
					for range rapid.IntRange(1, 2).Draw(rt, "times") {
						onTheWay = append(onTheWay, &delivery{event: processor.Event{ID: fmt.Sprintf("evt_%d_%d", run, events), Subscription: id}})
					}
				}
				ids := []string{fmt.Sprintf("sub_%d_0", run), fmt.Sprintf("sub_%d_%d", run, len(has)-1)}
				for {
					id := rapid.SampledFrom(ids).Draw(rt, "which")
					more := happened[id] < len(life)
					if !more && len(onTheWay) == 0 {
						break
					}
					if more && (len(onTheWay) == 0 || rapid.Bool().Draw(rt, "change")) {
						change(id)
						continue
					}
					i := rapid.IntRange(0, len(onTheWay)-1).Draw(rt, "delivery")
					if onTheWay[i].advance(t, kept, has) {
						onTheWay = append(onTheWay[:i], onTheWay[i+1:]...)
					}
				}
				for id := range has {
					for happened[id] < len(life) { // of the other one too
						change(id)
					}
				}
				for _, d := range onTheWay {
					for !d.advance(t, kept, has) {
					}
				}
				standing, err := kept.Standing(t.Context(), account)
				require.NoError(t, err)
				require.Len(t, standing.States, len(has))
				var states []subscription.State
				for _, s := range standing.States {
					require.Equal(t, has[s.ID], s)
					states = append(states, s)
				}
				standing.Entitlement.Version = 0
				require.Equal(t, subscription.Entitle(states), standing.Entitlement)
			})
		})
	}
}

// advance goes one step on, and reports whether it was the last.
func (d *delivery) advance(t *testing.T, kept *store.Store, has money) (arrived bool) {
	var err error
	switch d.step {
	case 0:
		d.ticket, err = kept.Ticket(t.Context())
	case 1:
		var state subscription.State
		state, err = has.Subscription(t.Context(), d.event.Subscription)
		d.state = &state
	case 2:
		_, err = kept.Take(t.Context(), intake.Fetched{Ticket: d.ticket, Cause: intake.Cause{Actor: intake.Processor, Event: d.event.ID}, State: d.state})
	}
	require.NoError(t, err)
	d.step++
	return d.step == 3
}
