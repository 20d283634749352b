package sales_test

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

var request = api.ProcessorRequest{Account: "acc_1", Email: "ada@example.org",
	ReturnURL: sandboxtest.PublicURL + "/account/plan"}

// testSales sells through the sandbox, with a clock that the test sets.
type testSales struct {
	sales.Sales

	t         *testing.T
	processor *sandboxtest.Processor
	stripe    *stripe.Stripe // reads events
	time      time.Time
}

var schema = servicetest.NewSchema(store.Migrations)

func onBothDatabases(t *testing.T, test func(t *testing.T, s *testSales)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		s := &testSales{t: t, time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
		now := func() time.Time { return s.time }
		s.processor = sandboxtest.New(t, now)
		s.stripe = stripe.New(stripe.Config{WebhookSecrets: []string{sandboxtest.Secret}}, stripe.Options{})
		repo := store.New(servicetest.OpenDatabase(t, url), now)
		s.Sales = sales.Sales{Reconciler: reconcile.Reconciler{
			Store: repo, Processor: s.processor, Now: now, Log: slog.New(slog.DiscardHandler),
		}}
		test(t, s)
	})
}

func (s *testSales) checkout(t *testing.T) string {
	t.Helper()
	return storetest.Must(s.Checkout(t.Context(), request))(t)
}

func (s *testSales) deliver(events ...sandboxtest.Event) {
	s.t.Helper()
	for _, body := range events {
		e := storetest.Must(s.stripe.Event(s.t.Context(), body, body.Signature(sandboxtest.Secret, s.time), s.time))(s.t)
		storetest.Must(s.HandleEvent(s.t.Context(), e))(s.t)
	}
}

func (s *testSales) buy() (id string) {
	s.t.Helper()
	id, events := s.processor.Pay(s.checkout(s.t))
	s.deliver(events...)
	return id
}

func (s *testSales) account() subscription.Account {
	s.t.Helper()
	return storetest.Must(s.Store.Account(s.t.Context(), "acc_1"))(s.t)
}

func (s *testSales) pay(t *testing.T, page string) error {
	t.Helper()
	return s.processor.Sandbox.Pay(t.Context(), path.Base(page), false)
}

// The payment and its event arrive between the lookup of the subscriptions at the processor and its
// use.
func TestPaymentInAnotherTabDoesNotOpenSecondCheckout(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		page := s.checkout(t)
		s.Processor = afterLookup{s.processor, func() {
			id, _ := s.processor.Pay(page)
			storetest.Must(s.HandleEvent(t.Context(), subscription.Event{ID: "evt_1", Subscription: id}))(t)
		}}
		require.Equal(t, page, s.checkout(t), "the session that was paid, not a second one")
		s.Processor = s.processor
		require.Contains(t, s.checkout(t), "/portal/")
	})
}

// afterLookup calls do after each list of subscriptions.
type afterLookup struct {
	subscription.Processor
	do func()
}

func (l afterLookup) Subscriptions(ctx context.Context, customer string) ([]string, error) {
	ids, err := l.Processor.Subscriptions(ctx, customer)
	l.do()
	return ids, err
}

// A checkout session expires when the next purchase attempt opens another one. Two open sessions
// could both be paid.
func TestOnlyOneCheckoutSessionCanBePaid(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		first := s.checkout(t)
		s.time = s.time.Add(12*time.Hour - time.Second)
		require.Equal(t, first, s.checkout(t))
		s.time = s.time.Add(time.Second)
		second := s.checkout(t)
		require.NotEqual(t, first, second)
		require.Equal(t, problem.NotFound, problem.Of(s.pay(t, first)).Code)
		require.NoError(t, s.pay(t, second))
	})
}

func TestAttemptWithoutSessionIsReplacedBeforeItExpires(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		s.processor.Reject("Checkout")
		require.Error(t, storetest.Err(s.Checkout(t.Context(), request)))
		s.time = s.time.Add(12*time.Hour - time.Second) // Stripe opens no session for less than half an hour
		s.processor.Fail(nil)
		page := s.checkout(t)
		s.time = s.time.Add(11 * time.Hour)
		require.NoError(t, s.pay(t, page))
	})
}

