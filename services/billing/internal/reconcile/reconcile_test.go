package reconcile_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var schema = servicetest.NewSchema(store.Migrations)

func newProcessor(t *testing.T) *sandboxtest.Processor {
	t.Helper()
	return sandboxtest.New(t, func() time.Time { return now })
}

// test is a reconciler with its processor and its database.
type test struct {
	reconcile.Reconciler

	t         *testing.T
	processor *sandboxtest.Processor
	db        *database.DB
	changes   int // calls of OnChange
	log       strings.Builder
}

func start(t *testing.T, url string) *test {
	t.Helper()
	s := &test{t: t, processor: newProcessor(t), db: servicetest.OpenDatabase(t, url)}
	clock := func() time.Time { return now }
	s.Reconciler = reconcile.Reconciler{
		Store: store.New(s.db, clock), Processor: s.processor, Now: clock, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		OnChange: func() { s.changes++ },
	}
	return s
}

func onBothDatabases(t *testing.T, do func(t *testing.T, s *test)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) { do(t, start(t, url)) })
}

// refresh applies the state of a subscription, as a webhook event does.
func (s *test) refresh(id string) store.Change {
	s.t.Helper()
	return storetest.Must(s.Refresh(s.t.Context(), id, store.Cause{Actor: "test"}))(s.t)
}

func (s *test) entitlement(account string) api.Entitlement {
	s.t.Helper()
	return storetest.Must(s.Store.Account(s.t.Context(), account))(s.t).Entitlement
}

func (s *test) run() api.BillingReport {
	s.t.Helper()
	return storetest.Must(s.Run(s.t.Context(), "test"))(s.t)
}

func TestOutcomeOfEvent(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *test, id string)
		event   string // what it is about, if not the subscription of acc_1
		want    string // empty: it fails, so the processor sends the event again
		warning bool
	}{
		"no subscription": {event: "none", want: reconcile.Irrelevant},
		"done":            {want: reconcile.Done},
		"unknown account": {event: "unknown", want: reconcile.Irrelevant, warning: true},
		"no such id": {prepare: func(s *test, id string) { s.processor.Remove(id) }, want: reconcile.Irrelevant,
			warning: true},
		"database closed": {prepare: func(s *test, _ string) { s.db.Close() }},
		"processor fails": {prepare: func(s *test, _ string) { s.processor.SetUnavailable(true) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, schema.SQLite(t))
			id, _ := s.processor.Subscribe("", "acc_1")
			switch c.event {
			case "none":
				id = ""
			case "unknown":
				id, _ = s.processor.Subscribe("", "")
			}
			if c.prepare != nil {
				c.prepare(s, id)
			}
			got, err := s.HandleEvent(t.Context(), subscription.Event{ID: "evt_1", Type: "t", Subscription: id})
			require.Equal(t, c.want, got)
			if c.want == "" {
				require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
			}
			require.Equal(t, c.want == reconcile.Done, s.changes == 1)
			require.Equal(t, c.warning, strings.Contains(s.log.String(), "webhook event ignored"), "log")
		})
	}
}

// A process may crash at any step of handling an event. Nothing of the event is stored then, and
// the event has its whole effect when the processor sends it again.
func TestEventHasItsWholeEffectOrNone(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		s := start(t, url)
		id, _ := s.processor.Subscribe("", "acc_1")
		e := subscription.Event{ID: "evt_1", Type: "invoice.paid", Subscription: id}
		for _, step := range []string{"INSERT ON entitlements", "INSERT ON subscriptions", "INSERT ON customers",
			"INSERT ON changes", "UPDATE ON entitlements", "INSERT ON audit_log"} {
			end := servicetest.Crash(t, url, step)
			_, err := s.HandleEvent(t.Context(), e)
			end()
			require.ErrorContains(t, err, "crash", step)
			for _, table := range []string{"entitlements", "subscriptions", "customers", "changes", "audit_log"} {
				rows := int64(0)
				require.NoError(t, s.db.Table(table).Count(&rows).Error)
				require.Zero(t, rows, "%s after a crash before %s", table, step)
			}
		}
		var version int64
		for range 2 {
			require.Equal(t, reconcile.Done, storetest.Must(s.HandleEvent(t.Context(), e))(t))
			require.Equal(t, []string{"acc_1"}, s.pending())
			require.Equal(t, api.Commercial, s.entitlement("acc_1").Tier)
			if version == 0 {
				version = s.entitlement("acc_1").Version
			}
			require.Equal(t, version, s.entitlement("acc_1").Version, "an event that arrives again changes nothing")
		}
	})
}

