package intake_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/push"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

var errCrash = errors.New("the process fake crashed")

// process simulates a process that crashes at a given step, before or after the step takes effect, and does nothing after that.
type process struct {
	mu    sync.Mutex
	log   []string
	crash int  // number of the step, from 1; 0 for no crash
	after bool // crash after the step took effect, before its result is returned
	dead  bool
}

// step runs one step unless the process has crashed or crashes here.
func (p *process) step(name string, do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errCrash
	}
	p.log = append(p.log, name)
	if p.dead = len(p.log) == p.crash; p.dead && !p.after {
		return errCrash
	}
	if err := do(); err != nil {
		return err
	}
	if p.dead {
		return errCrash
	}
	return nil
}

// pool is a connection pool in which every statement and every commit is a step.
type pool struct {
	gorm.ConnPool
	p *process
}

func (c pool) ExecContext(ctx context.Context, query string, args ...any) (done sql.Result, err error) {
	err = c.p.step(query, func() (err error) {
		done, err = c.ConnPool.ExecContext(ctx, query, args...)
		return err
	})
	return done, err
}

func (c pool) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	err = c.p.step(query, func() (err error) {
		rows, err = c.ConnPool.QueryContext(ctx, query, args...) //nolint:rowserrcheck,sqlclosecheck // gorm's
		return err
	})
	if err != nil && rows != nil { // they hold the connection
		_ = rows.Close()
		rows = nil
	}
	return rows, err
}

func (c pool) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := c.ConnPool.(gorm.TxBeginner).BeginTx(ctx, o)
	return &transaction{pool{tx, c.p}, tx}, err
}

type transaction struct {
	pool
	tx *sql.Tx
}

func (t *transaction) Commit() error { return t.p.step("COMMIT", t.tx.Commit) }

// Rollback is not a step: the database rolls back on its own when the process dies.
func (t *transaction) Rollback() error { return t.tx.Rollback() }

// onDatabase returns a store of the process on a database that survives its crash.
func (p *process) onDatabase(db *database.DB) *store.Store {
	session := db.Session(&gorm.Session{NewDB: true, Initialized: true})
	session.ConnPool = pool{db.ConnPool, p}
	config := *session.Config
	config.ConnPool = pool{db.ConnPool, p}
	session.Config = &config
	session.Statement.ConnPool = config.ConnPool
	return store.New(&database.DB{DB: session, Dialect: db.Dialect}, func() time.Time { return now })
}

// authquota is a fake that, like the real service, applies an entitlement only if its version is greater.
type authquota struct {
	entitlements map[string]api.Entitlement
	changes      map[string][]int64
}

func (a *authquota) Put(_ context.Context, path string, in, _ any) error {
	account, e := path[strings.LastIndexByte(path, '/')+1:], in.(api.Entitlement)
	if e.Version > a.entitlements[account].Version {
		a.entitlements[account] = e
		a.changes[account] = append(a.changes[account], e.Version)
	}
	return nil
}

// crashingPeers makes calls to the processor and to authquota steps of a process.
type crashingPeers struct {
	p         *process
	processor fakeProcessor
	authquota *authquota
}

func (c crashingPeers) Subscription(ctx context.Context, id string) (s subscription.State, err error) {
	err = c.p.step("read the subscription", func() (err error) {
		s, err = c.processor.Subscription(ctx, id)
		return err
	})
	return s, err
}

func (c crashingPeers) Charge(ctx context.Context, invoice string) error {
	return c.p.step("charge", func() error { return c.processor.Charge(ctx, invoice) })
}

func (c crashingPeers) Put(ctx context.Context, path string, in, out any) error {
	return c.p.step("push to authquota", func() error { return c.authquota.Put(ctx, path, in, out) })
}

func (p *process) handle(ctx context.Context, db *database.DB, fake fakeProcessor, to *authquota, e processor.Event) error {
	repo, peers := p.onDatabase(db), crashingPeers{p, fake, to}
	_, err := intake.Intake{Store: repo, Source: peers, Log: slog.New(slog.DiscardHandler)}.HandleEvent(ctx, e)
	if err != nil {
		return err
	}
	_, err = push.New(push.Pusher{
		Outbox: repo, Authquota: peers, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		Count: func(push.Outcome) {}, SetPending: func(int) {},
	}).Deliver(ctx, "")
	return err
}

