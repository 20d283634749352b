package epochs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

// fault is a deliberate mistake, which the simulation must find.
type fault string

const (
	none           fault = ""
	noComparison   fault = "a lookup does not compare the epoch in the database with Redis"
	early          fault = "a change is acknowledged before it is published"
	unconditional  fault = "a change is made on a database that lacks the newest mark"
	forgetful      fault = "gateways remember no mark"
	revokesNothing fault = "accepting a loss revokes nothing"
)

// found is the panic of a violated promise.
type found string

// world is one run of two processes of authquota and two gateways on an SQLite database and Redis.
// Databases are set back to snapshots, Redis loses its data or is set back, processes are killed
// between the commit and the publication of a change.
type world struct {
	t     *testing.T
	r     *rand.Rand
	fault fault
	redis *redis.Client
	clock int64
	box   accountdb.Box
	dir   string
	files int

	current string // file of the database
	owners  [2]*process
	gates   [2]*gateway
	waiting []func() // publications that take effect later

	accounts []string
	keys     map[string]string // id -> account
	digests  map[string]string
	codes    map[string]string // hash -> account

	revoked, used, closed map[string]bool // acknowledged
	snapshots             []snapshot
	stats                 map[string]int

	later  func() error // publication of the change in progress
	killed bool         // the process of the change in progress
}

type snapshot struct {
	file  string
	since map[string]bool // accounts with acknowledged changes after it
}

// process is one process of authquota.
type process struct {
	*Epochs

	w  *world
	db *database.DB
}

// Published implements accountdb.Publisher.
func (p *process) Published() setback.Mark {
	if p.w.fault == unconditional {
		return setback.Mark{}
	}
	return p.Epochs.Published()
}

// Publish implements accountdb.Publisher. The publication happens now, later, or never, because
// Redis is unavailable or the process is killed.
func (p *process) Publish(ctx context.Context, verified, m setback.Mark, epochs []accountdb.Epoch) error {
	if p.w.fault == unconditional {
		verified = p.Epochs.Published()
	}
	publish := func() error { return p.Epochs.Publish(ctx, verified, m, epochs) }
	if p.w.fault == early {
		p.w.waiting = append(p.w.waiting, func() { _ = publish() })
		return nil
	}
	switch x := p.w.r.IntN(10); {
	case x == 0:
		p.w.stats["killed"]++
		p.w.killed = true
		return accountdb.ErrNotInEffect
	case x == 1: // Redis is unavailable, and a gateway sees the change in the next second
		p.w.stats["redis unavailable"]++
		p.w.gates[0].tick()
		return accountdb.ErrNotInEffect
	case x < 5:
		p.w.later = publish
		return accountdb.ErrNotInEffect
	}
	return publish()
}

func (w *world) open(file string) *database.DB {
	tel := storetest.Must(telemetry.Start(w.t.Context(), "simulation", telemetry.Config{LogOutput: io.Discard}))(w.t)
	db := storetest.Must(database.Open(database.Config{URL: "sqlite://" + file, MaxConnections: 1}, tel))(w.t)
	w.t.Cleanup(func() { _ = db.Close() })
	require.NoError(w.t, db.Exec("PRAGMA synchronous = OFF").Error)
	return db
}

