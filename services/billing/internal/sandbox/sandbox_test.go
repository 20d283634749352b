package sandbox_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/subscription"
	"opportunity.internal/services/billing/migrations"
)

const public = "https://api.example"

// desk is a sandbox with one customer, a clock that the test moves, and what was announced.
type desk struct {
	*sandbox.Sandbox

	t        *testing.T
	customer string

	mu   sync.Mutex
	at   time.Time
	told []processor.Event
}

func (d *desk) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

func (d *desk) wait(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = d.at.Add(by)
}

func (d *desk) takeIn(_ context.Context, e processor.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, e)
	return nil
}

// kinds are what was announced since the last call.
func (d *desk) kinds() (kinds []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.told {
		kinds = append(kinds, e.Kind)
	}
	d.told = nil
	return kinds
}

func opened(t *testing.T, url string) *database.DB {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	cfg := database.Config{URL: url, MaxConnections: 4}
	require.NoError(t, database.Migrate(t.Context(), cfg, tel, migrations.Files))
	db, err := database.Open(cfg, tel)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// onBothStores runs a test on either dialect. The sandbox runs, and its announcements are taken in.
func onBothStores(t *testing.T, test func(t *testing.T, d *desk)) {
	for dialect, url := range storetest.Databases(t) {
		t.Run(dialect, func(t *testing.T) {
			d := &desk{t: t, at: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)}
			d.Sandbox = sandbox.New(opened(t, url), public, d.now)
			var err error
			d.customer, err = d.Customer(t.Context(), "acc_1", "ada@example.org", "")
			require.NoError(t, err)
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx, slog.New(slog.DiscardHandler), d.takeIn) }()
			t.Cleanup(func() { end(); require.NoError(t, <-ended) })
			test(t, d)
		})
	}
}

// checkout is the id of a page to buy on.
func (d *desk) checkout(attempt string) string {
	d.t.Helper()
	page, err := d.Checkout(d.t.Context(), processor.Order{
		Account: "acc_1", Customer: d.customer, ReturnURL: public + "/account/plan", Attempt: attempt, Until: d.now().Add(24 * time.Hour),
	})
	require.NoError(d.t, err)
	require.Equal(d.t, public+"/billing/sandbox/checkout/"+page.ID, page.URL)
	return page.ID
}

func (d *desk) portalID() string {
	d.t.Helper()
	url, err := d.Portal(d.t.Context(), d.customer, public+"/account/plan")
	require.NoError(d.t, err)
	return strings.TrimPrefix(url, public+"/billing/sandbox/portal/")
}

// only is the state of the one subscription that there is.
func (d *desk) only() subscription.State {
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

// bought is a subscription that was paid, with a portal to act on it.
func (d *desk) bought() (portal string, state subscription.State) {
	d.t.Helper()
	require.NoError(d.t, d.Pay(d.t.Context(), d.checkout("one"), false))
	return d.portalID(), d.only()
}

func (d *desk) do(portal string, act sandbox.Act, days ...int) error {
	return d.Do(d.t.Context(), portal, d.only().ID, act, append(days, 0)[0])
}

func TestAPurchase(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		again, err := d.Customer(t.Context(), "acc_1", "other@example.org", "")
		require.NoError(t, err)
		require.Equal(t, d.customer, again)

		page := d.checkout("one")
		require.Equal(t, page, d.checkout("one"), "two clicks open one page")
		require.NotEqual(t, page, d.checkout("two"))

		require.NoError(t, d.Pay(t.Context(), page, true))
		state := d.only()
		require.Nil(t, state.Paid, "a card that is declined buys nothing")
		require.True(t, state.Failing)
		require.False(t, state.Ended)

		require.NoError(t, d.Pay(t.Context(), page, false))
		require.NoError(t, d.Pay(t.Context(), page, false), "from another tab")
		state = d.only()
		require.False(t, state.Failing)
		require.Equal(t, time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC), state.Paid.Until, "to the last day of a shorter month")
		storetest.Eventually(t, "the announcements", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.told) >= 4
		})
		require.ElementsMatch(t, []string{
			"customer.subscription.created", "invoice.payment_failed", "customer.subscription.updated", "invoice.paid",
		}, d.kinds())
		shown, err := d.Session(t.Context(), sandbox.Portal, d.portalID())
		require.NoError(t, err)
		require.Len(t, shown.Subscriptions[0].Invoices, 1, "paid once")
	})
}

func TestAPageIsPaidOnceByTwoAtOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		page := d.checkout("one")
		var tabs sync.WaitGroup
		for range 5 {
			tabs.Go(func() { require.NoError(t, d.Pay(t.Context(), page, false)) })
		}
		tabs.Wait()
		d.only()
	})
}

func TestAFirstPaymentThatNeverComes(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		page := d.checkout("one")
		require.NoError(t, d.Pay(t.Context(), page, true))
		d.wait(23 * time.Hour)
		storetest.Eventually(t, "its end", func() bool { return d.only().Ended })
		require.False(t, d.only().Failing)
		_, err := d.Session(t.Context(), sandbox.Checkout, page)
		require.Equal(t, problem.NotFound, problem.Of(err).Code)
		require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), page, false)).Code)
		require.Nil(t, d.only().Paid, "what is over is not paid for")
		d.wait(time.Hour)
		require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), page, false)).Code)
	})
}

func TestRenewals(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		portal, first := d.bought()
		require.NoError(t, d.do(portal, sandbox.PastTheEnd))
		renewed := d.only()
		require.NotEqual(t, first.Paid.Invoice, renewed.Paid.Invoice)
		require.Equal(t, time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC), renewed.Paid.Until, "a month from now, where the period before now ends")
	})
}

func TestARenewalThatFails(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		portal, _ := d.bought()
		require.NoError(t, d.SetCard(t.Context(), portal, true))
		require.NoError(t, d.do(portal, sandbox.PastTheEnd))
		state := d.only()
		require.True(t, state.Failing)
		require.False(t, state.Ended)
		require.Equal(t, d.now(), state.Paid.Until, "what was paid before still counts, and no more")

		require.NoError(t, d.SetCard(t.Context(), portal, false))
		state = d.only()
		require.False(t, state.Failing, "a card that works again pays what is owed")
		require.True(t, state.Paid.Until.After(d.now()))

		require.NoError(t, d.SetCard(t.Context(), portal, true))
		require.NoError(t, d.do(portal, sandbox.PastTheEnd))
		require.NoError(t, d.do(portal, sandbox.PastTheEnd))
		require.True(t, d.only().Ended, "nobody paid for a whole period")
		require.NoError(t, d.SetCard(t.Context(), portal, false))
		require.True(t, d.only().Ended)
	})
}

func TestCancelAndResume(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		portal, bought := d.bought()
		require.NoError(t, d.do(portal, sandbox.Cancel))
		require.True(t, d.only().CancelAtPeriodEnd)
		require.NoError(t, d.do(portal, sandbox.Resume))
		require.False(t, d.only().CancelAtPeriodEnd)
		require.NoError(t, d.SetCancel(t.Context(), bought.ID, true))
		require.NoError(t, d.SetCancel(t.Context(), bought.ID, true))

		require.NoError(t, d.do(portal, sandbox.AlmostEnd))
		state := d.only()
		require.False(t, state.Ended)
		require.Equal(t, d.now().Add(10*time.Second), state.Paid.Until)
		require.Equal(t, problem.InvalidParameter, problem.Of(d.do(portal, sandbox.AlmostEnd)).Code)
		d.wait(10 * time.Second)
		storetest.Eventually(t, "its end by the clock alone", func() bool { return d.only().Ended })
		require.Equal(t, d.now(), d.only().Paid.Until)
		require.Error(t, d.SetCancel(t.Context(), bought.ID, false))
		require.ErrorIs(t, d.SetCancel(t.Context(), "sub_none", true), processor.ErrUnknown)
	})
}

