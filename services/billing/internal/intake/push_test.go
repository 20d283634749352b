package intake_test

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
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/push"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

// failingAuthquota returns errors for some accounts.
type failingAuthquota struct {
	next   *authquota
	err    map[string]error
	during func() // called once during the next push; may be nil
}

func (r *failingAuthquota) Put(ctx context.Context, path string, in, out any) error {
	if during := r.during; during != nil {
		r.during = nil
		during()
	}
	if err := r.err[path[strings.LastIndexByte(path, '/')+1:]]; err != nil {
		return err
	}
	return r.next.Put(ctx, path, in, out)
}

// pushTest is a store and a pusher, with a clock that the test moves.
type pushTest struct {
	t         *testing.T
	clock     time.Time
	processor fakeProcessor
	intake    intake.Intake
	authquota *failingAuthquota
	pusher    *push.Pusher
	outcomes  map[push.Outcome]int
	pending   int
}

func onBothDatabases(t *testing.T, test func(t *testing.T, p *pushTest)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		p := &pushTest{
			t: t, clock: now, processor: fakeProcessor{}, outcomes: map[push.Outcome]int{},
			authquota: &failingAuthquota{
				next: &authquota{entitlements: map[string]api.Entitlement{}, changes: map[string][]int64{}}, err: map[string]error{},
			},
		}
		clock, log := func() time.Time { return p.clock }, slog.New(slog.DiscardHandler)
		repo := store.New(servicetest.OpenDatabase(t, url), clock)
		p.intake = intake.Intake{Store: repo, Source: p.processor, Log: log}
		p.pusher = push.New(push.Pusher{
			Outbox: repo, Authquota: p.authquota, Now: clock, Log: log,
			Count: func(o push.Outcome) { p.outcomes[o]++ }, SetPending: func(n int) { p.pending = n },
		})
		test(t, p)
	})
}

// buy makes the account's only subscription paid for a number of months.
func (p *pushTest) buy(account string, months int) {
	p.t.Helper()
	id := "sub_" + account
	p.processor[id] = subscription.State{
		ID: id, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
		Paid: &subscription.Payment{Invoice: "in_1", Until: now.AddDate(0, months, 0)},
	}
	_, err := p.intake.Refresh(p.t.Context(), id, intake.Cause{Actor: "test"})
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
	require.Contains(p.t, p.authquota.next.entitlements, account)
	require.Equal(p.t, now.AddDate(0, months, 0), *p.authquota.next.entitlements[account].PaidUntil)
}

// An account that authquota does not have or rejects does not block the others. Its push is retried later; a new change is pushed
// immediately.
func TestFailingAccountDoesNotBlockOthers(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.authquota.err["acc_gone"] = &peer.StatusError{Status: http.StatusNotFound}
		p.authquota.err["acc_bad"] = &peer.StatusError{Status: http.StatusInternalServerError}
		for _, account := range []string{"acc_bad", "acc_gone", "acc_good"} {
			p.buy(account, 1)
		}
		p.deliver("")
		p.requirePaid("acc_good", 1)
		require.Equal(t, map[push.Outcome]int{push.Accepted: 1, push.UnknownAccount: 1, push.Failed: 1}, p.outcomes)
		require.Equal(t, 2, p.pending)

		p.deliver("")
		require.Equal(t, 1, p.outcomes[push.Failed], "not before its retry time")
		delete(p.authquota.err, "acc_bad")
		p.clock = p.clock.Add(10 * time.Second)
		p.deliver("")
		p.requirePaid("acc_bad", 1)
		require.Equal(t, 1, p.outcomes[push.UnknownAccount], "an unknown account is retried hourly")

		p.buy("acc_gone", 2)
		p.deliver("")
		require.Equal(t, 2, p.outcomes[push.UnknownAccount], "a change is pushed immediately")
		delete(p.authquota.err, "acc_gone")
		p.clock = p.clock.Add(time.Hour)
		p.deliver("")
		p.requirePaid("acc_gone", 2)
		require.Zero(t, p.pending)
	})
}

func TestPushesResumeAfterOutage(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.authquota.err["acc_1"] = problem.Unavailable(errors.New("connection refused"))
		p.buy("acc_1", 1)
		_, err := p.pusher.Deliver(t.Context(), "")
		require.Error(t, err, "an outage affects every account")
		delete(p.authquota.err, "acc_1")
		p.deliver("acc_1")
		require.Equal(t, 1, p.pending, "not before its retry time")
		p.clock = p.clock.Add(10 * time.Second)
		p.deliver("acc_1")
		p.requirePaid("acc_1", 1)
	})
}

func TestChangeDuringPushStaysPending(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, p *pushTest) {
		p.buy("acc_1", 1)
		p.authquota.during = func() { p.buy("acc_1", 2) }
		p.deliver("acc_1")
		require.Equal(t, 1, p.pending)
		p.deliver("")
		p.requirePaid("acc_1", 2)
		require.Zero(t, p.pending)
	})
}