func newWorld(t *testing.T, seed uint64, fault fault, client *redis.Client, stats map[string]int) *world {
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 1)), fault: fault, redis: client, clock: 1_700_000_000_000_000, dir: t.TempDir(),
		stats: stats, box: testkit.Box(t, "e7"),
		keys: map[string]string{}, digests: map[string]string{}, codes: map[string]string{},
		revoked: map[string]bool{}, used: map[string]bool{}, closed: map[string]bool{},
	}
	require.NoError(t, client.FlushAll(t.Context()).Err())
	w.current = strings.TrimPrefix(testkit.Schema.SQLite(t), "sqlite://")
	for i := range w.owners {
		w.owners[i] = &process{w: w}
		w.owners[i].restart()
	}
	for i := range w.gates {
		w.gates[i] = &gateway{w: w, cache: map[string]keys.Resolved{}}
		w.gates[i].restart()
	}
	for i := range 12 {
		unpublished := &accountdb.DB{DB: w.owners[0].db, Now: w.now}
		require.NoError(t, unpublished.Change(t.Context(), func(tx *accountdb.Tx) error {
			a := storetest.Must(account.Create(tx, api.Free))(t)
			w.accounts = append(w.accounts, a.ID)
			err := tx.Exec("INSERT INTO people (account_id, email, password_hash, created_at) VALUES (?, ?, 'hash', 0)", a.ID,
				fmt.Sprint("p", i, "@example.org")).Error
			for c := range 4 {
				code := fmt.Sprint(i, "-", c)
				w.codes[code] = a.ID
				err = errors.Join(err, tx.Exec("INSERT INTO recovery_codes (account_id, hash) VALUES (?, ?)", a.ID, code).Error)
			}
			return err
		}))
	}
	w.settle()
	return w
}

func (w *world) now() time.Time { w.clock += 7; return time.UnixMicro(w.clock) }

// restart begins the process again, with an empty memory.
func (p *process) restart() {
	if p.db == nil {
		p.db = p.w.open(p.w.current)
	}
	p.Epochs = &Epochs{
		Guard: setback.New("authquota", setback.Store{DB: p.db, Changes: "changes"}, slog.New(slog.DiscardHandler),
			prometheus.NewRegistry()),
		Redis: p.w.redis, DB: &accountdb.DB{
			DB: p.db, Now: p.w.now, Box: p.w.box, Mails: mail.Writer{PublicURL: "https://api.example"}, Publisher: p,
		},
	}
}

// failOver gives all processes another database.
func (w *world) failOver(file string) {
	w.current = file
	for _, p := range w.owners {
		_ = p.db.Close()
		p.db = w.open(file)
		p.DB.DB, p.Store.DB = p.db, p.db
	}
}

func (w *world) snapshot() {
	w.files++
	file := filepath.Join(w.dir, fmt.Sprint(w.files, ".db"))
	require.NoError(w.t, w.owners[0].db.Exec("VACUUM INTO '"+file+"'").Error)
	w.snapshots = append(w.snapshots, snapshot{file, map[string]bool{}})
}

// require panics if a promise is violated.
func (w *world) require(holds bool, format string, args ...any) {
	if !holds {
		panic(found(fmt.Sprintf(format, args...)))
	}
}

func pick[T any](w *world, all []T) T { return all[w.r.IntN(len(all))] }

// change commits a change of an account. ack is called once it is acknowledged.
func (w *world) change(id string, do func(db *accountdb.DB) error, ack func()) {
	p := pick(w, w.owners[:])
	if p.Err() != nil {
		return
	}
	w.later, w.killed = nil, false
	err := do(p.DB)
	before := slices.Clone(w.snapshots)
	acknowledged := func() {
		for _, s := range before {
			s.since[id] = true
		}
		ack()
	}
	switch later := w.later; {
	case w.killed:
		p.restart()
		_ = p.Poll(context.Background())
	case later != nil:
		w.waiting = append(w.waiting, func() {
			if later() == nil {
				acknowledged()
			}
		})
	case err == nil:
		acknowledged()
	}
}

// publish lets up to n changes take effect.
func (w *world) publish(n int) {
	for range min(n, len(w.waiting)) {
		i := w.r.IntN(len(w.waiting))
		next := w.waiting[i]
		w.waiting = slices.Delete(w.waiting, i, i+1)
		next()
	}
}

// gateway is one process of the gateway.
type gateway struct {
	w      *world
	memory *setback.Memory
	cache  map[string]keys.Resolved
}

func (g *gateway) restart() {
	g.memory = &setback.Memory{Store: peer.Authquota, Redis: g.w.redis,
		Verify: func(ctx context.Context, seen []string) (string, error) {
			newest, _, err := pick(g.w, g.w.owners[:]).Verify(ctx, seen...)
			return newest.String(), err
		}}
	clear(g.cache)
}