// buy buys the plan. Billing misses the events.
func (s *test) buy(account string) (id string) {
	s.t.Helper()
	customer := storetest.Must(s.Processor.Customer(s.t.Context(), account, account+"@example.com", "att_"+account))(s.t)
	customer = storetest.Must(s.Store.SaveCustomer(s.t.Context(), account, customer))(s.t)
	id, _ = s.processor.Subscribe(customer, account)
	return id
}

func (s *test) pending() (accounts []string) {
	s.t.Helper()
	due := storetest.Must(s.Store.Due(s.t.Context(), 100))(s.t)
	for _, p := range due {
		accounts = append(accounts, p.Account)
	}
	return accounts
}

func (s *test) pushed(accounts ...string) {
	s.t.Helper()
	for _, account := range accounts {
		require.NoError(s.t, s.Store.MarkPushed(s.t.Context(), account, s.entitlement(account).Version))
	}
	require.Empty(s.t, s.pending())
}

func (s *test) execute(statement string) {
	s.t.Helper()
	done := s.db.Exec(statement)
	require.NoError(s.t, done.Error, statement)
	require.NotZero(s.t, done.RowsAffected, statement)
}

func TestRunCorrectsMissedEvents(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		require.Equal(t, api.BillingReport{Differences: []api.BillingDifference{}}, s.run())
		first := s.buy("acc_1")
		s.refresh(first)
		s.processor.Renew(first, true)
		s.processor.Cancel(first, true)
		bought := s.buy("acc_2")

		report := s.run()
		require.Equal(t, 2, report.Customers)
		require.Equal(t, 2, report.Subscriptions)
		require.Zero(t, report.Failed)
		fields := map[string]api.BillingDifference{}
		for _, d := range report.Differences {
			require.True(t, d.Healed)
			fields[d.Subscription+" "+d.Field] = d
		}
		month := func(n int) string { return now.AddDate(0, n, 0).Format(time.RFC3339) }
		require.Equal(t, api.BillingDifference{
			Account: "acc_1", Subscription: first, Field: "paidUntil", Had: month(1), Has: month(2), Healed: true,
		}, fields[first+" paidUntil"])
		require.Contains(t, fields, first+" cancelAtPeriodEnd")
		require.Equal(t, "acc_2", fields[bought+" account"].Has, "a subscription that was not stored")
		require.Equal(t, api.Commercial, s.entitlement("acc_2").Tier)
		require.Equal(t, now.AddDate(0, 2, 0), *s.entitlement("acc_1").PaidUntil)
		require.Empty(t, s.run().Differences, "already corrected")
	})
}

// After authquota is restored from a backup, reconciling pushes every entitlement again.
func TestRunPushesEveryEntitlementAgain(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		s.refresh(s.buy("acc_1"))
		e := s.entitlement("acc_1")
		require.GreaterOrEqual(t, e.Version, now.UnixMicro(),
			"versions come from the clock, so a restored database issues greater ones")
		s.pushed("acc_1")
		require.Empty(t, s.run().Differences)
		require.Equal(t, e, s.entitlement("acc_1"))
		require.Equal(t, []string{"acc_1"}, s.pending())
	})
}

// A customer that is missing in the database is found by its subscription.
func TestRunFindsUnknownCustomers(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		s.refresh(s.buy("acc_1"))
		paid := s.entitlement("acc_1").PaidUntil
		// names the account, the subscription does not
		customer := storetest.Must(s.Processor.Customer(t.Context(), "acc_2", "ben@example.com", "att_1"))(t)
		s.processor.Subscribe(customer, "")
		s.execute("DELETE FROM customers")
		s.execute("DELETE FROM subscriptions")
		s.execute("DELETE FROM entitlements")
		report := s.run()
		require.Zero(t, report.Customers)
		require.Equal(t, 2, report.Subscriptions)
		found := storetest.Must(s.Store.Account(t.Context(), "acc_1"))(t)
		require.NotEmpty(t, found.Customer)
		require.Equal(t, paid, found.Entitlement.PaidUntil)
		require.Equal(t, api.Commercial, s.entitlement("acc_2").Tier)
		require.Empty(t, s.run().Differences)
	})
}

