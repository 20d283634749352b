package billing_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/billing/internal/sandbox"
)

// The reconcile verb works next to a running service, needs only the database and Stripe, and exits
// with 1 if something could not be compared.
func TestReconcileVerb(t *testing.T) {
	s := start(t, schema.SQLite(t))
	verb := func(args ...string) (string, int) {
		c := exec.Command(os.Args[0], append([]string{"reconcile"}, args...)...)
		c.Env = append(os.Environ(), verbVariable+"=1", "OPPORTUNITY_DATABASE_URL="+s.cfg.Database.URL,
			"OPPORTUNITY_STRIPE_API_KEY="+sandbox.Key,
			"OPPORTUNITY_STRIPE_PRICE="+sandbox.Price, "OPPORTUNITY_STRIPE_API_BASE="+s.cfg.Stripe.APIBase,
			"OPPORTUNITY_LOG_LEVEL=ERROR")
		out, _ := c.CombinedOutput()
		return string(out), c.ProcessState.ExitCode()
	}
	s.stripe.Pay(s.checkout("acc_1"))
	text, code := verb()
	require.Zero(t, code, text)
	require.Contains(t, text, `: tier was "" and is "commercial"`)
	require.Contains(t, text,
		"compared 1 subscriptions of 1 customers: 5 differences, 5 healed; 0 could not be compared\n")
	storetest.Eventually(t, "the serving process pushes the entitlement",
		func() bool { return s.authquota.entitlement("acc_1").Tier == api.Commercial })
	text, code = verb("--output", "json")
	require.Zero(t, code, text)
	require.JSONEq(t, `{"customers":1,"subscriptions":1,"failed":0,"differences":[]}`, text)
	s.stripe.SetUnavailable(true)
	text, code = verb()
	require.Equal(t, 1, code)
	require.Contains(t, text, billing.ErrReconcileIncomplete.Error())
	require.NotContains(t, text, sandbox.Key)
	_, code = verb("--all")
	require.Equal(t, 1, code)
}
