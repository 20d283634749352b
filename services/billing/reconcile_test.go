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

func TestReconcileHealsWhatWasNeverAnnounced(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		require.Equal(t, api.BillingReport{Differences: []api.BillingDifference{}}, reconciled(s))
		first, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		s.stripe.Renew(first, true)
		s.stripe.Cancel(first, true)
		bought, _ := s.stripe.Pay(s.checkout("acc_2"))

		report := reconciled(s)
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
		require.Equal(t, "acc_2", fields[bought+" account"].Has, "one that nothing was known of")
		require.Equal(t, api.Commercial, s.knows("acc_2").Tier)
		require.Equal(t, now.Add(2*stripetest.Period), *s.knows("acc_1").PaidUntil)
		require.True(t, s.metric(`billing_reconcile_differences_total{field="cancelAtPeriodEnd"} 1`))
		require.Empty(t, reconciled(s).Differences, "healed")
	})
}

// Authquota, set back to a backup, is told of everything again; so is what billing lost with a backup of its own, under versions that
// authquota has not seen.
func TestReconcileAfterABackup(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		_, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		e := s.knows("acc_1")
		require.GreaterOrEqual(t, e.Version, now.UnixMicro(), "no older state of the database reaches it")
		s.stop() // or the answer of before may still be on its way to be kept
		s.authquota.set(func() { clear(s.authquota.kept) })
		s.run()
		require.Empty(t, reconciled(s).Differences)
		require.Equal(t, e, s.knows("acc_1"))
	})
}

func TestReconcileGoesOnWhereSomethingIsMissing(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		lost, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		e := s.knows("acc_1")
		second, _ := s.stripe.Pay(s.checkout("acc_2"))
		s.stripe.Lose(lost)
		report := reconciled(s)
		require.Contains(t, report.Differences, api.BillingDifference{Account: "acc_1", Subscription: lost, Field: "exists", Had: "true", Has: "false"})
		require.Zero(t, report.Failed)
		require.Less(t, report.Healed(), len(report.Differences))
		require.Equal(t, e, s.knows("acc_1"), "what was paid for ends by itself, and nobody loses it by a wrong key")
		require.Equal(t, api.Commercial, s.knows("acc_2").Tier)

		s.stripe.Gate(func(r *http.Request) {
			if r.URL.Path == "/v1/subscriptions/"+second {
				panic(http.ErrAbortHandler)
			}
		})
		report = reconciled(s)
		require.Equal(t, 1, report.Failed)
		require.Equal(t, 2, report.Customers)
	})
}

// What has ended for good is compared no more, or the work would grow for ever.
func TestWhatIsOverIsNotCompared(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		s.announced(s.stripe.Delete(id)...)
		require.Equal(t, 1, reconciled(s).Subscriptions, "what it gave runs on")
		s.announced(s.stripe.Refund(id, 2900)...)
		require.Equal(t, 0, reconciled(s).Subscriptions)
	})
}

// A dispute that was won gives back what is left of a subscription that has ended in the meantime, also where nobody announced it.
func TestADisputeThatWasWonUnannounced(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		s.announced(s.stripe.Dispute(id, "needs_response")...)
		s.announced(s.stripe.Delete(id)...)
		require.Equal(t, api.Disputed, s.knows("acc_1").Trouble)
		s.stripe.Dispute(id, "won")
		require.Equal(t, 1, reconciled(s).Healed())
		require.Equal(t, api.Commercial, s.knows("acc_1").Tier)
	})
}

// What somebody has changed in the database by hand is found and set right, also where the subscription itself is as it was.
func TestReconcileHealsWhatWasChangedByHand(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		over, told := s.stripe.Pay(s.checkout("acc_2"))
		s.announced(told...)
		s.announced(s.stripe.Refund(over, 2900)...)
		s.announced(s.stripe.Delete(over)...)
		id, told := s.stripe.Pay(s.checkout("acc_1"))
		s.announced(told...)
		free, paid := s.knows("acc_2"), s.knows("acc_1")
		until := now.Add(stripetest.Period).Format(time.RFC3339)
		for i, c := range []struct {
			name   string
			change string
			found  []api.BillingDifference
		}{
			{
				"given for nothing",
				"UPDATE entitlements SET tier = 'commercial', paid_until = 4102444800000000, trouble = '' WHERE account = 'acc_2'",
				[]api.BillingDifference{{Account: "acc_2", Field: "entitlement", Had: "commercial until 2100-01-01T00:00:00Z", Has: "free, refunded", Healed: true}},
			},
			{
				"taken",
				"UPDATE entitlements SET tier = 'free', paid_until = NULL WHERE account = 'acc_1'",
				[]api.BillingDifference{{Account: "acc_1", Field: "entitlement", Had: "free, renews", Has: "commercial until " + until + ", renews", Healed: true}},
			},
			{
				"lost",
				"DELETE FROM entitlements WHERE account = 'acc_1'",
				[]api.BillingDifference{{Account: "acc_1", Field: "entitlement", Had: "free", Has: "commercial until " + until + ", renews", Healed: true}},
			},
			{
				"another's",
				"UPDATE subscriptions SET account = 'acc_2' WHERE account = 'acc_1'",
				[]api.BillingDifference{
					{Account: "acc_1", Field: "entitlement", Had: "commercial until " + until + ", renews", Has: "free", Healed: true},
					{Account: "acc_1", Subscription: id, Field: "account", Had: "acc_2", Has: "acc_1", Healed: true},
				},
			},
		} {
			s.stop()
			s.execute(c.change)
			at := now.Add(time.Duration(i+1) * time.Minute) // versions are taken from the time
			s.cfg.Now = func() time.Time { return at }
			s.run()
			require.Equal(t, c.found, reconciled(s).Differences, c.name)
			require.Empty(t, reconciled(s).Differences, c.name)
			one, two := s.knows("acc_1"), s.knows("acc_2")
			one.Version, two.Version = paid.Version, free.Version
			require.Equal(t, paid, one, c.name)
			require.Equal(t, free, two, c.name)
		}
	})
}

// The verb of the binary does the same beside a running service, with nothing but the database and Stripe, and tells by its exit code
// whether all was compared.
func TestReconcileVerb(t *testing.T) {
	program := filepath.Join(t.TempDir(), "billing")
	out, err := exec.Command("go", "build", "-o", program, "./cmd/billing").CombinedOutput()
	require.NoError(t, err, "%s", out)
	onBoth(t, func(t *testing.T, s *service) {
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
		storetest.Eventually(t, "the serving process tells authquota", func() bool { return s.authquota.of("acc_1").Tier == api.Commercial })
		text, code = verb("--output", "json")
		require.Zero(t, code, text)
		require.JSONEq(t, `{"customers":1,"subscriptions":1,"failed":0,"differences":[]}`, text)
		s.stripe.Away(true)
		text, code = verb()
		require.Equal(t, 1, code)
		require.Contains(t, text, billing.ErrNotCompared.Error())
		require.NotContains(t, text, stripetest.Key)
		_, code = verb("--all")
		require.Equal(t, 1, code)
	})
}