func TestRunContinuesAfterErrors(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		lost := s.buy("acc_1")
		s.refresh(lost)
		e := s.entitlement("acc_1")
		second := s.buy("acc_2")
		s.processor.Remove(lost)
		report := s.run()
		require.Contains(t, report.Differences, api.BillingDifference{Account: "acc_1", Subscription: lost, Field: "exists",
			Had: "true", Has: "false"})
		require.Zero(t, report.Failed)
		require.Less(t, report.Healed(), len(report.Differences))
		require.Equal(t, e, s.entitlement("acc_1"),
			"the paid period continues: the API key may belong to another Stripe account")
		require.Equal(t, api.Commercial, s.entitlement("acc_2").Tier)

		s.processor.Fail(func(_, about string) error {
			if about == second {
				return problem.Unavailable(errors.New("made to fail"))
			}
			return nil
		})
		report = s.run()
		require.Equal(t, 1, report.Failed)
		require.Equal(t, 2, report.Customers)
	})
}

// Subscriptions that can no longer change are skipped, or the work would grow forever.
func TestRunSkipsFinishedSubscriptions(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		id := s.buy("acc_1")
		s.processor.Delete(id)
		s.refresh(id)
		require.Equal(t, 1, s.run().Subscriptions, "the paid period continues")
		s.processor.Refund(id)
		s.refresh(id)
		require.Equal(t, 0, s.run().Subscriptions)
	})
}

// Winning a dispute restores the rest of the paid period of an ended subscription, even if the
// webhook event was missed.
func TestRunFindsWonDispute(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		id := s.buy("acc_1")
		s.processor.Dispute(id, true)
		s.processor.Delete(id)
		s.refresh(id)
		require.Equal(t, api.Disputed, s.entitlement("acc_1").Trouble)
		s.processor.Dispute(id, false)
		require.Equal(t, 1, s.run().Healed())
		require.Equal(t, api.Commercial, s.entitlement("acc_1").Tier)
	})
}

// Manual changes of the database are found and corrected, even if the subscription itself is
// unchanged.
func TestRunCorrectsManualChanges(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *test) {
		over := s.buy("acc_2")
		s.processor.Refund(over)
		s.processor.Delete(over)
		s.refresh(over)
		id := s.buy("acc_1")
		s.refresh(id)
		free, paid := s.entitlement("acc_2"), s.entitlement("acc_1")
		s.pushed("acc_1", "acc_2")
		until := now.AddDate(0, 1, 0).Format(time.RFC3339)
		for _, c := range []struct {
			name   string
			change string
			found  []api.BillingDifference
		}{
			{
				"granted without payment",
				"UPDATE entitlements SET tier = 'commercial', paid_until = 4102444800000000, trouble = '' WHERE account = 'acc_2'",
				[]api.BillingDifference{{Account: "acc_2", Field: "entitlement", Had: "commercial until 2100-01-01T00:00:00Z",
					Has: "free, refunded", Healed: true}},
			},
			{
				"removed",
				"UPDATE entitlements SET tier = 'free', paid_until = NULL WHERE account = 'acc_1'",
				[]api.BillingDifference{{Account: "acc_1", Field: "entitlement", Had: "free, renews",
					Has: "commercial until " + until + ", renews", Healed: true}},
			},
			{
				"row deleted",
				"DELETE FROM entitlements WHERE account = 'acc_1'",
				[]api.BillingDifference{{Account: "acc_1", Field: "entitlement", Had: "free",
					Has: "commercial until " + until + ", renews", Healed: true}},
			},
			{
				"moved to another account",
				"UPDATE subscriptions SET account = 'acc_2' WHERE account = 'acc_1'",
				[]api.BillingDifference{
					{Account: "acc_1", Field: "entitlement", Had: "commercial until " + until + ", renews", Has: "free", Healed: true},
					{Account: "acc_1", Subscription: id, Field: "account", Had: "acc_2", Has: "acc_1", Healed: true},
				},
			},
		} {
			s.execute(c.change)
			require.Equal(t, c.found, s.run().Differences, c.name)
			require.Empty(t, s.run().Differences, c.name)
			require.Contains(t, s.pending(), "acc_1", c.name)
			one, two := s.entitlement("acc_1"), s.entitlement("acc_2")
			one.Version, two.Version = paid.Version, free.Version
			require.Equal(t, paid, one, c.name)
			require.Equal(t, free, two, c.name)
		}
	})
}
