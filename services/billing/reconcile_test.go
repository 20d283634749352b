package billing_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/billing"
)

// The reconcile verb works next to a running service, needs only the database and the processor,
// and exits with 1 if something could not be compared.
func TestReconcileVerb(t *testing.T) {
	url := schema.SQLite(t)
	s := startSandbox(t, url)
	db := servicetest.OpenDatabase(t, url)
	execute := func(statement string) {
		t.Helper()
		done := db.Exec(statement)
		require.NoError(t, done.Error)
		require.NotZero(t, done.RowsAffected, statement)
	}
	verb := func(args ...string) (string, int) {
		c := exec.Command(os.Args[0], append([]string{"reconcile"}, args...)...)
		c.Env = append(os.Environ(), verbVariable+"=1", "OPPORTUNITY_DATABASE_URL="+url,
			"OPPORTUNITY_BILLING_PROCESSOR=sandbox", "OPPORTUNITY_LOG_LEVEL=ERROR")
		out, _ := c.CombinedOutput()
		return string(out), c.ProcessState.ExitCode()
	}
	s.buyInSandbox()
	execute("UPDATE entitlements SET tier = 'free', paid_until = NULL, renews = 0")
	text, code := verb()
	require.Zero(t, code, text)
	require.Contains(t, text, `acc_1: entitlement was "free" and is "commercial until `)
	require.Contains(t, text,
		"compared 1 subscriptions of 1 customers: 1 differences, 1 healed; 0 could not be compared\n")
	version := int64(0)
	require.NoError(t, db.Raw("SELECT version FROM entitlements").Scan(&version).Error)
	s.waitForEntitlement("the push", func(e api.Entitlement) bool { return e.Version == version })
	text, code = verb("--output", "json")
	require.Zero(t, code, text)
	require.JSONEq(t, `{"customers":1,"subscriptions":1,"failed":0,"differences":[]}`, text)
	execute("UPDATE sandbox_objects SET object = 'unreadable', due_at = NULL WHERE kind = 'subscription'")
	text, code = verb()
	require.Equal(t, 1, code)
	require.Contains(t, text, billing.ErrReconcileIncomplete.Error())
	_, code = verb("--all")
	require.Equal(t, 1, code)
}