func TestMoneyGoesBack(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		portal, _ := d.bought()
		require.Error(t, d.do(portal, sandbox.WinDispute))
		require.NoError(t, d.do(portal, sandbox.DisputeIt))
		require.True(t, d.only().Paid.Disputed)
		require.Error(t, d.do(portal, sandbox.Refund), "the bank has the money")
		require.NoError(t, d.do(portal, sandbox.WinDispute))
		require.False(t, d.only().Paid.Disputed)
		require.NoError(t, d.do(portal, sandbox.Refund))
		require.True(t, d.only().Paid.Refunded)
		require.Error(t, d.do(portal, sandbox.Refund))
		require.NoError(t, d.do(portal, sandbox.PastTheEnd))
		require.False(t, d.only().Paid.Refunded, "the next period is paid for")
	})
}

func TestTheClockMovesByDays(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		portal, bought := d.bought()
		require.NoError(t, d.do(portal, sandbox.Advance, 7))
		require.Equal(t, bought.Paid.Until.AddDate(0, 0, -7), d.only().Paid.Until)
		require.NoError(t, d.do(portal, sandbox.Advance, 100))
		require.True(t, d.only().Paid.Until.After(d.now()), "several renewals at once")
		for _, days := range []int{0, -1, 367} {
			require.Equal(t, problem.InvalidParameter, problem.Of(d.do(portal, sandbox.Advance, days)).Code)
		}
		require.Equal(t, problem.InvalidParameter, problem.Of(d.do(portal, "nonsense")).Code)
	})
}

// A subscription keeps its place on the portal when its clock is moved.
func TestTheNewestComesFirst(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		portal, first := d.bought()
		require.NoError(t, d.Pay(t.Context(), d.checkout("two"), false))
		newest := func() string {
			shown, err := d.Session(t.Context(), sandbox.Portal, portal)
			require.NoError(t, err)
			require.Len(t, shown.Subscriptions, 2)
			return shown.Subscriptions[0].ID
		}
		second := newest()
		require.NotEqual(t, first.ID, second)
		require.NoError(t, d.Do(t.Context(), portal, second, sandbox.AlmostEnd, 0))
		require.Equal(t, second, newest())
	})
}

// What cannot be taken in is told again, also by the next process; what was taken in is not.
func TestAnnouncementsAreTakenIn(t *testing.T) {
	for dialect, url := range storetest.Databases(t) {
		t.Run(dialect, func(t *testing.T) {
			db := opened(t, url)
			start := func() (*desk, chan processor.Event, func()) {
				d := &desk{t: t, at: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)}
				d.Sandbox = sandbox.New(db, public, d.now)
				var err error
				d.customer, err = d.Customer(t.Context(), "acc_1", "", "")
				require.NoError(t, err)
				tries := make(chan processor.Event, 100)
				ctx, end := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- d.Run(ctx, slog.New(slog.DiscardHandler), func(_ context.Context, e processor.Event) error {
						tries <- e
						if e.Kind == "invoice.paid" && d.now().Month() == time.January {
							return errors.New("no")
						}
						return nil
					})
				}()
				return d, tries, func() { end(); require.NoError(t, <-ended) }
			}
			d, tries, end := start()
			page := d.checkout("one")
			require.NoError(t, d.Pay(t.Context(), page, false))
			refused := 0
			for refused < 2 {
				if e := <-tries; e.Kind == "invoice.paid" {
					refused++
				}
			}
			end() // with one left to tell
			d, tries, end = start()
			defer end()
			e := <-tries
			require.Equal(t, "invoice.paid", e.Kind, "the others were taken in")
			require.Equal(t, d.only().ID, e.Subscription)
			d.wait(24 * time.Hour)
			storetest.Eventually(t, "nothing to be left", func() bool {
				var left int64
				require.NoError(t, db.Table("sandbox_events").Count(&left).Error)
				return left == 0
			})
		})
	}
}

