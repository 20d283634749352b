package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
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
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

const public = "https://api.example"

// testSandbox is a sandbox with one customer, a clock that the test moves, and the delivered
// events.
type testSandbox struct {
	*sandbox.Sandbox

	t        *testing.T
	client   *stripe.Stripe
	customer string

	mu     sync.Mutex
	clock  time.Time
	events []string // types
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

// receive checks the signature of an event, as the service does.
func (d *testSandbox) receive(ctx context.Context, body []byte, signature string) error {
	e, err := d.client.Event(ctx, body, signature, d.now())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e.Type)
	return err
}

var schema = servicetest.NewSchema(store.Migrations)

func newSandbox(t *testing.T, databaseURL string) *testSandbox {
	t.Helper()
	d := &testSandbox{t: t, clock: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)}
	d.Sandbox = sandbox.New(servicetest.OpenDatabase(t, databaseURL), public, d.now)
	d.client = stripe.New(stripe.Config{
		APIKey: sandbox.Key, WebhookSecrets: []string{d.Secret}, Price: sandbox.Price, APIBase: "http://stripe.sandbox",
	}, stripe.Options{Transport: sandbox.Transport{API: d.Sandbox}})
	var err error
	d.customer, err = d.client.Customer(t.Context(), "acc_1", "ada@example.org", "att_1")
	require.NoError(t, err)
	return d
}

func onBothDatabases(t *testing.T, test func(t *testing.T, d *testSandbox)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		d := newSandbox(t, url)
		t.Cleanup(d.run(d.receive))
		test(t, d)
	})
}

// onSQLite is for tests of rules that do not depend on the database.
func onSQLite(t *testing.T, test func(t *testing.T, d *testSandbox)) {
	test(t, newSandbox(t, schema.SQLite(t)))
}

// run processes events in the background, as the service does, until the returned function is
// called.
func (d *testSandbox) run(deliver sandbox.Deliver) (stop func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	loop := service.Loop{Name: "sandbox", Interval: sandbox.Interval, Retry: sandbox.Retry, Wake: d.Wakeups(),
		Do: func(ctx context.Context) error { return d.Process(ctx, deliver) }}
	var ended sync.WaitGroup
	ended.Go(func() { loop.Run(ctx, slog.New(slog.DiscardHandler)) })
	return func() { cancel(); ended.Wait() }
}

// checkout opens a checkout session and returns its id.
func (d *testSandbox) checkout(attempt string) string {
	d.t.Helper()
	page, err := d.client.Checkout(d.t.Context(), stripe.Order{
		Account: "acc_1", Customer: d.customer, ReturnURL: public + "/account/plan", Attempt: attempt,
		ExpiresAt: d.now().Add(24 * time.Hour),
	})
	require.NoError(d.t, err)
	require.True(d.t, strings.HasPrefix(page, public+"/billing/sandbox/checkout/"), page)
	return path.Base(page)
}

func (d *testSandbox) portal() string {
	d.t.Helper()
	page, err := d.client.Portal(d.t.Context(), d.customer, public+"/account/plan")
	require.NoError(d.t, err)
	require.True(d.t, strings.HasPrefix(page, public+"/billing/sandbox/portal/"), page)
	return path.Base(page)
}

