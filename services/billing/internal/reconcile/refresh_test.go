package reconcile_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var schema = servicetest.NewSchema(store.Migrations)

func newStripe(t *testing.T) *sandboxtest.Stripe {
	t.Helper()
	return sandboxtest.New(t, func() time.Time { return now })
}

// test is a reconciler with its processor and its database.
type test struct {
	reconcile.Reconciler

	t       *testing.T
	stripe  *sandboxtest.Stripe
	db      *database.DB
	changed []string // accounts
	log     strings.Builder
}

func start(t *testing.T, url string) *test {
	t.Helper()
	s := &test{t: t, stripe: newStripe(t), db: servicetest.OpenDatabase(t, url)}
	clock := func() time.Time { return now }
	s.Reconciler = reconcile.Reconciler{
		Store: store.New(s.db, clock), Stripe: s.stripe.Client(), Now: clock, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		OnChange: func(account string) { s.changed = append(s.changed, account) },
	}
	return s
}

func onBothDatabases(t *testing.T, do func(t *testing.T, s *test)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) { do(t, start(t, url)) })
}

// refresh applies the state of a subscription, as a webhook event does.
func (s *test) refresh(id string) store.Change {
	s.t.Helper()
	change, err := s.Refresh(s.t.Context(), id, store.Cause{Actor: "test"})
	require.NoError(s.t, err)
	return change
}

func (s *test) entitlement(account string) api.Entitlement {
	s.t.Helper()
	found, err := s.Store.Account(s.t.Context(), account)
	require.NoError(s.t, err)
	return found.Entitlement
}

func (s *test) run() api.BillingReport {
	s.t.Helper()
	report, err := s.Run(s.t.Context(), "test")
	require.NoError(s.t, err)
	return report
}

// charges returns the number of invoices that the reconciler has tried to charge.
func (s *test) charges() int {
	return len(slices.DeleteFunc(s.stripe.Requests("POST /v1/invoices/"),
		func(r string) bool { return !strings.HasSuffix(r, "/pay") }))
}

func TestOutcomeOfEvent(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *test, id string)
		event   string
		want    reconcile.Outcome
		failed  bool // and the event is not marked as processed
		warning bool
	}{
		"no subscription": {prepare: func(*test, string) {}, event: "none", want: reconcile.Irrelevant},
		"done":            {prepare: func(*test, string) {}, want: reconcile.Done},
		"processed before": {prepare: func(s *test, id string) {
			_, err := s.HandleEvent(s.t.Context(), stripe.Event{ID: "evt_1", Subscription: id})
			require.NoError(s.t, err)
			s.changed = nil
		}, want: reconcile.Duplicate},
		"unknown account": {prepare: func(*test, string) {}, event: "unknown", want: reconcile.Irrelevant, warning: true},
		"no such id": {prepare: func(s *test, id string) { s.stripe.Remove(id) }, want: reconcile.Irrelevant,
			warning: true},
		"database closed": {prepare: func(s *test, _ string) { s.db.Close() }, want: reconcile.Duplicate, failed: true},
		"processor fails": {prepare: func(s *test, _ string) { s.stripe.SetUnavailable(true) }, failed: true},
		"processor fails after the charge": {prepare: func(s *test, id string) {
			s.stripe.DraftRenewal(id)
			s.stripe.Fail(func(r *http.Request) int {
				if r.Method == http.MethodGet && s.charges() > 0 {
					return http.StatusInternalServerError
				}
				return 0
			})
		}, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, schema.SQLite(t))
			id, _ := s.stripe.Subscribe("", "acc_1")
			switch c.event {
			case "none":
				id = ""
			case "unknown":
				id, _ = s.stripe.Subscribe("", "")
			}
			c.prepare(s, id)
			got, err := s.HandleEvent(t.Context(), stripe.Event{ID: "evt_1", Type: "t", Subscription: id})
			require.Equal(t, c.want, got)
			require.Equal(t, c.failed, err != nil, "%v", err)
			require.Equal(t, c.want == reconcile.Done, len(s.changed) == 1)
			require.Equal(t, c.warning, strings.Contains(s.log.String(), "webhook event ignored"), "log")
			if c.failed {
				require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
			}
			if c.failed && name != "database closed" {
				processed, err := s.Store.EventProcessed(t.Context(), "evt_1")
				require.NoError(t, err)
				require.False(t, processed, "it is sent again")
			}
		})
	}
}

