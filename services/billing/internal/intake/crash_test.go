package intake_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/entitle"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

var errCrash = errors.New("the process has crashed")

// process is what can crash: at the n-th of its steps, before or after it has its effect, and then nothing of it goes on.
type process struct {
	mu    sync.Mutex
	steps []string
	crash int  // the step, from 1; 0: none
	after bool // the step is done, and nobody learns of it
	dead  bool
}

// step does one, unless the process is dead or crashes.
func (p *process) step(name string, do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errCrash
	}
	p.steps = append(p.steps, name)
	if p.dead = len(p.steps) == p.crash; p.dead && !p.after {
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

// pool is a database as the process sees it: every statement, and every end of a transaction, is a step.
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

// Rollback is what the database does by itself when the process is gone.
func (t *transaction) Rollback() error { return t.tx.Rollback() }

// onDatabase is a store of the process on a database that outlives it.
func (p *process) onDatabase(db *database.DB) *store.Store {
	session := db.Session(&gorm.Session{NewDB: true, Initialized: true})
	session.ConnPool = pool{db.ConnPool, p}
	config := *session.Config
	config.ConnPool = pool{db.ConnPool, p}
	session.Config = &config
	session.Statement.ConnPool = config.ConnPool
	return store.New(&database.DB{DB: session, Dialect: db.Dialect}, func() time.Time { return now })
}

// authquota keeps what it is told, as the real one does: it changes something only at a greater version.
type authquota struct {
	kept    map[string]api.Entitlement
	changes map[string][]int64
}

func (a *authquota) Put(_ context.Context, path string, in, _ any) error {
	account, e := path[strings.LastIndexByte(path, '/')+1:], in.(api.Entitlement)
	if e.Version > a.kept[account].Version {
		a.kept[account] = e
		a.changes[account] = append(a.changes[account], e.Version)
	}
	return nil
}

// steps of the processor and of authquota can crash like those of the database.
type crashing struct {
	p  *process
	of money
	to *authquota
}

func (c crashing) Subscription(ctx context.Context, id string) (s subscription.State, err error) {
	err = c.p.step("ask the processor", func() (err error) {
		s, err = c.of.Subscription(ctx, id)
		return err
	})
	return s, err
}

func (c crashing) Charge(ctx context.Context, invoice string) error {
	return c.p.step("charge", func() error { return c.of.Charge(ctx, invoice) })
}

func (c crashing) Put(ctx context.Context, path string, in, out any) error {
	return c.p.step("tell authquota", func() error { return c.to.Put(ctx, path, in, out) })
}

// live is all that a process does about one announcement: takes it in, and tells authquota what comes of it.
func (p *process) live(ctx context.Context, db *database.DB, has money, to *authquota, e processor.Event) error {
	kept, outside := p.onDatabase(db), crashing{p, has, to}
	_, err := intake.Intake{Store: kept, Source: outside, Log: slog.New(slog.DiscardHandler)}.Announced(ctx, e)
	if err != nil {
		return err
	}
	_, err = entitle.New(entitle.Pusher{
		Outbox: kept, Authquota: outside, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		Count: func(entitle.Outcome) {}, Gauge: func(int) {},
	}).Deliver(ctx, "")
	return err
}

// Wherever the process dies between the first look at an announcement and the last thing that it does about it: the processor, which
// was not answered, announces again, the next process finds what is owed, authquota has what the processor says, and nothing changed
// there twice.
func TestACrashAtAnyStepLosesNothingAndTellsOnce(t *testing.T) {
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := opened(t, url)
			ctx := t.Context()
			whole := new(process)
			run := func(n int, p *process) {
				account := fmt.Sprintf("acc_%d", n)
				id := "sub_" + account
				has := money{id: {ID: id, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
					Paid: &subscription.Payment{Invoice: "in_1", Until: now}, Waiting: "in_2"}}
				to := &authquota{kept: map[string]api.Entitlement{}, changes: map[string][]int64{}}
				e := processor.Event{ID: "evt_" + account, Kind: "invoice.created", Subscription: id}
				err := p.live(ctx, db, has, to, e)
				if p.crash > 0 {
					require.ErrorIs(t, err, errCrash)
					require.NoError(t, new(process).live(ctx, db, has, to, e), "the same again, by the next process")
				} else {
					require.NoError(t, err)
				}
				got := to.kept[account]
				got.Version = 0
				require.Equal(t, "in_2", has[id].Paid.Invoice, "%d of %v", p.crash, p.steps)
				require.Equal(t, subscription.Entitle([]subscription.State{has[id]}), got, "%d of %v", p.crash, p.steps)
				require.Len(t, to.changes[account], 1, "%d of %v", p.crash, p.steps)
				pending, err := store.New(db, func() time.Time { return now }).Pending(ctx)
				require.NoError(t, err)
				require.Zero(t, pending, "%d of %v", p.crash, p.steps)
			}
			run(0, whole)
			steps := strings.Join(whole.steps, "\n")
			for _, one := range []string{"UPDATE tickets", "ask the processor", "charge", "INSERT INTO events", "COMMIT", "tell authquota", "UPDATE entitlements SET\n"} {
				require.Contains(t, steps, one, "a step that is not counted is not tried")
			}
			for i := range whole.steps {
				for _, after := range []bool{false, true} {
					run(1000*(i+1)+map[bool]int{false: 1, true: 2}[after], &process{crash: i + 1, after: after})
				}
			}
		})
	}
}

