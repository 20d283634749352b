package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

// pushTest is a store and a pusher, with a clock that the test moves. It is a fake of authquota,
// which applies an entitlement only if its version is greater.
type pushTest struct {
	t        *testing.T
	clock    time.Time
	store    *store.Store
	outcomes map[string]int
	pending  int

	entitlements map[string]api.Entitlement
	err          map[string]error // by account
	during       func()           // called once during the next push; may be nil
	lost         error            // of the reply of the next push, which has an effect
}

func (p *pushTest) put(_ context.Context, path string, in, _ any) error {
	if during := p.during; during != nil {
		p.during = nil
		during()
	}
	account, e := path[strings.LastIndexByte(path, '/')+1:], in.(api.Entitlement)
	if err := p.err[account]; err != nil {
		return err
	}
	if e.Version > p.entitlements[account].Version {
		p.entitlements[account] = e
	}
	lost := p.lost
	p.lost = nil
	return lost
}

func pushOnBothDatabases(t *testing.T, test func(t *testing.T, p *pushTest)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		p := &pushTest{t: t, clock: now, outcomes: map[string]int{}, entitlements: map[string]api.Entitlement{},
			err: map[string]error{}}
		p.store = store.New(servicetest.OpenDatabase(t, url), func() time.Time { return p.clock })
		test(t, p)
	})
}

func (p *pushTest) pusher() *reconcile.Pusher {
	return &reconcile.Pusher{
		Store: p.store, Put: p.put, Now: func() time.Time { return p.clock }, Log: slog.New(slog.DiscardHandler),
		Count: func(outcome string) { p.outcomes[outcome]++ }, SetPending: func(n float64) { p.pending = int(n) },
	}
}

// buy makes the account's only subscription paid for a number of months.
func (p *pushTest) buy(account string, months int) {
	p.t.Helper()
	ticket := storetest.Must(p.store.Ticket(p.t.Context()))(p.t)
	storetest.Must(p.store.Apply(p.t.Context(), ticket, store.Cause{Actor: "test"}, subscription.State{
		ID: "sub_" + account, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
		Paid: &subscription.Payment{Invoice: "in_1", Until: now.AddDate(0, months, 0)},
	}))(p.t)
}

// deliver delivers what is due after a time, and requires a number of pushes that stay pending.
func (p *pushTest) deliver(after time.Duration, pending int) {
	p.t.Helper()
	p.clock = p.clock.Add(after)
	require.NoError(p.t, p.pusher().Deliver(p.t.Context()))
	require.Equal(p.t, pending, p.pending)
}

func (p *pushTest) requirePaid(account string, months int) {
	p.t.Helper()
	require.Contains(p.t, p.entitlements, account)
	require.Equal(p.t, now.AddDate(0, months, 0), *p.entitlements[account].PaidUntil)
}

// An account that authquota does not have or rejects does not block the others. Its push is retried
// later; a new change is pushed immediately. Once nothing is paid for, an unknown account needs
// none.
func TestFailingAccountDoesNotBlockOthers(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.err["acc_gone"] = &peer.StatusError{Status: http.StatusNotFound}
		p.err["acc_bad"] = &peer.StatusError{Status: http.StatusInternalServerError}
		for _, account := range []string{"acc_bad", "acc_gone", "acc_good"} {
			p.buy(account, 1)
		}
		p.deliver(0, 2)
		p.requirePaid("acc_good", 1)
		require.Equal(t, map[string]int{reconcile.Accepted: 1, reconcile.UnknownAccount: 1, reconcile.Failed: 1}, p.outcomes)

		p.deliver(9*time.Second, 2)
		require.Equal(t, 1, p.outcomes[reconcile.Failed], "not before its retry time")
		delete(p.err, "acc_bad")
		p.deliver(time.Second, 1)
		p.requirePaid("acc_bad", 1)
		require.Equal(t, 1, p.outcomes[reconcile.UnknownAccount], "an unknown account is retried hourly")
		p.buy("acc_gone", 2)
		p.deliver(0, 1)
		require.Equal(t, 2, p.outcomes[reconcile.UnknownAccount], "a change is pushed immediately")
		p.deliver(time.Hour, 1)
		require.Equal(t, 3, p.outcomes[reconcile.UnknownAccount])
		p.deliver(now.AddDate(0, 3, 0).Sub(now), 0)
	})
}

// In an outage, one push is tried at a time, of each account in turn: the cause may be one of them.
func TestPushesResumeAfterOutage(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.err["acc_1"] = problem.Unavailable(errors.New("connection refused"))
		p.buy("acc_1", 1)
		require.Error(t, p.pusher().Deliver(t.Context()))
		p.buy("acc_2", 1)
		p.clock = p.clock.Add(reconcile.Retry)
		require.Error(t, p.pusher().Deliver(t.Context()), "an outage affects every account")
		p.requirePaid("acc_2", 1)
		delete(p.err, "acc_1")
		p.deliver(reconcile.Retry, 0)
		p.requirePaid("acc_1", 1)
	})
}

func TestChangeDuringPushStaysPending(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.buy("acc_1", 1)
		p.during = func() { p.buy("acc_1", 2) }
		p.deliver(0, 1)
		p.deliver(0, 0)
		p.requirePaid("acc_1", 2)
	})
}

// authquota has applied an entitlement, but its reply is lost. It is pushed again, which changes
// nothing.
func TestLostReplyIsPushedAgain(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.buy("acc_1", 1)
		p.lost = problem.Unavailable(errors.New("connection reset"))
		require.Error(t, p.pusher().Deliver(t.Context()))
		p.requirePaid("acc_1", 1)
		require.Equal(t, 1, p.pending)
		p.deliver(time.Minute, 0)
		p.requirePaid("acc_1", 1)
	})
}

// After a loss of authquota's database, paid accounts are free until they are pushed again.
func TestEverythingDueIsPushedAtOnce(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		for i := range 101 { // more than are read at a time
			p.buy("acc_"+strconv.Itoa(i), 1)
		}
		p.deliver(0, 0)
	})
}

// A purchase does not wait until all entitlements are pushed again.
func TestNewestChangeIsPushedFirst(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		for _, account := range []string{"acc_1", "acc_3", "acc_2"} {
			p.clock = p.clock.Add(time.Second)
			p.buy(account, 1)
		}
		due := storetest.Must(p.store.Due(t.Context(), 2))(t)
		require.Equal(t, []string{"acc_2", "acc_3"}, []string{due[0].Account, due[1].Account})
	})
}
