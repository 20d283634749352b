package billing_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing"
)

// backup returns a function that restores the database and starts the service. Until then, the
// clock of billing is ahead.
func (s *instance) backup() (restore func()) {
	s.t.Helper()
	s.Stop()
	replace := storetest.Backup(s.t, s.cfg.Database.URL)
	s.cfg.Now = func() time.Time { return now.AddDate(0, 0, 10) }
	s.run()
	s.WaitReady()
	return func() {
		s.t.Helper()
		seen := s.newest()
		s.Stop()
		replace()
		s.cfg.Now = func() time.Time { return now.Add(time.Minute) }
		s.run()
		s.WaitReady()
		s.present(seen).RequireError("service_unavailable")
	}
}

// present sends a request of a gateway that remembers a mark.
func (s *instance) present(seen string) servicetest.Response {
	return s.Do(http.MethodGet, api.MarkPath+"?seen="+seen, nil)
}

func (s *instance) newest() (mark string) {
	s.t.Helper()
	return servicetest.Read[string](s.present(""))
}

// buy buys the plan and waits until authquota has it.
func (s *instance) buy(account string) (subscription string) {
	s.t.Helper()
	id, events := s.processor.Pay(s.checkout(account))
	s.sendEvents(events...)
	require.Equal(s.t, api.Commercial, s.waitForPush(account).Tier)
	return id
}

func (s *instance) requireSetBack() {
	s.t.Helper()
	storetest.Eventually(s.t, "set back", func() bool { return s.HasMetric(`store_set_back{store="billing"} 1`) })
	require.Contains(s.t, servicetest.Send(s.t, http.MethodGet, s.OperationsURL+"/readyz", nil, nil).Body,
		api.SetBackCondition)
	require.Equal(s.t, 1, strings.Count(s.Log.String(), `"level":"ERROR"`), s.Log.String())
	require.Contains(s.t, s.Log.String(), `"lacks":"`)
	req := api.ProcessorRequest{Account: "acc_2", Email: "acc_2@example.com", ReturnURL: returnURL}
	s.Do(http.MethodPost, "/internal/v1/checkouts", req).RequireError("service_unavailable")
	s.Do(http.MethodPost, "/internal/v1/subscriptions/acc_2/cancel", nil).RequireError("service_unavailable")
	s.Do(http.MethodPost, "/operator/v1/billing/reconcile", nil).
		RequireError("service_unavailable", "OpportunityStoreSetBack")
	require.ErrorIs(s.t, storetest.Err(billing.Reconcile(s.t.Context(), s.cfg)), setback.ErrSetBack)
}

func (s *instance) recover() (string, error) {
	s.t.Helper()
	var out bytes.Buffer
	err := billing.Recover(s.t.Context(), s.cfg, service.Recovery{Operator: "ann"}, &out)
	return out.String(), err
}

// The backup is older than a purchase by a new customer, a refund, and a checkout session that is
// still open. Nothing is lost, and no account is offered the plan twice.
func TestRestoredDatabaseIsStoppedUntilItIsRecovered(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *instance) {
		refunded, disputed := s.buy("acc_1"), s.buy("acc_4")
		restore := s.backup()
		_, events := s.processor.Pay(s.checkout("acc_2"))
		s.sendEvents(events...)
		version := s.waitForPush("acc_2").Version
		left := s.checkout("acc_3")
		s.sendEvents(s.processor.Refund(refunded)...)
		require.Equal(t, api.Refunded, s.waitForPush("acc_1").Trouble)
		s.sendEvents(s.processor.Dispute(disputed, true)...)
		require.Equal(t, api.Disputed, s.waitForPush("acc_4").Trouble)
		s.processor.Dispute(disputed, false) // as in the backup, and authquota has another entitlement
		restore()

		s.requireSetBack()
		require.Equal(t, http.StatusServiceUnavailable, s.sendEvent(events[0]).Status, "Stripe sends it again")
		s.processor.SetUnavailable(true)
		_, err := s.recover()
		require.ErrorContains(t, err, "nothing was accepted")
		require.True(t, s.HasMetric(`store_set_back{store="billing"} 1`))
		s.processor.SetUnavailable(false)
		for _, crash := range []struct{ step, said, err string }{
			{"UPDATE ON entitlements", "", "crash"}, // the first step, as one transaction
			{"INSERT ON subscriptions", "", "nothing was accepted"},
			{"INSERT ON generations", `: tier was "" and is "commercial"`, "nothing was decided, run it again"},
			{"DELETE ON claims", "0 differences", "nothing was decided, run it again"},
		} {
			end := servicetest.Crash(t, s.cfg.Database.URL, crash.step)
			said, err := s.recover()
			end()
			require.ErrorContains(t, err, crash.err, crash.step)
			require.Contains(t, said, crash.said)
			s.Stop()
			s.run()
			s.requireSetBack()
		}
		require.Equal(t, version, s.authquota.entitlement("acc_2").Version, "nothing was pushed")

		require.Contains(t, storetest.Must(s.recover())(t), "a generation begins")
		s.WaitReady()
		require.Equal(t, api.Refunded, s.waitForPush("acc_1").Trouble)
		require.Equal(t, api.Commercial, s.waitForPush("acc_4").Tier)
		e := s.waitForPush("acc_2")
		require.Equal(t, api.Commercial, e.Tier)
		require.Greater(t, e.Version, version)
		_, err = s.processor.Page(left)
		require.Equal(t, problem.NotFound, problem.Of(err).Code, "it could be paid besides a new one")
		require.NotEqual(t, left, s.checkout("acc_3"))
		require.Contains(t, s.checkout("acc_2"), "/portal/", "the plan is not sold twice")
		changed := 0
		s.authquota.set(func() { changed = s.authquota.changed })
		s.sendEvents(events...)
		s.waitForPush("acc_2")
		s.authquota.set(func() {
			require.Equal(t, changed, s.authquota.changed, "events that Stripe sends again change nothing")
		})
		require.ErrorContains(t, storetest.Err(s.recover()), "nothing to decide")
		s.Stop()
		s.run()
		s.WaitReady()
	})
}

// authquota's database was set back, and an operator accepted the loss: it may lack entitlements
// that it acknowledged.
func TestEverythingIsPushedAgainToAnotherGenerationOfAuthquota(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *instance) {
		s.buy("acc_1")
		s.authquota.set(func() {
			s.authquota.generation = "00000000000000aa"
			s.authquota.entitlements = map[string]api.Entitlement{}
		})
		s.Stop() // the loop asks every ten seconds, and at the start
		s.run()
		s.WaitReady()
		require.Equal(t, api.Commercial, s.waitForPush("acc_1").Tier)
	})
}

func TestRestoredDatabaseIsDeclaredCurrent(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *instance) {
		restore := s.backup()
		s.buy("acc_1")
		restore()
		s.requireSetBack()
		decision := service.Recovery{Operator: "ann", Current: true}
		require.NoError(t, billing.Recover(t.Context(), s.cfg, decision, io.Discard))
		s.WaitReady()
	})
}