// Of two subscriptions of an account that change at once, neither is reckoned without the other; each is announced twice, at once too.
func TestChangesOfOneAccountAtOnce(t *testing.T) {
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := store.New(opened(t, url), func() time.Time { return now })
			in := intake.Intake{Store: kept, Log: slog.New(slog.DiscardHandler)}
			for n := range 20 {
				account := fmt.Sprintf("acc_%d", n)
				has, ids := money{}, []string{}
				for i := range 3 {
					id := fmt.Sprintf("sub_%d_%d", n, i)
					ids = append(ids, id)
					has[id] = subscription.State{ID: id, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
						Paid: &subscription.Payment{Invoice: "in_" + id, Until: now.Add(time.Duration(i+1) * time.Hour)}}
				}
				in.Source = has
				_, err := in.Refresh(t.Context(), ids[0], intake.Cause{Actor: "test"}) // from now on the account is known
				require.NoError(t, err)
				var all sync.WaitGroup
				outcomes := make(chan intake.Outcome, 4)
				for _, id := range []string{ids[1], ids[1], ids[2], ids[2]} {
					all.Go(func() {
						outcome, err := in.Announced(t.Context(), processor.Event{ID: "evt_" + id, Subscription: id})
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
				require.Equal(t, map[intake.Outcome]int{intake.Done: 2, intake.Repeated: 2}, counts)
				standing, err := kept.Standing(t.Context(), account)
				require.NoError(t, err)
				require.Equal(t, now.Add(3*time.Hour), *standing.Entitlement.PaidUntil, account)
			}
		})
	}
}

// refusing is an authquota with something against an account.
type refusing struct {
	of     *authquota
	err    map[string]error
	during func() // something that happens while it is being told; may be nil
}

func (r *refusing) Put(ctx context.Context, path string, in, out any) error {
	if during := r.during; during != nil {
		r.during = nil
		during()
	}
	if err := r.err[path[strings.LastIndexByte(path, '/')+1:]]; err != nil {
		return err
	}
	return r.of.Put(ctx, path, in, out)
}

// An account that authquota does not have, or refuses, keeps no other from being told; it is tried again later, and a new change at once.
func TestOneAccountHoldsUpNoOther(t *testing.T) {
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := now
			at := func() time.Time { return clock }
			kept := store.New(opened(t, url), at)
			has := money{}
			in := intake.Intake{Store: kept, Source: has, Log: slog.New(slog.DiscardHandler)}
			buy := func(account string, months int) {
				id := "sub_" + account
				has[id] = subscription.State{ID: id, Account: account, Customer: "cus_" + account, Tier: api.Commercial,
					Paid: &subscription.Payment{Invoice: "in_1", Until: now.AddDate(0, months, 0)}}
				_, err := in.Refresh(t.Context(), id, intake.Cause{Actor: "test"})
				require.NoError(t, err)
			}
			to := &refusing{of: &authquota{kept: map[string]api.Entitlement{}, changes: map[string][]int64{}}, err: map[string]error{
				"acc_gone": &peer.StatusError{Status: http.StatusNotFound}, "acc_bad": &peer.StatusError{Status: http.StatusInternalServerError},
			}}
			counts, pending := map[entitle.Outcome]int{}, 0
			pusher := entitle.New(entitle.Pusher{
				Outbox: kept, Authquota: to, Now: at, Log: slog.New(slog.DiscardHandler),
				Count: func(o entitle.Outcome) { counts[o]++ }, Gauge: func(n int) { pending = n },
			})
			deliver := func(account string) {
				t.Helper()
				_, err := pusher.Deliver(t.Context(), account)
				require.NoError(t, err)
			}
			for _, account := range []string{"acc_bad", "acc_gone", "acc_good"} {
				buy(account, 1)
			}
			deliver("")
			require.Contains(t, to.of.kept, "acc_good")
			require.Equal(t, map[entitle.Outcome]int{entitle.Accepted: 1, entitle.Unknown: 1, entitle.Failed: 1}, counts)
			require.Equal(t, 2, pending)

			deliver("")
			require.Equal(t, 1, counts[entitle.Failed], "not before its time")
			delete(to.err, "acc_bad")
			clock = clock.Add(10 * time.Second)
			deliver("")
			require.Contains(t, to.of.kept, "acc_bad")
			require.Equal(t, 1, counts[entitle.Unknown], "retried slowly")

			buy("acc_gone", 2)
			deliver("")
			require.Equal(t, 2, counts[entitle.Unknown], "a change is told at once")
			delete(to.err, "acc_gone")
			clock = clock.Add(time.Hour)
			deliver("")
			require.Equal(t, now.AddDate(0, 2, 0), *to.of.kept["acc_gone"].PaidUntil)
			require.Zero(t, pending)

			to.err["acc_good"] = problem.Unavailable(errors.New("away"))
			buy("acc_good", 2)
			_, err := pusher.Deliver(t.Context(), "")
			require.Error(t, err, "an outage is everybody's")
			deliver("acc_good") // not due yet
			delete(to.err, "acc_good")
			clock = clock.Add(10 * time.Second)
			deliver("acc_good")
			require.Equal(t, now.AddDate(0, 2, 0), *to.of.kept["acc_good"].PaidUntil)

			buy("acc_good", 3)
			to.during = func() { buy("acc_good", 4) }
			deliver("acc_good")
			require.Equal(t, 1, pending, "what has changed meanwhile is owed still")
			deliver("")
			require.Equal(t, now.AddDate(0, 4, 0), *to.of.kept["acc_good"].PaidUntil)
			require.Zero(t, pending)
		})
	}
}
