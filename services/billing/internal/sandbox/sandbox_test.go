package sandbox_test

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

const public = "https://api.example"

// testSandbox is a sandbox with one customer, a clock that the test moves, and the delivered
// events.
type testSandbox struct {
	*sandbox.Sandbox

	t        *testing.T
	customer string

	mu     sync.Mutex
	clock  time.Time
	events []subscription.Event
}

func (d *testSandbox) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock
}

func (d *testSandbox) advanceClock(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = d.clock.Add(by)
}

func (d *testSandbox) receive(_ context.Context, e subscription.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
	return nil
}

var schema = servicetest.NewSchema(store.Migrations)

func newSandbox(t *testing.T, databaseURL string) *testSandbox {
	t.Helper()
	d := &testSandbox{t: t, clock: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)}
	d.Sandbox = sandbox.New(servicetest.OpenDatabase(t, databaseURL), public, d.now)
	var err error
	d.customer, err = d.Customer(t.Context(), "acc_1", "ada@example.org", "att_1")
	require.NoError(t, err)
	return d
}

func onBothDatabases(t *testing.T, test func(t *testing.T, d *testSandbox)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		d := newSandbox(t, url)
		t.Cleanup(d.run())
		test(t, d)
	})
}

// onSQLite is for tests of rules that do not depend on the database.
func onSQLite(t *testing.T, test func(t *testing.T, d *testSandbox)) {
	test(t, newSandbox(t, schema.SQLite(t)))
}

// run processes events in the background, as the service does, until the returned function is
// called.
func (d *testSandbox) run() (stop func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	loop := service.Loop{Name: "sandbox", Interval: sandbox.Interval, Wake: d.Wakeups(),
		Do: func(ctx context.Context) error { return d.Process(ctx, d.receive) }}
	var ended sync.WaitGroup
	ended.Go(func() { loop.Run(ctx, slog.New(slog.DiscardHandler)) })
	return func() { cancel(); ended.Wait() }
}

// checkout opens a checkout session and returns its id.
func (d *testSandbox) checkout(attempt string) string {
	d.t.Helper()
	page, err := d.Checkout(d.t.Context(), subscription.Order{
		Account: "acc_1", Customer: d.customer, ReturnURL: public + "/account/plan", Attempt: attempt,
		ExpiresAt: d.now().Add(24 * time.Hour),
	})
	require.NoError(d.t, err)
	require.True(d.t, strings.HasPrefix(page, public+"/billing/sandbox/checkout/"), page)
	return path.Base(page)
}

func (d *testSandbox) portal() string {
	d.t.Helper()
	page, err := d.Portal(d.t.Context(), d.customer, public+"/account/plan")
	require.NoError(d.t, err)
	require.True(d.t, strings.HasPrefix(page, public+"/billing/sandbox/portal/"), page)
	return path.Base(page)
}

// onlySubscription returns the state of the customer's only subscription.
func (d *testSandbox) onlySubscription() subscription.State {
	d.t.Helper()
	ids, err := d.Subscriptions(d.t.Context(), d.customer)
	require.NoError(d.t, err)
	require.Len(d.t, ids, 1)
	state, err := d.Subscription(d.t.Context(), ids[0])
	require.NoError(d.t, err)
	require.Equal(d.t, d.customer, state.Customer)
	require.Equal(d.t, "acc_1", state.Account)
	return state
}

// buy pays for a subscription and opens a portal session.
func (d *testSandbox) buy() (portal string, state subscription.State) {
	d.t.Helper()
	require.NoError(d.t, d.Pay(d.t.Context(), d.checkout("one"), false))
	return d.portal(), d.onlySubscription()
}

func (d *testSandbox) perform(portal string, act sandbox.Action, days ...int) error {
	return d.Perform(d.t.Context(), portal, d.onlySubscription().ID, act, append(days, 0)[0])
}