func (g *gateway) tick() {
	if g.w.fault == forgetful {
		g.restart()
	} else {
		stored, err := g.w.redis.HGet(context.Background(), counter.Marks, peer.Authquota).Result()
		_ = g.memory.Exchange(context.Background(), stored, err == nil || errors.Is(err, redis.Nil))
	}
}

// admit reports whether a request with a key is admitted.
func (g *gateway) admit(id string) (bool, error) {
	ctx := context.Background()
	for range 3 {
		k, cached := g.cache[id]
		if !cached {
			p := pick(g.w, g.w.owners[:])
			store := keys.NewStore(p.DB)
			read := func(ctx context.Context) (_ accountdb.Epoch, err error) {
				k, err = store.Resolve(ctx, []string{g.w.digests[id]})
				return k.Epoch, err
			}
			var err error
			if g.w.fault == noComparison {
				_, err = read(ctx)
				g.w.redis.HSetNX(ctx, counter.Epochs, k.Account, k.Epoch.Number)
			} else {
				err = p.InEffect(ctx, read)
			}
			if problem.Of(err).Code == problem.NotFound { // it was issued after the backup
				return false, nil
			}
			if err != nil {
				return false, err
			}
			g.cache[id] = k
		}
		epoch, err := g.w.redis.HGet(ctx, counter.Epochs, k.Account).Result()
		if err == nil && (epoch == strconv.FormatInt(k.Epoch.Number, 10) || g.w.fault == noComparison && !cached) {
			return k.RevokedAt == nil && !k.Suspended, nil
		}
		delete(g.cache, id)
	}
	return false, errors.New("unavailable")
}

func (w *world) admit() {
	if len(w.keys) == 0 {
		return
	}
	id := pick(w, slices.Sorted(maps.Keys(w.keys)))
	admitted, err := pick(w, w.gates[:]).admit(id)
	switch {
	case err != nil:
		w.stats["unavailable"]++
	case admitted:
		w.stats["admitted"]++
		w.require(!w.revoked[id], "the revoked key %s is admitted", id)
		w.require(!w.closed[w.keys[id]], "key %s of a closed account is admitted", id)
	default:
		w.stats["rejected"]++
	}
}

func (w *world) step() {
	ctx := context.Background()
	id := pick(w, w.accounts)
	switch x := w.r.IntN(100); {
	case x < 12:
		w.change(id, func(db *accountdb.DB) error {
			digest := fmt.Sprintf("%064d", len(w.keys)+1)
			k, err := keys.NewStore(db).Issue(ctx, "ann", api.KeyOrder{Account: id, UseCase: "x"}, keys.MaxLife, keys.Record{
				Digest: digest, Prefix: "p", LastFour: "abcd",
			})
			if err == nil {
				w.keys[k.ID], w.digests[k.ID] = id, digest
			}
			return err
		}, func() {})
	case x < 26 && len(w.keys) > 0:
		key := pick(w, slices.Sorted(maps.Keys(w.keys)))
		w.change(w.keys[key], func(db *accountdb.DB) error {
			return storetest.Err(keys.NewStore(db).Revoke(ctx, "ann", key, false))
		}, func() { w.revoked[key] = true; w.stats["revoked"]++ })
	case x < 28:
		w.change(id, func(db *accountdb.DB) error { return people.NewStore(db).CloseAccount(ctx, id) },
			func() { w.closed[id] = true; w.stats["closed"]++ })
	case x < 38:
		code := pick(w, slices.Sorted(maps.Keys(w.codes)))
		w.change(w.codes[code], func(db *accountdb.DB) error {
			return db.Change(ctx, func(tx *accountdb.Tx) error {
				done := tx.Exec("UPDATE recovery_codes SET used_at = 1 WHERE hash = ? AND used_at IS NULL", code)
				if done.Error == nil && done.RowsAffected == 0 {
					return errors.New("used")
				}
				return errors.Join(done.Error, tx.Remember(w.codes[code]))
			})
		}, func() {
			w.require(!w.used[code], "the code %s works twice", code)
			w.used[code] = true
			w.stats["codes"]++
		})
	case x < 46:
		w.publish(2)
	case x < 90:
		w.admit()
	case x < 94:
		pick(w, w.gates[:]).tick()
	case x < 98:
		_ = pick(w, w.owners[:]).Poll(ctx)
	default:
		p := pick(w, w.owners[:])
		p.restart()
		_ = p.Poll(ctx)
	}
}

