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
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/migrations"
)

const public = "https://api.example"

var want = api.CheckoutRequest{Account: "acc_1", Email: "ada@example.org", ReturnURL: public + "/account/plan"}

// shop sells at the sandbox, by a clock that the test moves.
type shop struct {
	sales.Sales

	sandbox *sandbox.Sandbox
	at      time.Time
}

func onBoth(t *testing.T, test func(t *testing.T, s *shop)) {
	for dialect, url := range storetest.Databases(t) {
		t.Run(dialect, func(t *testing.T) {
			tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
			require.NoError(t, err)
			cfg := database.Config{URL: url, MaxConnections: 4}
			require.NoError(t, database.Migrate(t.Context(), cfg, tel, migrations.Files))
			db, err := database.Open(cfg, tel)
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			s := &shop{at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
			now := func() time.Time { return s.at }
			kept := store.New(db, now)
			s.sandbox = sandbox.New(db, public, now)
			s.Sales = sales.Sales{
				Store: kept, Processor: s.sandbox,
				Intake: intake.Intake{Store: kept, Source: s.sandbox, Log: slog.New(slog.DiscardHandler)},
			}
			test(t, s)
		})
	}
}

func (s *shop) checkout(t *testing.T) string {
	t.Helper()
	page, err := s.Checkout(t.Context(), want)
	require.NoError(t, err)
	return page
}

func (s *shop) pay(t *testing.T, page string) error {
	t.Helper()
	return s.sandbox.Pay(t.Context(), strings.TrimPrefix(page, public+sandbox.Path+"checkout/"), false)
}

// late pays, in another tab, as soon as it has said that nothing was bought.
type late struct {
	processor.Processor

	pay func()
}

func (l *late) Subscriptions(ctx context.Context, customer string) ([]string, error) {
	ids, err := l.Processor.Subscriptions(ctx, customer)
	l.pay()
	return ids, err
}

func TestWhoPaysInAnotherTabIsNotSoldASecondOne(t *testing.T) {
	onBoth(t, func(t *testing.T, s *shop) {
		page := s.checkout(t)
		s.Processor = &late{s.sandbox, func() {
			require.NoError(t, s.pay(t, page))
			standing, err := s.Store.Standing(t.Context(), "acc_1")
			require.NoError(t, err)
			ids, err := s.sandbox.Subscriptions(t.Context(), standing.Customer)
			require.NoError(t, err)
			require.Len(t, ids, 1)
			_, err = s.Intake.Announced(t.Context(), processor.Event{ID: "evt_1", Subscription: ids[0]})
			require.NoError(t, err)
		}}
		require.Equal(t, page, s.checkout(t), "the page on which it was bought, not one more to pay on")
	})
}

// A page ends when the next wish to buy gets another one: of two, both could be paid.
func TestOnePageAtATimeCanBePaid(t *testing.T) {
	onBoth(t, func(t *testing.T, s *shop) {
		first := s.checkout(t)
		s.at = s.at.Add(12*time.Hour - time.Second)
		require.Equal(t, first, s.checkout(t))
		s.at = s.at.Add(time.Second)
		second := s.checkout(t)
		require.NotEqual(t, first, second)
		require.Equal(t, problem.NotFound, problem.Of(s.pay(t, first)).Code)
		require.NoError(t, s.pay(t, second))
	})
}

// away is a processor that sells nothing at the moment.
type away struct{ processor.Processor }

func (away) Checkout(context.Context, processor.Order) (processor.Session, error) {
	return processor.Session{}, problem.Unavailable(io.ErrUnexpectedEOF)
}

func TestAPageThatCameLateLivesAsLongAsItMay(t *testing.T) {
	onBoth(t, func(t *testing.T, s *shop) {
		s.Processor = away{s.sandbox}
		_, err := s.Checkout(t.Context(), want)
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
		s.at = s.at.Add(12*time.Hour - time.Second) // Stripe makes no page for the second that is left
		s.Processor = s.sandbox
		page := s.checkout(t)
		s.at = s.at.Add(11 * time.Hour)
		require.NoError(t, s.pay(t, page))
	})
}