func TestOneCheckoutSessionPerPurchase(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		pages := make([]string, 4)
		require.NoError(t, errors.Join(storetest.Together(len(pages), func(i int) (err error) {
			pages[i], err = s.Checkout(t.Context(), request)
			return err
		})...))
		page := pages[0]
		for _, p := range pages {
			require.Equal(t, page, p, "two clicks open one session")
		}
		id, events := s.processor.Pay(page)
		require.Contains(t, s.checkout(t), "/portal/", "a paid account cannot buy again, even before the webhook event")
		s.deliver(events...)
		require.Contains(t, s.checkout(t), "/portal/")
		s.deliver(s.processor.Cancel(id, true)...)
		require.Contains(t, s.checkout(t), "/portal/", "still paid: it can be resumed in the portal")
		s.deliver(s.processor.Delete(id)...)
		again := s.checkout(t)
		require.Contains(t, again, "/checkout/")
		require.NotEqual(t, page, again, "a new purchase gets a new session")
		other := request
		other.Account = "acc_2"
		require.NotEqual(t, again, storetest.Must(s.Checkout(t.Context(), other))(t))
	})
}

func TestCancelAndResume(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		act := func(do func(context.Context, string) (subscription.Account, error)) api.Subscription {
			account := storetest.Must(do(t.Context(), "acc_1"))(t)
			return account.Summary(false)
		}
		require.Equal(t, api.Subscription{Entitlement: api.Entitlement{Tier: api.Free}}, act(s.Cancel), "nothing to cancel")
		s.buy()
		paid := s.account().Entitlement
		got := act(s.Cancel)
		require.True(t, got.Cancelled && !got.Renewing && !got.Entitlement.Renews)
		require.Equal(t, paid.PaidUntil, got.Entitlement.PaidUntil, "the paid period continues")
		require.Equal(t, got, act(s.Cancel), "already cancelled")
		got = act(s.Resume)
		require.True(t, got.Renewing && !got.Cancelled && got.Entitlement.Renews)
		require.Equal(t, got, act(s.Resume))

		s.processor.SetUnavailable(true)
		_, err := s.Cancel(t.Context(), "acc_1")
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
		require.Equal(t, got, s.account().Summary(false))
	})
}

// Cancelling succeeds if the subscription has already ended at the processor, even before the
// webhook event.
func TestCancelEndedSubscription(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		s.processor.Delete(s.buy())
		account := storetest.Must(s.Cancel(t.Context(), "acc_1"))(t)
		require.False(t, account.Summary(false).Renewing)
		require.False(t, account.Entitlement.Renews)

		s.buy()
		s.processor.Reject("SetCancelAtPeriodEnd")
		require.ErrorContains(t, storetest.Err(s.Cancel(t.Context(), "acc_1")), "lacks the permission")
		require.True(t, s.account().Summary(false).Renewing, "not cancelled")
	})
}

func TestPortal(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		portal := func() (string, error) {
			return s.Portal(t.Context(), api.ProcessorRequest{Account: "acc_1", ReturnURL: request.ReturnURL})
		}
		_, err := portal()
		require.Equal(t, problem.NotFound, problem.Of(err).Code, "not a customer yet")
		s.checkout(t)
		require.Contains(t, storetest.Must(portal())(t), "/portal/")

		s.buy()
		s.processor.DeleteCustomer(s.account().Customer)
		_, err = portal()
		require.Equal(t, problem.NotFound, problem.Of(err).Code)
		require.Equal(t, api.Subscription{Entitlement: s.account().Entitlement}, s.account().Summary(false),
			"neither a customer nor renewing")
	})
}