// settle is a few seconds without a fault.
func (w *world) settle() {
	for range waits + 2 {
		for i, p := range w.owners {
			w.gates[i].tick()
			_ = p.Poll(context.Background())
		}
	}
}

func (w *world) requireAvailable(after string) {
	w.settle()
	for _, p := range w.owners {
		w.require(p.Err() == nil, "stopped after %s", after)
		w.require(p.Poll(context.Background()) == nil, "polls fail after %s", after)
	}
	for id := range w.keys {
		_, err := w.gates[0].admit(id)
		w.require(err == nil, "a key is unavailable after %s: %v", after, err)
	}
}

// recover is the verb recover of the service.
func (w *world) recover(current bool) {
	ctx, p := context.Background(), w.owners[0]
	lost := storetest.Must(ReadLost(ctx, w.redis, p.Store))(w.t)
	now := w.now()
	decision := lost.Accept(now, "ann")
	if current || w.fault == revokesNothing {
		decision = Current(now, "ann")
	}
	require.NoError(w.t, p.Begin(ctx, now, "ann", decision, lost.Marks...))
}

// setBack restores the database to a snapshot, also Redis to nothing if both is set.
func (w *world) setBack(both bool) {
	if w.r.IntN(2) == 0 {
		w.publish(len(w.waiting))
	}
	newer, lost := w.current, w.snapshots[len(w.snapshots)-1-w.r.IntN(min(3, len(w.snapshots)))]
	if both { // gateways have seen what was acknowledged
		w.publish(len(w.waiting))
		w.settle()
		require.NoError(w.t, w.redis.FlushAll(context.Background()).Err())
	}
	w.failOver(lost.file)
	w.snapshots = nil // changes from now on are not lost
	if both {
		for _, p := range w.owners {
			p.restart()
			for range w.r.IntN(2) * (waits + 1) { // without a gateway: it fills Redis
				_ = p.Poll(context.Background())
			}
		}
	} else {
		for range w.r.IntN(40) {
			w.step()
		}
		w.publish(len(w.waiting))
	}
	w.settle()
	stopped := w.owners[0].Err() != nil && w.owners[1].Err() != nil
	w.require(stopped || len(lost.since) == 0, "%d accounts have lost changes, and the service runs", len(lost.since))
	for range 20 {
		w.admit()
	}
	switch {
	case !stopped:
		w.require(w.owners[0].Err() == nil && w.owners[1].Err() == nil, "one process runs and the other does not")
		w.stats["nothing lost"]++
	case w.r.IntN(3) == 0 && !both:
		w.failOver(newer) // point-in-time recovery
		w.requireAvailable("a recovery of the complete database")
		w.stats["recovered"]++
	default:
		w.recover(false)
		w.requireAvailable("an accepted loss")
		if both { // their states are lost with Redis
			clear(w.closed)
		}
		for id := range w.closed {
			e := storetest.Must(w.owners[0].DB.Epochs(context.Background(), "a.id = ?", id))(w.t)
			w.require(e[0].State == counter.ClosedState, "the closed account %s is open", id)
		}
		for id := range w.keys {
			admitted, _ := w.gates[1].admit(id)
			w.require(!admitted || !w.revoked[id], "the revoked key %s is admitted after an accepted loss", id)
			if admitted {
				w.stats["kept"]++
			}
		}
		w.stats["accepted"]++
	}
	w.waiting, w.snapshots = nil, nil
	w.snapshot()
}