// onlySubscription returns the state of the customer's only subscription. It charges a pending
// renewal, as the service does.
func (d *testSandbox) onlySubscription() subscription.State {
	d.t.Helper()
	ids, err := d.client.Subscriptions(d.t.Context(), d.customer)
	require.NoError(d.t, err)
	require.Len(d.t, ids, 1)
	state, err := d.client.Subscription(d.t.Context(), ids[0])
	require.NoError(d.t, err)
	if state.PendingInvoice != "" && !state.CancelAtPeriodEnd {
		require.NoError(d.t, d.client.Charge(d.t.Context(), state.PendingInvoice))
		return d.onlySubscription()
	}
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
			return len(d.events) == 5
		})
		require.ElementsMatch(t, []string{
			"customer.subscription.created", "invoice.payment_failed", "customer.subscription.updated", "invoice.paid",
			"checkout.session.completed",
		}, d.events)
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
		require.False(t, d.onlySubscription().Failing)
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
		require.NoError(t, d.client.SetCancelAtPeriodEnd(t.Context(), bought.ID, true))
		require.NoError(t, d.client.SetCancelAtPeriodEnd(t.Context(), bought.ID, true))

		require.NoError(t, d.perform(portal, sandbox.Advance, 27))
		state := d.onlySubscription()
		require.False(t, state.Ended)
		require.Equal(t, d.now().Add(24*time.Hour), state.Paid.Until)
		d.advanceClock(24 * time.Hour)
		storetest.Eventually(t, "the end, without an action", func() bool { return d.onlySubscription().Ended })
		require.Equal(t, d.now(), d.onlySubscription().Paid.Until)
		require.Error(t, d.client.SetCancelAtPeriodEnd(t.Context(), bought.ID, false))
		require.ErrorIs(t, d.client.SetCancelAtPeriodEnd(t.Context(), "sub_none", true), stripe.ErrNotFound)
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
		require.NoError(t, d.Pay(t.Context(), d.checkout("one"), false))
		deliver := func(failing string) (attempts []string) {
			err := d.Process(t.Context(), func(ctx context.Context, body []byte, _ string) error {
				var e struct{ Type string }
				require.NoError(t, json.Unmarshal(body, &e))
				attempts = append(attempts, e.Type)
				if e.Type == failing {
					return errors.New("no")
				}
				return nil
			})
			require.Equal(t, failing != "", err != nil)
			return attempts
		}
		require.Equal(t, []string{"customer.subscription.created", "customer.subscription.updated", "invoice.paid",
			"checkout.session.completed"}, deliver("invoice.paid"))
		require.Equal(t, []string{"invoice.paid"}, deliver("invoice.paid"), "the others were delivered")
		d = newSandbox(t, databaseURL)
		require.Equal(t, []string{"invoice.paid"}, deliver(""))
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
			_, err := d.client.Portal(t.Context(), d.customer, elsewhere)
			require.Error(t, err, elsewhere)
			_, err = d.client.Checkout(t.Context(), stripe.Order{Customer: d.customer, Attempt: elsewhere, ReturnURL: elsewhere,
				ExpiresAt: d.now().Add(time.Hour)})
			require.Error(t, err, elsewhere)
		}
	})
}

// A session works only for its own customer and for its own kind of page.
func TestSessionsAreBoundToCustomerAndKind(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		portal, bought := d.buy()
		other, err := d.client.Customer(t.Context(), "acc_2", "", "att_2")
		require.NoError(t, err)
		page, err := d.client.Portal(t.Context(), other, public+"/account/plan")
		require.NoError(t, err)
		theirs := path.Base(page)
		require.Equal(t, problem.NotFound, problem.Of(d.Perform(t.Context(), theirs, bought.ID, sandbox.Cancel, 0)).Code)
		require.Equal(t, problem.NotFound, problem.Of(d.Pay(t.Context(), portal, false)).Code)
		require.Equal(t, problem.NotFound, problem.Of(d.SetCard(t.Context(), d.checkout("two"), true)).Code)
		_, err = d.Session(t.Context(), sandbox.Checkout, portal)
		require.Equal(t, problem.NotFound, problem.Of(err).Code)
		_, err = d.client.Subscription(t.Context(), "sub_none")
		require.ErrorIs(t, err, stripe.ErrNotFound)
		require.False(t, d.onlySubscription().CancelAtPeriodEnd)
		require.NoError(t, d.client.CheckOffer(t.Context()))
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

// Without a request of the service, a renewal is charged an hour after the end of the period, in
// the background.
func TestDraftIsChargedAfterAnHour(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		portal, bought := d.buy()
		require.NoError(t, d.Perform(t.Context(), portal, bought.ID, sandbox.ToPeriodEnd, 0))
		read := func() subscription.State {
			state, err := d.client.Subscription(t.Context(), bought.ID)
			require.NoError(t, err)
			return state
		}
		require.NotEmpty(t, read().PendingInvoice)
		require.Equal(t, bought.Paid.Invoice, read().Paid.Invoice)
		d.advanceClock(time.Hour)
		storetest.Eventually(t, "the charge", func() bool { return read().Paid.Invoice != bought.Paid.Invoice })
		require.Empty(t, read().PendingInvoice)
	})
}

// call makes a request to the API.
func (d *testSandbox) call(method, target string, form url.Values, header ...string) (status int, body string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, "http://stripe.sandbox"+target,
		strings.NewReader(form.Encode()))
	require.NoError(d.t, err)
	r.Header.Set("Authorization", "Bearer "+sandbox.Key)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := sandbox.Transport{API: d.Sandbox}.RoundTrip(r)
	require.NoError(d.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(d.t, err)
	return resp.StatusCode, string(text)
}

