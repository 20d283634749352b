package reconcile_test

import (
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
	changed   []string // accounts
	log       strings.Builder
}

func start(t *testing.T, url string) *test {
	t.Helper()
	s := &test{t: t, processor: newProcessor(t), db: servicetest.OpenDatabase(t, url)}
	clock := func() time.Time { return now }
	s.Reconciler = reconcile.Reconciler{
		Store: store.New(s.db, clock), Processor: s.processor, Now: clock, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
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
			_, err := s.HandleEvent(s.t.Context(), subscription.Event{ID: "evt_1", Subscription: id})
			require.NoError(s.t, err)
			s.changed = nil
		}, want: reconcile.Duplicate},
		"unknown account": {prepare: func(*test, string) {}, event: "unknown", want: reconcile.Irrelevant, warning: true},
		"no such id": {prepare: func(s *test, id string) { s.processor.Remove(id) }, want: reconcile.Irrelevant,
			warning: true},
		"database closed": {prepare: func(s *test, _ string) { s.db.Close() }, want: reconcile.Duplicate, failed: true},
		"processor fails": {prepare: func(s *test, _ string) { s.processor.SetUnavailable(true) }, failed: true},
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
			c.prepare(s, id)
			got, err := s.HandleEvent(t.Context(), subscription.Event{ID: "evt_1", Type: "t", Subscription: id})
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