func (w *world) run() {
	ctx := context.Background()
	saved := w.redis.HGetAll(ctx, counter.Epochs).Val()
	w.snapshot()
	for range 6 {
		for range 30 + w.r.IntN(60) {
			if w.step(); w.r.IntN(40) == 0 {
				w.snapshot()
			}
		}
		switch w.r.IntN(8) {
		case 0:
			require.NoError(w.t, w.redis.FlushAll(ctx).Err())
			for range 10 {
				w.admit()
			}
			w.requireAvailable("a loss of Redis")
			w.stats["redis lost"]++
		case 1: // a failover to a replica without the latest writes
			require.NoError(w.t, w.redis.Del(ctx, counter.Epochs).Err())
			require.NoError(w.t, w.redis.HSet(ctx, counter.Epochs, saved).Err())
			for _, g := range w.gates {
				clear(g.cache)
			}
			w.requireAvailable("a failover of Redis")
			saved = w.redis.HGetAll(ctx, counter.Epochs).Val()
			w.stats["redis set back"]++
		case 2:
			field := pick(w, [][2]string{{counter.Epochs, counter.EpochsMark}, {counter.Marks, peer.Authquota}})
			forged := pick(w, []string{strings.Repeat("9", 100_000), "", "x", "nan", "\x00", "0000000000000001.1",
				"0000000000000001.9223372036854775807.x"})
			require.NoError(w.t, w.redis.HSet(ctx, field[0], field[1], forged).Err())
			require.NoError(w.t, w.redis.HSet(ctx, counter.Epochs, pick(w, w.accounts), "8999999999999999").Err())
			w.requireAvailable("marks of another form")
			require.NoError(w.t, w.redis.HSet(ctx, field[0], field[1], fmt.Sprintf("%016x.%d.x", w.r.Uint64(), 1<<50)).Err())
			w.settle()
			w.require(w.owners[0].Err() != nil && w.owners[1].Err() != nil || w.fault == forgetful,
				"the service runs with a mark that it lacks")
			w.recover(true)
			w.requireAvailable("the decision that the database is current")
			w.stats["forged"]++
		default:
			w.setBack(w.r.IntN(4) == 0)
			saved = w.redis.HGetAll(ctx, counter.Epochs).Val()
		}
	}
}

// simulate returns what a run has found.
func simulate(t *testing.T, seed uint64, fault fault, client *redis.Client, stats map[string]int) (violated found) {
	t.Helper()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case found:
			violated = v
		default:
			panic(v)
		}
	}()
	newWorld(t, seed, fault, client, stats).run()
	return ""
}

// Whatever is set back, lost or killed: no revoked key, closed account or used code works, the
// service runs exactly while it lacks nothing, and a decision of an operator makes it available. It
// runs SIMULATE_RUNS seeds (default 8) from SIMULATE_SEED (default 0) on each kind of Redis.
func TestSimulation(t *testing.T) {
	first, _ := strconv.ParseUint(cmp.Or(os.Getenv("SIMULATE_SEED"), "0"), 10, 64)
	runs := storetest.Must(strconv.ParseUint(cmp.Or(os.Getenv("SIMULATE_RUNS"), "8"), 10, 64))(t)
	for name, start := range map[string]func(t *testing.T) *redis.Client{
		"redis":    func(t *testing.T) *redis.Client { return redistest.Start(t).Client() },
		"embedded": func(t *testing.T) *redis.Client { return redistest.Embedded(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, stats := start(t), map[string]int{}
			for seed := first; seed < first+runs; seed++ {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					require.Empty(t, simulate(t, seed, none, client, stats))
				})
			}
			if runs < 8 {
				return // too few for every event
			}
			for _, happened := range []string{"killed", "admitted", "rejected", "unavailable", "revoked", "closed", "codes",
				"redis lost", "redis set back", "redis unavailable", "forged", "recovered", "accepted", "kept"} {
				require.Positive(t, stats[happened], happened)
			}
		})
	}
}

func TestSimulationFindsFaults(t *testing.T) {
	t.Parallel()
	client := redistest.Embedded(t)
	for _, fault := range []fault{noComparison, early, unconditional, forgetful, revokesNothing} {
		t.Run(string(fault), func(t *testing.T) {
			for seed := range 50 {
				violated := found("")
				t.Run(strconv.Itoa(seed),
					func(t *testing.T) { violated = simulate(t, uint64(seed), fault, client, map[string]int{}) })
				if violated != "" {
					return
				}
			}
			t.Fatal("not found")
		})
	}
}
