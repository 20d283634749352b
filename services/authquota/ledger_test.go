package authquota_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/keyusage"
)

const (
	ann = "acc_0199a7a0000070008000000000000001"
	bob = "acc_0199a7a0000070008000000000000002"
)

// charge sets the counters of a day as the gateways do.
func (s *stores) charge(t *testing.T, day string, counts map[string]int) {
	t.Helper()
	c := s.Client()
	for account, calls := range counts {
		require.NoError(t, c.HSet(context.Background(), counter.Day(day), account, calls).Err())
		require.NoError(t, c.SAdd(context.Background(), counter.Changed(day), account).Err())
	}
	require.NoError(t, c.Expire(context.Background(), counter.Day(day), counter.DayTTL).Err())
}

// dayUsage is the usage of a UTC day in the ledger.
type dayUsage struct {
	Day      string
	Service  int            // calls of all accounts
	Accounts map[string]int // calls by account; without those that have none
}

// ledger returns a function that reads a day of the ledger.
func (s *service) ledger() func(day string) dayUsage {
	s.t.Helper()
	ledger := keyusage.NewStore(s.open(s.t).DB)
	return func(day string) dayUsage {
		read := dayUsage{Day: day, Accounts: map[string]int{}}
		require.NoError(s.t, ledger.EachPage(s.t.Context(), day, 100, func(page []keyusage.Count) error {
			for _, c := range page {
				read.Accounts[c.Account] = c.Calls
			}
			return nil
		}))
		read.Service = read.Accounts[counter.ServiceField]
		delete(read.Accounts, counter.ServiceField)
		return read
	}
}

func (s *service) eventually(want dayUsage) {
	s.t.Helper()
	day := s.ledger()
	storetest.Eventually(s.t, "the ledger has the counters", func() bool { return cmp.Equal(want, day(want.Day)) })
}

func TestLedgerStoresTheGreatestCounts(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		clock := func(c *authquota.Config) { c.Now = func() time.Time { return now } }
		const day = "2026-11-20"
		s.charge(t, "2026-11-19", map[string]int{counter.ServiceField: 5, bob: 5}) // while no copy runs
		svc := s.start(t, clock)
		require.Equal(t, dayUsage{Day: day, Accounts: map[string]int{}}, svc.ledger()(day), "an empty day")
		svc.eventually(dayUsage{Day: "2026-11-19", Service: 5, Accounts: map[string]int{bob: 5}})

		s.charge(t, day, map[string]int{counter.ServiceField: 7, ann: 3, bob: 4})
		svc.eventually(dayUsage{Day: day, Service: 7, Accounts: map[string]int{ann: 3, bob: 4}})
		s.charge(t, day, map[string]int{counter.ServiceField: 9, ann: 2, bob: 6}) // one charge of ann's was refunded, bob sent two more
		svc.eventually(dayUsage{Day: day, Service: 9, Accounts: map[string]int{ann: 3, bob: 6}})

		s.Stop() // Redis loses its data, and its counters restart below the ledger's
		s.Start()
		s.charge(t, day, map[string]int{counter.ServiceField: 1, ann: 1, bob: 7})
		svc.eventually(dayUsage{Day: day, Service: 9, Accounts: map[string]int{ann: 3, bob: 7}})

		svc.stop() // a new process does not know what was written
		s.charge(t, day, map[string]int{counter.ServiceField: 10, ann: 1, bob: 8})
		svc = s.start(t, clock)
		svc.eventually(dayUsage{Day: day, Service: 10, Accounts: map[string]int{ann: 3, bob: 8}})
	})
}

func TestTheLastCallsAreCopiedAtShutdown(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		clock := func(c *authquota.Config) { c.Now = func() time.Time { return now } }
		svc := s.start(t, clock)
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 1, ann: 1})
		svc.eventually(dayUsage{Day: "2026-11-20", Service: 1, Accounts: map[string]int{ann: 1}})
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 42, ann: 42})
		svc.stop()
		s.Flush()
		svc = s.start(t, clock)
		require.Equal(t, dayUsage{Day: "2026-11-20", Service: 42, Accounts: map[string]int{ann: 42}}, svc.ledger()("2026-11-20"))
	})
}

func TestBothDaysAreCopiedAroundMidnight(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		var at atomic.Pointer[time.Time]
		set := func(h, m, sec int) {
			now := time.Date(2026, 11, 20, h, m, sec, 0, time.UTC)
			at.Store(&now)
		}
		set(23, 59, 59)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return *at.Load() } })
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 1, ann: 1})
		svc.eventually(dayUsage{Day: "2026-11-20", Service: 1, Accounts: map[string]int{ann: 1}})
		set(24, 0, 1)
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 2, ann: 2}) // by a Redis whose clock is behind
		s.charge(t, "2026-11-21", map[string]int{counter.ServiceField: 3, ann: 3})
		svc.eventually(dayUsage{Day: "2026-11-20", Service: 2, Accounts: map[string]int{ann: 2}})
		svc.eventually(dayUsage{Day: "2026-11-21", Service: 3, Accounts: map[string]int{ann: 3}})
	})
}

func TestOperatorsSeeWhatWasUsedToday(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return now } })
		busy, idle := svc.issue(map[string]any{"tier": "commercial"}), svc.issue(nil)
		svc.issue(map[string]any{"account": busy.Account})
		s.charge(t, "2026-11-19", map[string]int{counter.ServiceField: 99, busy.Account: 99})
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 12, busy.Account: 12})
		svc.eventually(dayUsage{Day: "2026-11-20", Service: 12, Accounts: map[string]int{busy.Account: 12}})
		require.Empty(t, cmp.Diff([]listedAccount{
			{ID: busy.Account, Status: "active", Tier: api.Commercial, Granted: api.Commercial, CreatedAt: now, UsedToday: 12, Keys: 2},
			{ID: idle.Account, Status: "active", Tier: api.Free, Granted: api.Free, CreatedAt: now, Keys: 1},
		}, svc.listAccounts()))
	})
}

// The ledger resumes automatically after an outage; meanwhile a metric shows its age.
func TestLedgerResumesAfterRedisOutage(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return now } })
		s.Stop()
		storetest.Eventually(t, "the outage is logged", func() bool { return strings.Contains(svc.Log.String(), `"msg":"background loop failing"`) })
		s.Start()
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 4, ann: 4})
		svc.eventually(dayUsage{Day: "2026-11-20", Service: 4, Accounts: map[string]int{ann: 4}})
		storetest.Eventually(t, "its end is logged", func() bool { return strings.Contains(svc.Log.String(), `"msg":"background loop recovered"`) })
		require.Contains(t, svc.Metrics(), "authquota_ledger_lag_seconds")
	})
}