// A process may crash at any step of handling an event. After the processor has sent the event again and the next process has delivered
// the pending push, authquota has the processor's state and has applied it exactly once.
func TestCrashAtAnyStepLosesNothingAndPushesOnce(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		db := servicetest.OpenDatabase(t, url)
		ctx := t.Context()
		whole := new(process)
		run := func(n int, p *process) {
			account := fmt.Sprintf("acc_%d", n)
			id := "sub_" + account
			fake := fakeProcessor{id: {ID: id, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
				Paid: &subscription.Payment{Invoice: "in_1", Until: now}, PendingInvoice: "in_2"}}
			to := &authquota{entitlements: map[string]api.Entitlement{}, changes: map[string][]int64{}}
			e := processor.Event{ID: "evt_" + account, Type: "invoice.created", Subscription: id}
			err := p.handle(ctx, db, fake, to, e)
			if p.crash > 0 {
				require.ErrorIs(t, err, errCrash)
				require.NoError(t, new(process).handle(ctx, db, fake, to, e), "the next process handles the event again")
			} else {
				require.NoError(t, err)
			}
			got := to.entitlements[account]
			got.Version = 0
			require.Equal(t, "in_2", fake[id].Paid.Invoice, "%d of %v", p.crash, p.log)
			require.Equal(t, subscription.DeriveEntitlement([]subscription.State{fake[id]}), got, "%d of %v", p.crash, p.log)
			require.Len(t, to.changes[account], 1, "%d of %v", p.crash, p.log)
			pending, err := store.New(db, func() time.Time { return now }).CountPending(ctx)
			require.NoError(t, err)
			require.Zero(t, pending, "%d of %v", p.crash, p.log)
		}
		run(0, whole)
		steps := strings.Join(whole.log, "\n")
		for _, one := range []string{"UPDATE tickets", "read the subscription", "charge", "INSERT INTO events", "COMMIT", "push to authquota", "UPDATE entitlements SET\n"} {
			require.Contains(t, steps, one, "every step must be tried")
		}
		for i := range whole.log {
			for _, after := range []bool{false, true} {
				run(1000*(i+1)+map[bool]int{false: 1, true: 2}[after], &process{crash: i + 1, after: after})
			}
		}
	})
}

// When two subscriptions of an account change concurrently, each change sees the other. Each event is delivered twice, concurrently too.
func TestConcurrentChangesOfOneAccount(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		db := store.New(servicetest.OpenDatabase(t, url), func() time.Time { return now })
		in := intake.Intake{Store: db, Log: slog.New(slog.DiscardHandler)}
		for n := range 20 {
			account := fmt.Sprintf("acc_%d", n)
			fake, ids := fakeProcessor{}, []string{}
			for i := range 3 {
				id := fmt.Sprintf("sub_%d_%d", n, i)
				ids = append(ids, id)
				fake[id] = subscription.State{ID: id, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
					Paid: &subscription.Payment{Invoice: "in_" + id, Until: now.Add(time.Duration(i+1) * time.Hour)}}
			}
			in.Source = fake
			_, err := in.Refresh(t.Context(), ids[0], intake.Cause{Actor: "test"}) // makes the account known
			require.NoError(t, err)
			var all sync.WaitGroup
			outcomes := make(chan intake.Outcome, 4)
			for _, id := range []string{ids[1], ids[1], ids[2], ids[2]} {
				all.Go(func() {
					outcome, err := in.HandleEvent(t.Context(), processor.Event{ID: "evt_" + id, Subscription: id})
					if err != nil {
						outcome = intake.Outcome(err.Error())
					}
					outcomes <- outcome
				})
			}
			all.Wait()
			close(outcomes)
			counts := map[intake.Outcome]int{}
			for o := range outcomes {
				counts[o]++
			}
			require.Equal(t, map[intake.Outcome]int{intake.Done: 2, intake.Duplicate: 2}, counts)
			found, err := db.Account(t.Context(), account)
			require.NoError(t, err)
			require.Equal(t, now.Add(3*time.Hour), *found.Entitlement.PaidUntil, account)
		}
	})
}