// An account whose customer was deleted at the processor can buy again, as a new customer, and
// keeps its paid period.
func TestDeletedCustomer(t *testing.T) {
	for name, listed := range map[string]error{"subscriptions listed": nil,
		"subscriptions not listed": subscription.ErrNoCustomer} {
		t.Run(name, func(t *testing.T) {
			onBothDatabases(t, func(t *testing.T, s *testSales) {
				s.buy()
				paid, customer := s.account().Entitlement, s.account().Customer
				endEvents := s.processor.DeleteCustomer(customer)
				s.processor.Fail(func(operation, about string) error {
					if operation == "Subscriptions" && about == customer {
						return listed // Stripe's documentation does not say whether it still lists them
					}
					return nil
				})

				require.Zero(t, storetest.Must(s.Run(t.Context(), "test"))(t).Failed, "a deleted customer is not an error")
				again := s.checkout(t)
				require.Contains(t, again, "/checkout/")
				require.NotEqual(t, customer, storetest.Must(s.processor.Page(again))(t).Customer)
				require.Equal(t, again, s.checkout(t))
				e := s.account().Entitlement
				require.Equal(t, paid.PaidUntil, e.PaidUntil, "the paid period continues")
				require.False(t, e.Renews, "deleting the customer ends its subscriptions")
				s.deliver(endEvents...)
				require.Equal(t, e, s.account().Entitlement)

				id, events := s.processor.Pay(again)
				s.deliver(events...)
				require.True(t, s.account().Entitlement.Renews)
				require.Contains(t, s.checkout(t), "/portal/")
				s.deliver(s.processor.Renew(id, true)...)
				require.True(t, s.account().Entitlement.PaidUntil.After(*paid.PaidUntil))
			})
		})
	}
}

// A subscription stays with its account after the customer is deleted, even if only the customer
// named the account. A dispute still ends access.
func TestDisputeOfDeletedCustomer(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		s.checkout(t)
		id, events := s.processor.Subscribe(s.account().Customer, "")
		s.deliver(events...)
		require.Equal(t, api.Commercial, s.account().Entitlement.Tier)
		s.processor.DeleteCustomer(s.account().Customer)
		require.Contains(t, s.checkout(t), "/checkout/")
		require.Equal(t, api.Commercial, s.account().Entitlement.Tier)
		s.deliver(s.processor.Dispute(id, true)...)
		require.Equal(t, api.Disputed, s.account().Entitlement.Trouble)
	})
}

// Each state of a purchase comes from one place, and a payment supersedes a declined card.
func TestStateOfPurchase(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		is := func(purchase api.Purchase, trouble api.Trouble, what string) {
			t.Helper()
			summary := s.account().Summary(true)
			require.Equal(t, []any{purchase, trouble}, []any{summary.Purchase, summary.Entitlement.Trouble}, what)
		}
		is(api.NoPurchase, api.NoTrouble, "no purchase")
		first := s.checkout(t)
		is(api.PurchaseOpen, api.NoTrouble, "the checkout session is open")
		require.NoError(t, s.processor.Sandbox.Pay(t.Context(), path.Base(first), true))
		s.deliver(s.processor.Events()...)
		is(api.PurchaseDeclined, api.PaymentFailed, "the card was declined")
		require.Equal(t, first, s.checkout(t), "the session is still open")

		s.time = s.time.Add(12 * time.Hour) // the session expires, the declined subscription not yet
		id, events := s.processor.Pay(s.checkout(t))
		s.deliver(events...)
		is(api.PurchasePaid, api.NoTrouble, "another session was paid")
		s.deliver(s.processor.Cancel(id, true)...)
		is(api.PurchasePaid, api.NoTrouble, "it can be resumed")
		s.time = s.time.Add(23 * time.Hour)
		s.deliver(s.processor.Events()...)
		is(api.PurchasePaid, api.NoTrouble, "the end of the declined one changes nothing")
		require.Equal(t, problem.NotFound, problem.Of(s.pay(t, first)).Code)
		s.deliver(s.processor.Delete(id)...)
		is(api.NoPurchase, api.NoTrouble, "the plan can be bought again")
		s.checkout(t)
		is(api.PurchaseOpen, api.NoTrouble, "the next purchase")
		s.time = s.time.Add(12 * time.Hour)
		is(api.NoPurchase, api.NoTrouble, "the session has expired")
	})
}
