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
	found := storetest.Must(s.Store.Account(s.t.Context(), account))(s.t)
	return found.Entitlement
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