func TestPurchase(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		page := d.checkout("one")
		require.Equal(t, page, d.checkout("one"), "two clicks open one session")
		require.NotEqual(t, page, d.checkout("two"))

		require.NoError(t, d.Pay(t.Context(), page, true))
		state := d.onlySubscription()
		require.Nil(t, state.Paid, "a declined card pays nothing")
		require.True(t, state.Failing)
		require.False(t, state.Ended)

		require.NoError(t, d.Pay(t.Context(), page, false))
		require.NoError(t, d.Pay(t.Context(), page, false), "from another tab")
		state = d.onlySubscription()
		require.False(t, state.Failing)
		require.Equal(t, time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC), state.Paid.Until,
			"to the last day of a shorter month")
		storetest.Eventually(t, "the events", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.events) == 2
		})
		require.Equal(t, state.ID, d.events[1].Subscription)
		require.NotEqual(t, d.events[0].ID, d.events[1].ID)
		shown, err := d.Session(t.Context(), sandbox.Portal, d.portal())
		require.NoError(t, err)
		require.Len(t, shown.Subscriptions[0].Invoices, 1, "paid once")
	})
}

func TestConcurrentPaymentsChargeOnce(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		page := d.checkout("one")
		var tabs sync.WaitGroup
		for range 5 {
			tabs.Go(func() { require.NoError(t, d.Pay(t.Context(), page, false)) })
		}
		tabs.Wait()
		d.onlySubscription()
	})
}

func TestUnpaidFirstInvoiceEndsSubscription(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		page := d.checkout("one")
		require.NoError(t, d.Pay(t.Context(), page, true))
		d.advanceClock(23 * time.Hour)
		storetest.Eventually(t, "the end", func() bool { return d.onlySubscription().Ended })
		_, err := d.Session(t.Context(), sandbox.Checkout, page)
		require.Equal(t, problem.NotFound, problem.Of(err).Code)
		require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), page, false)).Code)
		require.Nil(t, d.onlySubscription().Paid, "an ended subscription cannot be paid")
		d.advanceClock(time.Hour)
		require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), page, false)).Code)
	})
}

func TestRenewals(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		portal, first := d.buy()
		require.NoError(t, d.perform(portal, sandbox.ToPeriodEnd))
		renewed := d.onlySubscription()
		require.NotEqual(t, first.Paid.Invoice, renewed.Paid.Invoice)
		require.Equal(t, time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC), renewed.Paid.Until,
			"one month after the end of the previous period, which is now")
	})
}

func TestFailedRenewal(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		portal, _ := d.buy()
		require.NoError(t, d.SetCard(t.Context(), portal, true))
		require.NoError(t, d.perform(portal, sandbox.ToPeriodEnd))
		state := d.onlySubscription()
		require.True(t, state.Failing)
		require.False(t, state.Ended)
		require.Equal(t, d.now(), state.Paid.Until, "the paid period ends now")

		require.NoError(t, d.SetCard(t.Context(), portal, false))
		state = d.onlySubscription()
		require.False(t, state.Failing, "a working card pays the past-due invoice")
		require.True(t, state.Paid.Until.After(d.now()))

		require.NoError(t, d.SetCard(t.Context(), portal, true))
		require.NoError(t, d.perform(portal, sandbox.ToPeriodEnd))
		require.NoError(t, d.perform(portal, sandbox.ToPeriodEnd))
		require.True(t, d.onlySubscription().Ended, "a whole period went unpaid")
		require.NoError(t, d.SetCard(t.Context(), portal, false))
		require.True(t, d.onlySubscription().Ended)
	})
}

func TestCancelAndResume(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		portal, bought := d.buy()
		require.NoError(t, d.perform(portal, sandbox.Cancel))
		require.True(t, d.onlySubscription().CancelAtPeriodEnd)
		require.NoError(t, d.perform(portal, sandbox.Resume))
		require.False(t, d.onlySubscription().CancelAtPeriodEnd)
		require.NoError(t, d.SetCancelAtPeriodEnd(t.Context(), bought.ID, true))
		require.NoError(t, d.SetCancelAtPeriodEnd(t.Context(), bought.ID, true))

		require.NoError(t, d.perform(portal, sandbox.Advance, 27))
		state := d.onlySubscription()
		require.False(t, state.Ended)
		require.Equal(t, d.now().Add(24*time.Hour), state.Paid.Until)
		d.advanceClock(24 * time.Hour)
		storetest.Eventually(t, "the end, without an action", func() bool { return d.onlySubscription().Ended })
		require.Equal(t, d.now(), d.onlySubscription().Paid.Until)
		require.Error(t, d.SetCancelAtPeriodEnd(t.Context(), bought.ID, false))
		require.ErrorIs(t, d.SetCancelAtPeriodEnd(t.Context(), "sub_none", true), subscription.ErrNotFound)
	})
}

