package sandbox_test

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

const public = "https://api.example"

// testSandbox is a sandbox with one customer and a clock that the test moves.
type testSandbox struct {
	*sandbox.Sandbox

	t        *testing.T
	customer string
	clock    time.Time
}

var schema = servicetest.NewSchema(store.Migrations)

func newSandbox(t *testing.T, databaseURL string) *testSandbox {
	t.Helper()
	d := &testSandbox{t: t, clock: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)}
	db := servicetest.OpenDatabase(t, databaseURL)
	d.Sandbox = sandbox.New(db, public, func() time.Time { return d.clock })
	var err error
	d.customer, err = d.Customer(t.Context(), "acc_1", "ada@example.org", "att_1")
	require.NoError(t, err)
	return d
}

func onBothDatabases(t *testing.T, test func(t *testing.T, d *testSandbox)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) { test(t, newSandbox(t, url)) })
}

// process renews and ends what is due, and delivers the events. The event about a failing
// subscription is not accepted. It returns the subscriptions of all events.
func (d *testSandbox) process(failing string) (about []string) {
	d.t.Helper()
	err := d.Process(d.t.Context(), func(_ context.Context, e subscription.Event) error {
		about = append(about, e.Subscription)
		if e.Subscription == failing {
			return errors.New("no")
		}
		return nil
	})
	require.Equal(d.t, failing != "", err != nil)
	return about
}

func (d *testSandbox) checkout(attempt string) string {
	d.t.Helper()
	page := storetest.Must(d.Checkout(d.t.Context(), subscription.Order{
		Account: "acc_1", Customer: d.customer, ReturnURL: public + "/account/plan", Attempt: attempt,
		ExpiresAt: d.clock.Add(24 * time.Hour),
	}))(d.t)
	require.True(d.t, strings.HasPrefix(page, public+"/billing/sandbox/checkout/"), page)
	return path.Base(page)
}

func (d *testSandbox) portal(customer string) string {
	d.t.Helper()
	page := storetest.Must(d.Portal(d.t.Context(), customer, public+"/account/plan"))(d.t)
	require.True(d.t, strings.HasPrefix(page, public+"/billing/sandbox/portal/"), page)
	return path.Base(page)
}

func (d *testSandbox) pay(session string, declines bool) {
	d.t.Helper()
	require.NoError(d.t, d.Pay(d.t.Context(), session, declines))
}

func (d *testSandbox) onlySubscription() subscription.State {
	d.t.Helper()
	ids := storetest.Must(d.Subscriptions(d.t.Context(), d.customer))(d.t)
	require.Len(d.t, ids, 1)
	state := storetest.Must(d.Subscription(d.t.Context(), ids[0]))(d.t)
	require.Equal(d.t, d.customer, state.Customer)
	require.Equal(d.t, "acc_1", state.Account)
	return state
}

func (d *testSandbox) buy() (portal string, state subscription.State) {
	d.t.Helper()
	d.pay(d.checkout("one"), false)
	return d.portal(d.customer), d.onlySubscription()
}

func (d *testSandbox) perform(portal string, act sandbox.Action) subscription.State {
	d.t.Helper()
	require.NoError(d.t, d.Perform(d.t.Context(), portal, d.onlySubscription().ID, act))
	return d.onlySubscription()
}

// A session is paid at most once, from several tabs too.
func TestPurchase(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		page := d.checkout("one")
		require.Equal(t, page, d.checkout("one"), "two clicks open one session")
		require.NotEqual(t, page, d.checkout("two"))
		require.NoError(t, d.SetCard(t.Context(), d.portal(d.customer), true))

		d.pay(page, true)
		state := d.onlySubscription()
		require.Nil(t, state.Paid, "a declined card pays nothing")
		require.True(t, state.Failing)
		require.False(t, state.Ended)

		tabs := storetest.Together(5, func(int) error { return d.Pay(t.Context(), page, false) })
		require.NoError(t, errors.Join(tabs...))
		state = d.onlySubscription()
		require.False(t, state.Failing)
		require.Equal(t, time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC), state.Paid.Until,
			"to the last day of a shorter month")
		require.Equal(t, []string{state.ID, state.ID}, d.process(""), "an event for each change")
		shown := storetest.Must(d.Session(t.Context(), sandbox.Portal, d.portal(d.customer)))(t)
		require.Len(t, shown.Subscriptions[0].Invoices, 1, "paid once")
		require.False(t, shown.Declines, "the card that has paid is used for renewals")
	})
}

// Pages of what can no longer be paid do not exist.
func TestSessionsThatCannotBePaid(t *testing.T) {
	for name, end := range map[string]func(d *testSandbox){
		"first payment never arrived": func(d *testSandbox) {
			d.clock = d.clock.Add(23 * time.Hour)
			d.process("")
			require.True(d.t, d.onlySubscription().Ended)
		},
		"session expired": func(d *testSandbox) { d.clock = d.clock.Add(24 * time.Hour) },
		"a restored database is used": func(d *testSandbox) {
			require.NoError(d.t, d.ExpireCheckouts(d.t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBothDatabases(t, func(t *testing.T, d *testSandbox) {
				page := d.checkout("one")
				d.pay(page, true)
				end(d)
				_, err := d.Session(t.Context(), sandbox.Checkout, page)
				require.Equal(t, problem.NotFound, problem.Of(err).Code)
				require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), page, false)).Code)
				require.Nil(t, d.onlySubscription().Paid)
			})
		})
	}
}