// Stripe charges a renewal an hour after the period has ended. It is charged as soon as it is
// known, so that access is not interrupted.
func TestPendingRenewalIsChargedOnce(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		id, _ := s.stripe.Subscribe("", "acc_1")
		s.refresh(id)
		require.Zero(t, s.charges())
		s.stripe.DraftRenewal(id)
		s.refresh(id)
		require.Equal(t, now.AddDate(0, 2, 0), *s.entitlement("acc_1").PaidUntil)
		s.refresh(id)
		require.Equal(t, 1, s.charges(), "already charged")

		s.stripe.DraftRenewal(id) // its events are lost
		report := s.run()
		require.Zero(t, report.Failed)
		require.Len(t, report.Differences, 2, "the invoice and its period: %v", report.Differences)
		require.Equal(t, 2, s.charges())

		s.stripe.DraftRenewal(id)
		s.stripe.Cancel(id, true)
		s.refresh(id)
		require.Equal(t, 2, s.charges(), "cancelled before the charge: left to Stripe")
		s.stripe.Cancel(id, false)
		s.refresh(id)
		require.Equal(t, 3, s.charges())

		other, _ := s.stripe.Subscribe("", "")
		s.stripe.DraftRenewal(other)
		s.refresh(other)
		require.Equal(t, 3, s.charges(), "subscriptions of unknown accounts are not charged")
	})
}

// An outage during the charge fails the event, so that Stripe sends it again. A declined card does
// not.
func TestRenewalThatCannotBeCharged(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		id, _ := s.stripe.Subscribe("", "acc_1")
		customer := s.refresh(id).After.Customer
		paid := s.entitlement("acc_1")
		s.stripe.DraftRenewal(id)
		for _, step := range []string{"/finalize", "/pay"} {
			s.stripe.Fail(func(r *http.Request) int {
				if strings.HasSuffix(r.URL.Path, step) {
					return http.StatusInternalServerError
				}
				return 0
			})
			_, err := s.Refresh(t.Context(), id, store.Cause{Actor: "test"})
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, step)
			require.Equal(t, paid, s.entitlement("acc_1"))
			require.Equal(t, 1, s.run().Failed)
		}
		s.stripe.Fail(nil)
		s.stripe.Decline(customer, true)
		s.refresh(id)
		e := s.entitlement("acc_1")
		require.Equal(t, api.PaymentFailed, e.Trouble)
		require.Equal(t, paid.PaidUntil, e.PaidUntil, "a declined card neither extends nor shortens the paid period")
		before := s.charges()
		require.Zero(t, s.run().Failed)
		require.Equal(t, before, s.charges(), "Stripe retries the card, billing does not")
	})
}

// If the API key may not charge, the event still succeeds: a failing event would delay Stripe's own
// charge.
func TestRejectedChargeIsLeftToStripe(t *testing.T) {
	s := start(t, schema.SQLite(t))
	id, _ := s.stripe.Subscribe("", "acc_1")
	s.stripe.DraftRenewal(id)
	s.stripe.ForbidWrites("/v1/invoices/")
	s.refresh(id)
	require.Contains(t, s.log.String(), "renewal charge rejected, left to the processor")
	require.Contains(t, s.log.String(), "OPPORTUNITY_STRIPE_API_KEY is invalid or lacks the permission")
	require.Zero(t, s.run().Failed)
	require.EqualValues(t, "draft", s.stripe.Invoice(id).Status)
}