func TestPeopleAreSentBackToOurOwnPagesAlone(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		for _, elsewhere := range []string{
			"https://evil.example/", "https://api.example.evil.example/", "https://api.example", "http://api.example/account",
			"https://u:p@api.example/", "//api.example/account", "/account", "javascript:alert(1)", "https://api.example@evil.example/", "https://api.example:444/",
		} {
			_, err := d.Portal(t.Context(), d.customer, elsewhere)
			require.Error(t, err, elsewhere)
			_, err = d.Checkout(t.Context(), processor.Order{Customer: d.customer, Attempt: "x", ReturnURL: elsewhere})
			require.Error(t, err, elsewhere)
		}
	})
}

// A page opens what it was made for, for whom it was made.
func TestAPageIsItsCustomersAlone(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		portal, bought := d.bought()
		other, err := d.Customer(t.Context(), "acc_2", "", "")
		require.NoError(t, err)
		url, err := d.Portal(t.Context(), other, public+"/account/plan")
		require.NoError(t, err)
		theirs := strings.TrimPrefix(url, public+"/billing/sandbox/portal/")
		require.Equal(t, problem.NotFound, problem.Of(d.Do(t.Context(), theirs, bought.ID, sandbox.Refund, 0)).Code)
		require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), portal, false)).Code)
		require.Equal(t, problem.NotFound, problem.Of(d.SetCard(t.Context(), d.checkout("two"), true)).Code)
		_, err = d.Session(t.Context(), sandbox.Checkout, portal)
		require.Equal(t, problem.NotFound, problem.Of(err).Code)
		_, err = d.Subscription(t.Context(), "sub_none")
		require.ErrorIs(t, err, processor.ErrUnknown)
		require.False(t, d.only().Paid.Refunded)
		require.NoError(t, d.CheckOffer(t.Context()))
	})
}

// What the states come to is what the same story comes to at Stripe.
func TestWhatTheStatesEntitleTo(t *testing.T) {
	onBothStores(t, func(t *testing.T, d *desk) {
		is := func(tier api.Tier, until time.Duration, renews bool, trouble api.Trouble) {
			t.Helper()
			want := api.Entitlement{Tier: tier, Renews: renews, Trouble: trouble}
			if tier != api.Free {
				at := d.now().Add(until)
				want.PaidUntil = &at
			}
			require.Equal(t, want, subscription.Entitle([]subscription.State{d.only()}))
		}
		const month = 28 * 24 * time.Hour // from 31 January
		page := d.checkout("one")
		require.NoError(t, d.Pay(t.Context(), page, true))
		is(api.Free, 0, false, api.PaymentFailed)
		require.NoError(t, d.Pay(t.Context(), page, false))
		is(api.Commercial, month, true, api.NoTrouble)
		portal := d.portalID()
		for _, step := range []struct {
			act     sandbox.Act
			tier    api.Tier
			until   time.Duration
			renews  bool
			trouble api.Trouble
		}{
			{sandbox.Cancel, api.Commercial, month, false, api.NoTrouble},
			{sandbox.Resume, api.Commercial, month, true, api.NoTrouble},
			{sandbox.DisputeIt, api.Free, 0, false, api.Disputed},
			{sandbox.WinDispute, api.Commercial, month, true, api.NoTrouble},
			{sandbox.PastTheEnd, api.Commercial, month, true, api.NoTrouble},
			{sandbox.Refund, api.Free, 0, false, api.Refunded},
			{sandbox.PastTheEnd, api.Commercial, month, true, api.NoTrouble},
		} {
			require.NoError(t, d.do(portal, step.act))
			is(step.tier, step.until, step.renews, step.trouble)
		}
		require.NoError(t, d.SetCard(t.Context(), portal, true))
		require.NoError(t, d.do(portal, sandbox.PastTheEnd))
		is(api.Commercial, 0, true, api.PaymentFailed)
		require.NoError(t, d.do(portal, sandbox.PastTheEnd))
		is(api.Commercial, -month, false, api.PaymentFailed)
	})
}