// Mistakes of the client that Stripe rejects are rejected.
func TestRequestsAreAsStrictAsStripes(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		checkout := func(change func(url.Values)) url.Values {
			form := url.Values{
				"mode": {"subscription"}, "customer": {d.customer}, "line_items[0][price]": {sandbox.Price},
				"line_items[0][quantity]": {"1"},
				"success_url":             {public + "/a"}, "cancel_url": {public + "/b"},
				"expires_at": {fmt.Sprint(d.now().Add(time.Hour).Unix())},
			}
			change(form)
			return form
		}
		const sessions = "/v1/checkout/sessions"
		for name, c := range map[string]struct {
			method, target string
			form           url.Values
			header         []string
			status         int
			words          string
		}{
			"as it should be":   {"POST", sessions, checkout(func(url.Values) {}), nil, 200, `"status":"open"`},
			"unknown parameter": {"POST", "/v1/customers", url.Values{"mail": {"x"}}, nil, 400, "parameter_unknown"},
			"unknown in query":  {"GET", "/v1/subscriptions?state=all", nil, nil, 400, "parameter_unknown"},
			"unknown path":      {"GET", "/v1/plans", nil, nil, 404, "Unrecognized request URL"},
			"unknown method":    {"DELETE", "/v1/customers", nil, nil, 404, "Unrecognized request URL"},
			"wrong key": {"GET", "/v1/subscriptions", nil, []string{"Authorization", "Bearer sk_other"}, 401,
				"Invalid API Key"},
			"unknown customer": {"GET", "/v1/subscriptions?customer=cus_x", nil, nil, 400, `"param":"customer"`},
			"buyer unknown": {"POST", sessions, checkout(func(f url.Values) { f.Set("customer", "cus_x") }), nil, 400,
				`"param":"customer"`},
			"other price": {"POST", sessions, checkout(func(f url.Values) { f.Set("line_items[0][price]", "price_x") }),
				nil, 400, "resource_missing"},
			"one payment": {"POST", sessions, checkout(func(f url.Values) { f.Set("mode", "payment") }), nil, 400,
				`"param":"mode"`},
			"expires too soon": {"POST", sessions, checkout(func(f url.Values) {
				f.Set("expires_at",
					fmt.Sprint(d.now().Add(29*time.Minute).Unix()))
			}), nil, 400, "expires_at"},
			"expires too late": {"POST", sessions, checkout(func(f url.Values) {
				f.Set("expires_at",
					fmt.Sprint(d.now().Add(25*time.Hour).Unix()))
			}), nil, 400, "expires_at"},
			"expires at a date": {"POST", sessions, checkout(func(f url.Values) { f.Set("expires_at", "tomorrow") }), nil, 400,
				"expires_at"},
			"nothing to expire":   {"POST", sessions + "/cs_x/expire", nil, nil, 404, "resource_missing"},
			"nothing to finalize": {"POST", "/v1/invoices/in_x/finalize", nil, nil, 404, "resource_missing"},
		} {
			status, body := d.call(c.method, c.target, c.form, c.header...)
			require.Equal(t, c.status, status, "%s: %s", name, body)
			require.Contains(t, body, c.words, name)
		}
	})
}

// A key that is used again repeats the response, and is rejected with other parameters. After a day
// it is forgotten.
func TestIdempotencyKeys(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, d *testSandbox) {
		create := func(email string) (int, string) {
			return d.call(http.MethodPost, "/v1/customers", url.Values{"email": {email}}, "Idempotency-Key", "one")
		}
		_, first := create("a@example.org")
		_, again := create("a@example.org")
		require.Equal(t, first, again)
		status, body := create("b@example.org")
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "idempotency_error")
		d.advanceClock(24 * time.Hour)
		storetest.Eventually(t, "the end of the key", func() bool {
			status, _ := create("b@example.org")
			return status == http.StatusOK
		})
	})
}

// Objects are ids unless they are expanded.
func TestExpansions(t *testing.T) {
	onSQLite(t, func(t *testing.T, d *testSandbox) {
		_, state := d.buy()
		_, body := d.call(http.MethodGet, "/v1/subscriptions/"+state.ID, nil)
		require.Contains(t, body, `"customer":"`+d.customer+`"`)
		_, body = d.call(http.MethodGet, "/v1/subscriptions/"+state.ID+"?expand[0]=customer", nil)
		require.Contains(t, body, `"customer":{"id":"`+d.customer+`"`)
	})
}

// During an outage of the database the client gets an outage of the processor, without waiting for
// retries.
func TestDatabaseOutage(t *testing.T) {
	d := newSandbox(t, schema.SQLite(t))
	page := d.checkout("one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Session(ctx, sandbox.Checkout, page)
	require.Error(t, err)
	db := servicetest.OpenDatabase(t, schema.SQLite(t))
	broken := sandbox.New(db, public, d.now)
	require.NoError(t, db.Close())
	client := stripe.New(stripe.Config{APIKey: sandbox.Key, Price: sandbox.Price, APIBase: "http://stripe.sandbox"},
		stripe.Options{Transport: sandbox.Transport{API: broken}})
	for _, err := range []error{client.SetCancelAtPeriodEnd(t.Context(), "sub_1", true),
		client.ExpireCheckouts(t.Context()), broken.Pay(t.Context(), page, false)} {
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, err)
	}
}
