package billing_test

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/billing/internal/stripe"
)

// startSandbox runs the service with the sandbox and the real clock.
func startSandbox(t *testing.T, url string) *instance {
	t.Helper()
	s := &instance{t: t, authquota: newAuthquota(t)}
	s.cfg = settings(url, s.authquota)
	s.cfg.Processor, s.cfg.Stripe, s.cfg.Now = billing.Sandbox, stripe.Config{}, nil
	require.NoError(t, s.cfg.Validate())
	s.run()
	s.WaitReady()
	return s
}

// submit submits a form of a page and returns the address that the browser goes to.
func (s *instance) submit(page, form string) (location string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+path(page), strings.NewReader(form))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+servicetest.Token(peer.Gateway))
	req.Header.Set("Origin", servicetest.PublicURL)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp := storetest.Must(http.DefaultTransport.RoundTrip(req))(s.t) // follows no redirect
	require.NoError(s.t, resp.Body.Close())
	require.Equal(s.t, http.StatusSeeOther, resp.StatusCode)
	return resp.Header.Get("Location")
}

func path(page string) string { return strings.TrimPrefix(page, servicetest.PublicURL) }

func (s *instance) buyInSandbox() {
	s.t.Helper()
	require.Equal(s.t, returnURL+"?checkout=done", s.submit(s.checkout("acc_1"), "card=works"))
	s.waitForEntitlement("the payment", func(e api.Entitlement) bool { return e.Tier == api.Commercial && e.Renews })
}

func (s *instance) waitForEntitlement(what string, is func(api.Entitlement) bool) {
	s.t.Helper()
	storetest.Eventually(s.t, what, func() bool { return is(s.authquota.entitlement("acc_1")) })
}

// A form of the sandbox leads to a push to authquota, on the same path as Stripe's webhook events.
func TestSandboxSellsPlan(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		s := startSandbox(t, url)
		require.Contains(t, s.Do(http.MethodGet, path(s.checkout("acc_1")), nil).Body, "29 USD a month")
		s.buyInSandbox()
		require.True(t, s.subscription("acc_1").Sandbox)
		s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_1/cancel", nil)
		s.waitForEntitlement("the cancellation", func(e api.Entitlement) bool {
			return e.Tier == api.Commercial && !e.Renews
		})

		portal := s.checkout("acc_1")
		_, rest, _ := strings.Cut(s.Do(http.MethodGet, path(portal), nil).Body, `name="subscription" value="`)
		id, _, _ := strings.Cut(rest, `"`)
		s.submit(portal, "act=advance&subscription="+id)
		s.waitForEntitlement("the end", func(e api.Entitlement) bool {
			return e.PaidUntil != nil && !e.PaidUntil.After(time.Now())
		})
	})
}

func TestAccess(t *testing.T) {
	s := startSandbox(t, schema.SQLite(t))
	servicetest.RequireAccess(t, peer.Billing, s.URL, s.Log.String)
}

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