func TestRenewals(t *testing.T) {
	d := newSandbox(t, schema.SQLite(t))
	portal, first := d.buy()
	renewed := d.perform(portal, sandbox.Advance)
	require.NotEqual(t, first.Paid.Invoice, renewed.Paid.Invoice)
	require.Equal(t, time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC), renewed.Paid.Until,
		"one month after the end of the previous period, which is now")

	require.NoError(t, d.SetCard(t.Context(), portal, true))
	state := d.perform(portal, sandbox.Advance)
	require.True(t, state.Failing)
	require.False(t, state.Ended)
	require.Equal(t, d.clock, state.Paid.Until, "the paid period ends now")

	require.NoError(t, d.SetCard(t.Context(), portal, false))
	state = d.onlySubscription()
	require.False(t, state.Failing, "a working card pays the past-due invoice")
	require.True(t, state.Paid.Until.After(d.clock))

	require.NoError(t, d.SetCard(t.Context(), portal, true))
	d.perform(portal, sandbox.Advance)
	require.True(t, d.perform(portal, sandbox.Advance).Ended, "a whole period went unpaid")
	require.NoError(t, d.SetCard(t.Context(), portal, false))
	require.True(t, d.onlySubscription().Ended)
}

func TestCancelAndResume(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		portal, bought := d.buy()
		require.True(t, d.perform(portal, sandbox.Cancel).CancelAtPeriodEnd)
		require.False(t, d.perform(portal, sandbox.Resume).CancelAtPeriodEnd)
		require.NoError(t, d.SetCancelAtPeriodEnd(t.Context(), bought.ID, true))
		require.NoError(t, d.SetCancelAtPeriodEnd(t.Context(), bought.ID, true))

		require.Error(t, d.Perform(t.Context(), portal, bought.ID, "nonsense"))
		d.clock = bought.Paid.Until.Add(-time.Second)
		d.process("")
		require.False(t, d.onlySubscription().Ended)
		d.clock = d.clock.Add(time.Second)
		d.process("")
		require.True(t, d.onlySubscription().Ended, "without an action")
		require.Equal(t, d.clock, d.onlySubscription().Paid.Until)
		require.Error(t, d.SetCancelAtPeriodEnd(t.Context(), bought.ID, false))
		require.ErrorIs(t, d.SetCancelAtPeriodEnd(t.Context(), "sub_none", true), subscription.ErrNotFound)
	})
}

// A failed event is delivered again, by the next process too. A delivered event is not.
func TestFailedEventsAreDeliveredAgain(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, databaseURL string) {
		d := newSandbox(t, databaseURL)
		for _, attempt := range []string{"one", "two", "three"} {
			d.pay(d.checkout(attempt), false)
		}
		all := storetest.Must(d.Subscriptions(t.Context(), ""))(t)
		require.ElementsMatch(t, all, d.process(all[1]))
		require.Equal(t, all[1:2], d.process(all[1]), "the others were delivered")
		d = newSandbox(t, databaseURL)
		require.Equal(t, all[1:2], d.process(""))
		require.Empty(t, d.process(""))
	})
}

func TestReturnURLMustBeBelowPublicURL(t *testing.T) {
	d := newSandbox(t, schema.SQLite(t))
	for _, elsewhere := range []string{
		"https://evil.example/", "https://api.example.evil.example/", "https://api.example", "http://api.example/account",
		"https://u:p@api.example/", "//api.example/account", "/account", "javascript:alert(1)",
		"https://api.example@evil.example/", "https://api.example:444/",
	} {
		require.Error(t, storetest.Err(d.Portal(t.Context(), d.customer, elsewhere)), elsewhere)
		_, err := d.Checkout(t.Context(), subscription.Order{Customer: d.customer, Attempt: elsewhere, ReturnURL: elsewhere,
			ExpiresAt: d.clock.Add(time.Hour)})
		require.Error(t, err, elsewhere)
	}
}

// A session works only for its own customer and for its own kind of page.
func TestSessionsAreBoundToCustomerAndKind(t *testing.T) {
	d := newSandbox(t, schema.SQLite(t))
	portal, bought := d.buy()
	other := storetest.Must(d.Customer(t.Context(), "acc_2", "", "att_2"))(t)
	_, asCheckout := d.Session(t.Context(), sandbox.Checkout, portal)
	for _, err := range []error{
		d.Perform(t.Context(), d.portal(other), bought.ID, sandbox.Cancel), asCheckout,
		d.Pay(t.Context(), portal, false), d.SetCard(t.Context(), d.checkout("two"), true),
	} {
		require.Equal(t, problem.NotFound, problem.Of(err).Code)
	}
	require.False(t, d.onlySubscription().CancelAtPeriodEnd)
	_, err := d.Portal(t.Context(), "cus_none", public+"/account/plan")
	require.ErrorIs(t, err, subscription.ErrNoCustomer)
	require.ErrorIs(t, storetest.Err(d.Subscription(t.Context(), "sub_none")), subscription.ErrNotFound)
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