func TestAdvanceMovesClockByDays(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		portal, bought := d.buy()
		require.NoError(t, d.perform(portal, sandbox.Advance, 7))
		require.Equal(t, bought.Paid.Until.AddDate(0, 0, -7), d.onlySubscription().Paid.Until)
		require.NoError(t, d.perform(portal, sandbox.Advance, 100))
		require.True(t, d.onlySubscription().Paid.Until.After(d.now()), "several renewals at once")
		for _, days := range []int{0, -1, 367} {
			require.Equal(t, problem.InvalidParameter, problem.Of(d.perform(portal, sandbox.Advance, days)).Code)
		}
		require.Equal(t, problem.InvalidParameter, problem.Of(d.perform(portal, "nonsense")).Code)
	})
}

// Moving the clock of a subscription does not change its position in the portal.
func TestNewestSubscriptionComesFirst(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		portal, first := d.buy()
		require.NoError(t, d.Pay(t.Context(), d.checkout("two"), false))
		newest := func() string {
			shown, err := d.Session(t.Context(), sandbox.Portal, portal)
			require.NoError(t, err)
			require.Len(t, shown.Subscriptions, 2)
			return shown.Subscriptions[0].ID
		}
		second := newest()
		require.NotEqual(t, first.ID, second)
		require.NoError(t, d.Perform(t.Context(), portal, second, sandbox.Advance, 7))
		require.Equal(t, second, newest())
	})
}

// A failed event is delivered again, by the next process too. A delivered event is not.
func TestFailedEventsAreDeliveredAgain(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, databaseURL string) {
		d := newSandbox(t, databaseURL)
		for _, attempt := range []string{"one", "two", "three"} {
			require.NoError(t, d.Pay(t.Context(), d.checkout(attempt), false))
		}
		deliver := func(failing string) (attempts []string) {
			err := d.Process(t.Context(), func(_ context.Context, e subscription.Event) error {
				attempts = append(attempts, e.Subscription)
				if e.Subscription == failing {
					return errors.New("no")
				}
				return nil
			})
			require.Equal(t, failing != "", err != nil)
			return attempts
		}
		all, err := d.Subscriptions(t.Context(), "")
		require.NoError(t, err)
		require.ElementsMatch(t, all, deliver(all[1]))
		require.Equal(t, all[1:2], deliver(all[1]), "the others were delivered")
		d = newSandbox(t, databaseURL)
		require.Equal(t, all[1:2], deliver(""))
		require.Empty(t, deliver(""))
	})
}

func TestReturnURLMustBeBelowPublicURL(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		for _, elsewhere := range []string{
			"https://evil.example/", "https://api.example.evil.example/", "https://api.example", "http://api.example/account",
			"https://u:p@api.example/", "//api.example/account", "/account", "javascript:alert(1)",
			"https://api.example@evil.example/", "https://api.example:444/",
		} {
			_, err := d.Portal(t.Context(), d.customer, elsewhere)
			require.Error(t, err, elsewhere)
			_, err = d.Checkout(t.Context(), subscription.Order{Customer: d.customer, Attempt: elsewhere, ReturnURL: elsewhere,
				ExpiresAt: d.now().Add(time.Hour)})
			require.Error(t, err, elsewhere)
		}
	})
}

