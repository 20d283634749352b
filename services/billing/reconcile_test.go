package billing_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/billing/internal/stripetest"
)

func TestReconcileCorrectsMissedEvents(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		require.Equal(t, api.BillingReport{Differences: []api.BillingDifference{}}, reconcile(s))
		first, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		s.stripe.Renew(first, true)
		s.stripe.Cancel(first, true)
		bought, _ := s.stripe.Pay(s.checkout("acc_2"))

		report := reconcile(s)
		require.Equal(t, 2, report.Customers)
		require.Equal(t, 2, report.Subscriptions)
		require.Zero(t, report.Failed)
		fields := map[string]api.BillingDifference{}
		for _, d := range report.Differences {
			require.True(t, d.Healed)
			fields[d.Subscription+" "+d.Field] = d
		}
		day := func(n int) string { return now.Add(time.Duration(n) * stripetest.Period).Format(time.RFC3339) }
		require.Equal(t, api.BillingDifference{
			Account: "acc_1", Subscription: first, Field: "paidUntil", Had: day(1), Has: day(2), Healed: true,
		}, fields[first+" paidUntil"])
		require.Contains(t, fields, first+" cancelAtPeriodEnd")
		require.Equal(t, "acc_2", fields[bought+" account"].Has, "a subscription that was not stored")
		require.Equal(t, api.Commercial, s.waitForPush("acc_2").Tier)
		require.Equal(t, now.Add(2*stripetest.Period), *s.waitForPush("acc_1").PaidUntil)
		require.True(t, s.HasMetric(`billing_reconcile_differences_total{field="cancelAtPeriodEnd"} 1`))
		require.Empty(t, reconcile(s).Differences, "already corrected")
	})
}

// After authquota is restored from a backup, reconciling pushes every entitlement again.
func TestReconcileAfterRestoreOfAuthquota(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		_, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		e := s.waitForPush("acc_1")
		require.GreaterOrEqual(t, e.Version, now.UnixMicro(), "versions come from the clock, so a restored database issues greater ones")
		s.Stop() // lets the earlier push finish
		s.authquota.set(func() { clear(s.authquota.entitlements) })
		s.run()
		require.Empty(t, reconcile(s).Differences)
		require.Equal(t, e, s.waitForPush("acc_1"))
	})
}

// A customer that is missing in the database is found by its subscription.
func TestReconcileFindsUnknownCustomers(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		_, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		e := s.waitForPush("acc_1")
		s.stripe.Subscribe(s.stripe.Session(s.checkout("acc_2"))["customer"].(string), map[string]any{}) // the customer names the account
		s.Stop()
		s.execute("DELETE FROM customers", "DELETE FROM subscriptions", "DELETE FROM entitlements")
		s.cfg.Now = func() time.Time { return now.Add(time.Minute) }
		s.run()
		report := reconcile(s)
		require.Zero(t, report.Customers)
		require.Equal(t, 2, report.Subscriptions)
		require.True(t, s.subscription("acc_1").Customer)
		found := s.waitForPush("acc_1")
		require.Greater(t, found.Version, e.Version)
		found.Version = e.Version
		require.Equal(t, e, found)
		require.Equal(t, api.Commercial, s.waitForPush("acc_2").Tier)
		require.Empty(t, reconcile(s).Differences)
	})
}

func TestReconcileContinuesAfterErrors(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		lost, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		e := s.waitForPush("acc_1")
		second, _ := s.stripe.Pay(s.checkout("acc_2"))
		s.stripe.Remove(lost)
		report := reconcile(s)
		require.Contains(t, report.Differences, api.BillingDifference{Account: "acc_1", Subscription: lost, Field: "exists", Had: "true", Has: "false"})
		require.Zero(t, report.Failed)
		require.Less(t, report.Healed(), len(report.Differences))
		require.Equal(t, e, s.waitForPush("acc_1"), "the paid period continues: the API key may belong to another Stripe account")
		require.Equal(t, api.Commercial, s.waitForPush("acc_2").Tier)

		s.stripe.Gate(func(r *http.Request) {
			if r.URL.Path == "/v1/subscriptions/"+second {
				panic(http.ErrAbortHandler)
			}
		})
		report = reconcile(s)
		require.Equal(t, 1, report.Failed)
		require.Equal(t, 2, report.Customers)
	})
}

// Subscriptions that can no longer change are skipped, or the work would grow forever.
func TestReconcileSkipsFinishedSubscriptions(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		s.sendEvents(s.stripe.Delete(id)...)
		require.Equal(t, 1, reconcile(s).Subscriptions, "the paid period continues")
		s.sendEvents(s.stripe.Refund(id, 2900)...)
		require.Equal(t, 0, reconcile(s).Subscriptions)
	})
}

