package reconcile_test

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
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

var errCrash = errors.New("the process crashed")

// process simulates a process that crashes at a given step, before or after the step takes effect,
// and does nothing after that.
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

// steppedProcessor is the processor of a process: each read is a step.
type steppedProcessor struct {
	subscription.Processor
	p *process
}

func (s steppedProcessor) Subscription(ctx context.Context, id string) (state subscription.State, err error) {
	err = s.p.step("read "+id, func() error {
		state, err = s.Processor.Subscription(ctx, id)
		return err
	})
	return state, err
}

// authquota is a fake that, like the real service, applies an entitlement only if its version is
// greater.
type authquota struct {
	entitlements map[string]api.Entitlement
	changes      map[string][]int64
}

func (a *authquota) put(path string, in any) {
	account, e := path[strings.LastIndexByte(path, '/')+1:], in.(api.Entitlement)
	if e.Version > a.entitlements[account].Version {
		a.entitlements[account] = e
		a.changes[account] = append(a.changes[account], e.Version)
	}
}

// handle handles an event and delivers the pending push.
func (p *process) handle(ctx context.Context, db *database.DB, fake *sandboxtest.Processor, to *authquota,
	e subscription.Event) error {
	repo, log := p.onDatabase(db), slog.New(slog.DiscardHandler)
	_, err := reconcile.Reconciler{Store: repo, Processor: steppedProcessor{fake, p}, Log: log}.HandleEvent(ctx, e)
	if err != nil {
		return err
	}
	put := func(_ context.Context, path string, in, _ any) error {
		return p.step("push to authquota", func() error { to.put(path, in); return nil })
	}
	_, err = reconcile.NewPusher(reconcile.Pusher{
		Store: repo, Put: put, Held: func(context.Context) bool { return false }, Now: func() time.Time { return now },
		Log: log, Count: func(reconcile.PushOutcome) {}, SetPending: func(int) {},
	}).Deliver(ctx, "")
	return err
}

// A process may crash at any step of handling an event. After the processor has sent the event
// again and the next process has delivered the pending push, authquota has the processor's state
// and has applied it exactly once.
func TestCrashAtAnyStepLosesNothingAndPushesOnce(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) {
		db := servicetest.OpenDatabase(t, url)
		ctx := t.Context()
		whole := new(process)
		fake := newProcessor(t)
		run := func(n int, p *process) {
			account := fmt.Sprintf("acc_%d", n)
			id, _ := fake.Subscribe("", account)
			fake.Renew(id, true)
			to := &authquota{entitlements: map[string]api.Entitlement{}, changes: map[string][]int64{}}
			e := subscription.Event{ID: "evt_" + account, Type: "invoice.created", Subscription: id}
			err := p.handle(ctx, db, fake, to, e)
			if p.crash > 0 {
				require.Error(t, err)
				require.NoError(t, new(process).handle(ctx, db, fake, to, e), "the next process handles the event again")
			} else {
				require.NoError(t, err)
			}
			until, got := now.AddDate(0, 2, 0), to.entitlements[account]
			got.Version = 0
			require.Equal(t, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Renews: true}, got, "%d of %v", p.crash,
				p.log)
			require.Len(t, to.changes[account], 1, "%d of %v", p.crash, p.log)
			pending, err := store.New(db, func() time.Time { return now }).CountPending(ctx)
			require.NoError(t, err)
			require.Zero(t, pending, "%d of %v", p.crash, p.log)
		}
		run(0, whole)
		steps := strings.Join(whole.log, "\n")
		for _, one := range []string{"UPDATE tickets", "read sub_", "INSERT INTO events",
			"COMMIT", "push to authquota", "UPDATE entitlements SET\n"} {
			require.Contains(t, steps, one, "every step must be tried")
		}
		for i := range whole.log {
			for _, after := range []bool{false, true} {
				run(1000*(i+1)+map[bool]int{false: 1, true: 2}[after], &process{crash: i + 1, after: after})
			}
		}
	})
}
