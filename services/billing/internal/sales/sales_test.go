package sales_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/migrations"
)

const public = "https://api.example"

var request = api.CheckoutRequest{Account: "acc_1", Email: "ada@example.org", ReturnURL: public + "/account/plan"}

// testSales sells through the sandbox, with a clock that the test sets.
type testSales struct {
	sales.Sales

	sandbox *sandbox.Sandbox
	time    time.Time
}

var schema = servicetest.NewSchema(migrations.Files)

func onBothDatabases(t *testing.T, test func(t *testing.T, s *testSales)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		db := servicetest.OpenDatabase(t, url)
		s := &testSales{time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
		now := func() time.Time { return s.time }
		repo := store.New(db, now)
		s.sandbox = sandbox.New(db, public, now)
		s.Sales = sales.Sales{
			Store: repo, Processor: s.sandbox,
			Intake: intake.Intake{Store: repo, Source: s.sandbox, Log: slog.New(slog.DiscardHandler)},
		}
		test(t, s)
	})
}

func (s *testSales) checkout(t *testing.T) string {
	t.Helper()
	page, err := s.Checkout(t.Context(), request)
	require.NoError(t, err)
	return page
}

func (s *testSales) pay(t *testing.T, page string) error {
	t.Helper()
	return s.sandbox.Pay(t.Context(), strings.TrimPrefix(page, public+sandbox.Path+"checkout/"), false)
}

// payDuringLookup pays in another tab while Checkout lists the subscriptions, after the list was made.
type payDuringLookup struct {
	processor.Processor

	pay func()
}

func (l *payDuringLookup) Subscriptions(ctx context.Context, customer string) ([]string, error) {
	ids, err := l.Processor.Subscriptions(ctx, customer)
	l.pay()
	return ids, err
}

func TestPaymentInAnotherTabDoesNotOpenSecondCheckout(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		page := s.checkout(t)
		s.Processor = &payDuringLookup{s.sandbox, func() {
			require.NoError(t, s.pay(t, page))
			account, err := s.Store.Account(t.Context(), "acc_1")
			require.NoError(t, err)
			ids, err := s.sandbox.Subscriptions(t.Context(), account.Customer)
			require.NoError(t, err)
			require.Len(t, ids, 1)
			_, err = s.Intake.HandleEvent(t.Context(), processor.Event{ID: "evt_1", Subscription: ids[0]})
			require.NoError(t, err)
		}}
		require.Equal(t, page, s.checkout(t), "the session that was paid, not a second one")
	})
}

// A checkout session expires when the next purchase attempt opens another one. Two open sessions could both be paid.
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

// failingCheckout is a processor that cannot open checkout sessions.
type failingCheckout struct{ processor.Processor }

func (failingCheckout) Checkout(context.Context, processor.Order) (processor.Session, error) {
	return processor.Session{}, problem.Unavailable(io.ErrUnexpectedEOF)
}

func TestAttemptWithoutSessionIsReplacedBeforeItExpires(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *testSales) {
		s.Processor = failingCheckout{s.sandbox}
		_, err := s.Checkout(t.Context(), request)
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
		s.time = s.time.Add(12*time.Hour - time.Second) // Stripe opens no session for the remaining second
		s.Processor = s.sandbox
		page := s.checkout(t)
		s.time = s.time.Add(11 * time.Hour)
		require.NoError(t, s.pay(t, page))
	})
}
