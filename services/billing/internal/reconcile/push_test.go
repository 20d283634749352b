package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
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
	pusher   *reconcile.Pusher
	outcomes map[reconcile.PushOutcome]int
	pending  int

	entitlements map[string]api.Entitlement
	err          map[string]error // by account
	during       func()           // called once during the next push; may be nil
	held         bool
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
	return nil
}

func pushOnBothDatabases(t *testing.T, test func(t *testing.T, p *pushTest)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		p := &pushTest{t: t, clock: now, outcomes: map[reconcile.PushOutcome]int{},
			entitlements: map[string]api.Entitlement{}, err: map[string]error{}}
		clock := func() time.Time { return p.clock }
		p.store = store.New(servicetest.OpenDatabase(t, url), clock)
		p.pusher = reconcile.NewPusher(reconcile.Pusher{
			Store: p.store, Put: p.put, Held: func(context.Context) bool { return p.held }, Now: clock,
			Log:   slog.New(slog.DiscardHandler),
			Count: func(o reconcile.PushOutcome) { p.outcomes[o]++ }, SetPending: func(n int) { p.pending = n },
		})
		test(t, p)
	})
}

// buy makes the account's only subscription paid for a number of months.
func (p *pushTest) buy(account string, months int) {
	p.t.Helper()
	ticket, err := p.store.Ticket(p.t.Context())
	require.NoError(p.t, err)
	_, err = p.store.Apply(p.t.Context(), store.Fetched{Ticket: ticket, Cause: store.Cause{Actor: "test"},
		State: &subscription.State{
			ID: "sub_" + account, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
			Paid: &subscription.Payment{Invoice: "in_1", Until: now.AddDate(0, months, 0)},
		}})
	require.NoError(p.t, err)
}

func (p *pushTest) deliver(account string) {
	p.t.Helper()
	_, err := p.pusher.Deliver(p.t.Context(), account)
	require.NoError(p.t, err)
}

// requirePaid asserts that authquota has the account as paid for a number of months.
func (p *pushTest) requirePaid(account string, months int) {
	p.t.Helper()
	require.Contains(p.t, p.entitlements, account)
	require.Equal(p.t, now.AddDate(0, months, 0), *p.entitlements[account].PaidUntil)
}

// An account that authquota does not have or rejects does not block the others. Its push is retried
// later; a new change is pushed immediately.
func TestFailingAccountDoesNotBlockOthers(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.err["acc_gone"] = &peer.StatusError{Status: http.StatusNotFound}
		p.err["acc_bad"] = &peer.StatusError{Status: http.StatusInternalServerError}
		for _, account := range []string{"acc_bad", "acc_gone", "acc_good"} {
			p.buy(account, 1)
		}
		p.deliver("")
		p.requirePaid("acc_good", 1)
		require.Equal(t, map[reconcile.PushOutcome]int{reconcile.Accepted: 1, reconcile.UnknownAccount: 1,
			reconcile.Failed: 1}, p.outcomes)
		require.Equal(t, 2, p.pending)

		p.deliver("")
		require.Equal(t, 1, p.outcomes[reconcile.Failed], "not before its retry time")
		delete(p.err, "acc_bad")
		p.clock = p.clock.Add(10 * time.Second)
		p.deliver("")
		p.requirePaid("acc_bad", 1)
		require.Equal(t, 1, p.outcomes[reconcile.UnknownAccount], "an unknown account is retried hourly")

		p.buy("acc_gone", 2)
		p.deliver("")
		require.Equal(t, 2, p.outcomes[reconcile.UnknownAccount], "a change is pushed immediately")
		delete(p.err, "acc_gone")
		p.clock = p.clock.Add(time.Hour)
		p.deliver("")
		p.requirePaid("acc_gone", 2)
		require.Zero(t, p.pending)
	})
}

func TestPushesResumeAfterOutage(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.err["acc_1"] = problem.Unavailable(errors.New("connection refused"))
		p.buy("acc_1", 1)
		_, err := p.pusher.Deliver(t.Context(), "")
		require.Error(t, err, "an outage affects every account")
		delete(p.err, "acc_1")
		p.deliver("acc_1")
		require.Equal(t, 1, p.pending, "not before its retry time")
		p.clock = p.clock.Add(10 * time.Second)
		p.deliver("acc_1")
		p.requirePaid("acc_1", 1)
	})
}

func TestChangeDuringPushStaysPending(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.buy("acc_1", 1)
		p.during = func() { p.buy("acc_1", 2) }
		p.deliver("acc_1")
		require.Equal(t, 1, p.pending)
		p.deliver("")
		p.requirePaid("acc_1", 2)
		require.Zero(t, p.pending)
	})
}

func TestNothingIsPushedWhileHeld(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.buy("acc_1", 1)
		p.held = true
		p.deliver("")
		require.Empty(t, p.entitlements)
		require.Equal(t, 1, p.pending)
		p.held = false
		p.deliver("")
		p.requirePaid("acc_1", 1)
	})
}

// authquota has applied an entitlement, but its reply is lost, and the process ends. The next one
// pushes again, which changes nothing.
func TestLostReplyIsPushedAgain(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.buy("acc_1", 1)
		lost := reconcile.NewPusher(*p.pusher)
		lost.Put = func(ctx context.Context, path string, in, out any) error {
			return errors.Join(p.put(ctx, path, in, out), problem.Unavailable(errors.New("connection reset")))
		}
		_, err := lost.Deliver(t.Context(), "")
		require.Error(t, err)
		p.requirePaid("acc_1", 1)
		require.Equal(t, 1, p.pending)
		p.clock = p.clock.Add(time.Minute)
		p.deliver("")
		p.requirePaid("acc_1", 1)
		require.Zero(t, p.pending)
	})
}

// An account that authquota does not have needs no push once nothing is paid for.
func TestNothingIsPendingForUnknownAccountsThatHavePaidNothing(t *testing.T) {
	pushOnBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.err["acc_1"] = &peer.StatusError{Status: http.StatusNotFound}
		p.buy("acc_1", 1)
		p.deliver("")
		require.Equal(t, 1, p.pending)
		p.clock = now.AddDate(0, 2, 0)
		p.deliver("")
		require.Zero(t, p.pending)
	})
}