// A session works only for its own customer and for its own kind of page.
func TestSessionsAreBoundToCustomerAndKind(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		portal, bought := d.buy()
		other, err := d.Customer(t.Context(), "acc_2", "", "att_2")
		require.NoError(t, err)
		page, err := d.Portal(t.Context(), other, public+"/account/plan")
		require.NoError(t, err)
		theirs := path.Base(page)
		require.Equal(t, problem.NotFound, problem.Of(d.Perform(t.Context(), theirs, bought.ID, sandbox.Cancel, 0)).Code)
		require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), portal, false)).Code)
		require.Equal(t, problem.NotFound, problem.Of(d.SetCard(t.Context(), d.checkout("two"), true)).Code)
		_, err = d.Session(t.Context(), sandbox.Checkout, portal)
		require.Equal(t, problem.NotFound, problem.Of(err).Code)
		_, err = d.Subscription(t.Context(), "sub_none")
		require.ErrorIs(t, err, subscription.ErrNotFound)
		require.False(t, d.onlySubscription().CancelAtPeriodEnd)
	})
}

// The sandbox's states give the same entitlements as Stripe's in the same situations.
func TestEntitlementsOfSandboxStates(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		is := func(tier api.Tier, until time.Duration, renews bool, trouble api.Trouble) {
			t.Helper()
			want := api.Entitlement{Tier: tier, Renews: renews, Trouble: trouble}
			if tier != api.Free {
				at := d.now().Add(until)
				want.PaidUntil = &at
			}
			require.Equal(t, want, subscription.DeriveEntitlement([]subscription.State{d.onlySubscription()}))
		}
		const month = 28 * 24 * time.Hour // from 31 January
		page := d.checkout("one")
		require.NoError(t, d.Pay(t.Context(), page, true))
		is(api.Free, 0, false, api.PaymentFailed)
		require.NoError(t, d.Pay(t.Context(), page, false))
		is(api.Commercial, month, true, api.NoTrouble)
		portal := d.portal()
		for _, step := range []struct {
			act     sandbox.Action
			tier    api.Tier
			until   time.Duration
			renews  bool
			trouble api.Trouble
		}{
			{sandbox.Cancel, api.Commercial, month, false, api.NoTrouble},
			{sandbox.Resume, api.Commercial, month, true, api.NoTrouble},
			{sandbox.ToPeriodEnd, api.Commercial, month, true, api.NoTrouble},
		} {
			require.NoError(t, d.perform(portal, step.act))
			is(step.tier, step.until, step.renews, step.trouble)
		}
		require.NoError(t, d.SetCard(t.Context(), portal, true))
		require.NoError(t, d.perform(portal, sandbox.ToPeriodEnd))
		is(api.Commercial, 0, true, api.PaymentFailed)
		require.NoError(t, d.perform(portal, sandbox.ToPeriodEnd))
		is(api.Commercial, -month, false, api.PaymentFailed)
	})
}

// Before a restored database is used, no session of it may be paid.
func TestExpiredCheckoutsCannotBePaid(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		page, portal := d.checkout("one"), d.portal()
		require.NoError(t, d.ExpireCheckouts(t.Context()))
		require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), page, false)).Code)
		_, err := d.Session(t.Context(), sandbox.Portal, portal)
		require.NoError(t, err)
	})
}

// Sessions of a customer that does not exist are not opened.
func TestUnknownCustomer(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		_, err := d.Portal(t.Context(), "cus_none", public+"/account/plan")
		require.ErrorIs(t, err, subscription.ErrNoCustomer)
	})
}

func TestDatabaseOutage(t *testing.T) {
	db := servicetest.OpenDatabase(t, schema.SQLite(t))
	broken := sandbox.New(db, public, time.Now)
	require.NoError(t, db.Close())
	_, read := broken.Subscription(t.Context(), "sub_1")
	_, listed := broken.Subscriptions(t.Context(), "")
	_, opened := broken.Session(t.Context(), sandbox.Checkout, "cs_1")
	for _, err := range []error{read, listed, opened, broken.SetCancelAtPeriodEnd(t.Context(), "sub_1", true),
		broken.ExpireCheckouts(t.Context()), broken.Pay(t.Context(), "cs_1", false)} {
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, err)
	}
}