// Winning a dispute restores the rest of the paid period of an ended subscription, even if the webhook event was missed.
func TestReconcileFindsWonDispute(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		s.sendEvents(s.stripe.Dispute(id, "needs_response")...)
		s.sendEvents(s.stripe.Delete(id)...)
		require.Equal(t, api.Disputed, s.waitForPush("acc_1").Trouble)
		s.stripe.Dispute(id, "won")
		require.Equal(t, 1, reconcile(s).Healed())
		require.Equal(t, api.Commercial, s.waitForPush("acc_1").Tier)
	})
}

// Manual changes of the database are found and corrected, even if the subscription itself is unchanged.
func TestReconcileCorrectsManualChanges(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *service) {
		over, events := s.stripe.Pay(s.checkout("acc_2"))
		s.sendEvents(events...)
		s.sendEvents(s.stripe.Refund(over, 2900)...)
		s.sendEvents(s.stripe.Delete(over)...)
		id, events := s.stripe.Pay(s.checkout("acc_1"))
		s.sendEvents(events...)
		free, paid := s.waitForPush("acc_2"), s.waitForPush("acc_1")
		until := now.Add(stripetest.Period).Format(time.RFC3339)
		for i, c := range []struct {
			name   string
			change string
			found  []api.BillingDifference
		}{
			{
				"granted without payment",
				"UPDATE entitlements SET tier = 'commercial', paid_until = 4102444800000000, trouble = '' WHERE account = 'acc_2'",
				[]api.BillingDifference{{Account: "acc_2", Field: "entitlement", Had: "commercial until 2100-01-01T00:00:00Z", Has: "free, refunded", Healed: true}},
			},
			{
				"removed",
				"UPDATE entitlements SET tier = 'free', paid_until = NULL WHERE account = 'acc_1'",
				[]api.BillingDifference{{Account: "acc_1", Field: "entitlement", Had: "free, renews", Has: "commercial until " + until + ", renews", Healed: true}},
			},
			{
				"row deleted",
				"DELETE FROM entitlements WHERE account = 'acc_1'",
				[]api.BillingDifference{{Account: "acc_1", Field: "entitlement", Had: "free", Has: "commercial until " + until + ", renews", Healed: true}},
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
			s.Stop()
			s.execute(c.change)
			at := now.Add(time.Duration(i+1) * time.Minute) // versions come from the clock
			s.cfg.Now = func() time.Time { return at }
			s.run()
			require.Equal(t, c.found, reconcile(s).Differences, c.name)
			require.Empty(t, reconcile(s).Differences, c.name)
			one, two := s.waitForPush("acc_1"), s.waitForPush("acc_2")
			one.Version, two.Version = paid.Version, free.Version
			require.Equal(t, paid, one, c.name)
			require.Equal(t, free, two, c.name)
		}
	})
}

// The reconcile verb works next to a running service, needs only the database and Stripe, and exits with 1 if something could not be
// compared.
func TestReconcileVerb(t *testing.T) {
	program := filepath.Join(t.TempDir(), "billing")
	out, err := exec.Command("go", "build", "-ldflags=-s", "-o", program, "./cmd/billing").CombinedOutput()
	require.NoError(t, err, "%s", out)
	onBothDatabases(t, func(t *testing.T, s *service) {
		verb := func(args ...string) (string, int) {
			c := exec.Command(program, append([]string{"reconcile"}, args...)...)
			c.Env = append(os.Environ(), "OPPORTUNITY_DATABASE_URL="+s.cfg.Database.URL, "OPPORTUNITY_STRIPE_API_KEY="+stripetest.Key,
				"OPPORTUNITY_STRIPE_PRICE="+stripetest.Price, "OPPORTUNITY_STRIPE_API_BASE="+s.stripe.URL, "OPPORTUNITY_LOG_LEVEL=ERROR")
			out, _ := c.CombinedOutput()
			return string(out), c.ProcessState.ExitCode()
		}
		s.stripe.Pay(s.checkout("acc_1"))
		text, code := verb()
		require.Zero(t, code, text)
		require.Contains(t, text, `: tier was "" and is "commercial"`)
		require.Contains(t, text, "compared 1 subscriptions of 1 customers: 5 differences, 5 healed; 0 could not be compared\n")
		storetest.Eventually(t, "the serving process pushes the entitlement", func() bool { return s.authquota.entitlement("acc_1").Tier == api.Commercial })
		text, code = verb("--output", "json")
		require.Zero(t, code, text)
		require.JSONEq(t, `{"customers":1,"subscriptions":1,"failed":0,"differences":[]}`, text)
		s.stripe.SetUnavailable(true)
		text, code = verb()
		require.Equal(t, 1, code)
		require.Contains(t, text, billing.ErrReconcileIncomplete.Error())
		require.NotContains(t, text, stripetest.Key)
		_, code = verb("--all")
		require.Equal(t, 1, code)
	})
}
