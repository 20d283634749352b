package highwater

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
)

// ErrSetBack is the error of a service whose database lacks what a keeper has seen, and no operator has decided what to do.
var ErrSetBack = errors.New("the database was set back")

// Owner is a store and its marks. Its functions return problem.Unavailable during an outage.
type Owner struct {
	Store string // its name
	Key   Key

	Newest func(ctx context.Context) (Mark, error)
	Has    func(ctx context.Context, l Loss) (bool, error)

	// Number verifies the signature of a checkpoint and returns its number. nil for a store without checkpoints.
	Number func(note string) (int64, error)
	// Always returns further marks, to be verified on each request. May be nil.
	Always func(ctx context.Context) ([]string, error)

	Keeps []Row // marks of other stores that this service keeps for them
}

// Guard stops a service whose database was set back. It verifies every mark that is presented to the service.
type Guard struct {
	owner Owner
	db    *database.DB
	now   func() time.Time
	log   *slog.Logger

	rejected prometheus.Counter
	forged   atomic.Pointer[string] // the last rejected text

	newest     atomic.Pointer[Mark]   // the newest one that this process has made
	exchanged  atomic.Pointer[string] // the newest one of the last Exchange
	refreshing sync.Mutex             // held by Refresh, so that none of them uses rows that are older than those of another
	mu         sync.Mutex
	open       []Loss // empty: not set back

	once     sync.Once
	reported chan struct{} // closed after the first request of a gateway for the newest mark
}

// New returns a guard of the store in db. It registers its metrics.
func New(owner Owner, db *database.DB, now func() time.Time, log *slog.Logger, registry prometheus.Registerer) *Guard {
	g := &Guard{owner: owner, db: db, now: now, log: log, reported: make(chan struct{})}
	labels := prometheus.Labels{"store": owner.Store}
	g.rejected = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "store_marks_rejected_total", ConstLabels: labels,
		Help: "High-water marks that no current key of the store authenticates: forged, or made under a retired secret. They were ignored.",
	})
	registry.MustRegister(g.rejected, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "store_set_back", ConstLabels: labels,
		Help: "1 while the database lacks changes that another service has seen and no operator has decided what to do, otherwise 0.",
	}, func() float64 {
		if g.Err() != nil {
			return 1
		}
		return 0
	}))
	return g
}

// Err returns ErrSetBack while the database is set back.
func (g *Guard) Err() error {
	if len(g.lacking()) > 0 {
		return ErrSetBack
	}
	return nil
}

// Available returns an error (503) while the database is set back.
func (g *Guard) Available() error {
	if err := g.Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// Changes returns changes for a feed that holds requests: it fails as soon as the database is set back, so that the follower asks again after
// the decision of an operator, and does not wait for the end of the held request.
func Changes[T any](g *Guard, changes func(ctx context.Context, after int64, limit int) ([]T, error)) func(ctx context.Context, after int64, limit int) ([]T, error) {
	return func(ctx context.Context, after int64, limit int) ([]T, error) {
		if err := g.Available(); err != nil {
			return nil, err
		}
		return changes(ctx, after, limit)
	}
}

// unavailable returns the error of a request while the database is set back, which update has logged.
func unavailable(cause error) *problem.Error {
	e := problem.Unavailable(cause)
	e.Reported = true
	return e
}

// lacking returns what the database is known to lack.
func (g *Guard) lacking() []Loss {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// Newest returns the text of the newest mark, or "" before the first change.
func (g *Guard) Newest(ctx context.Context) (string, error) {
	m, err := g.owner.Newest(ctx)
	if err != nil || m.Sequence == 0 {
		return "", err
	}
	g.Made(m)
	return g.owner.Key.Encode(m), nil
}

// Made remembers a mark of this process, which Verify then verifies too.
func (g *Guard) Made(m Mark) {
	for {
		known := g.newest.Load()
		if known != nil && (m.Sequence < known.Sequence || m == *known) {
			return
		}
		if g.newest.CompareAndSwap(known, &m) {
			return
		}
	}
}

// Verify verifies that the database has everything that marks name, and the newest mark that this process has made. It returns ErrSetBack if
// it lacks any. lost reports that it does, and that an operator has accepted that. It ignores marks that no key authenticates.
func (g *Guard) Verify(ctx context.Context, marks ...string) (lost bool, err error) {
	made, lostMade := g.newest.Load(), false
	if made != nil {
		if lostMade, err = g.verifyMark(ctx, *made); err != nil {
			return false, err
		}
		if lostMade {
			g.newest.CompareAndSwap(made, nil)
		}
	}
	var errs []error
	for i, text := range marks {
		m, err := g.owner.Key.Decode(text)
		if err != nil {
			g.reject(ctx, text)
		}
		if err != nil || slices.Contains(marks[:i], text) {
			continue
		}
		if made != nil && m == *made { // verified above
			lost = lost || lostMade
			continue
		}
		accepted, err := g.verifyMark(ctx, m)
		lost = lost || accepted
		errs = append(errs, err)
	}
	return lost, errors.Join(errs...)
}

// reject counts a mark that is not authentic, and logs it unless it is the same as before.
func (g *Guard) reject(ctx context.Context, text string) {
	if text == "" {
		return
	}
	g.rejected.Inc()
	if before := g.forged.Swap(&text); before == nil || *before != text {
		g.log.WarnContext(ctx, "high-water mark rejected: no current key of this store authenticates it", "mark", text[:min(len(text), 64)])
	}
}

func (g *Guard) verifyMark(ctx context.Context, m Mark) (lost bool, err error) {
	lost, err = g.verify(ctx, Loss{Kind: Change, Number: m.Sequence, ID: m.ID})
	if m.Checkpoint == "" || g.owner.Number == nil {
		return lost, err
	}
	number, invalid := g.owner.Number(m.Checkpoint)
	if invalid != nil || number < 1 || number > MaxSequence {
		g.reject(ctx, m.Checkpoint)
		return lost, err
	}
	lostCheckpoint, err2 := g.verify(ctx, CheckpointLoss(Checkpoint, number, m.Checkpoint))
	return lost || lostCheckpoint, errors.Join(err, err2)
}

// ReportLoss stops the service if the database lacks l, which a witness outside has proved. It returns ErrSetBack then.
func (g *Guard) ReportLoss(ctx context.Context, l Loss) error {
	_, err := g.verify(ctx, l)
	return err
}

// verify returns ErrSetBack if the database lacks l. accepted reports that it does, and that an operator has accepted that.
func (g *Guard) verify(ctx context.Context, l Loss) (accepted bool, err error) {
	if has, err := g.owner.Has(ctx, l); err != nil || has {
		return false, err
	}
	all, err := Losses(g.db.WithContext(ctx))
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(all, l.Is)
	switch {
	case at >= 0 && !all[at].Open():
		return true, nil
	case at < 0:
		l.FoundAt = g.now().UnixMicro()
		if err := AddLoss(g.db.WithContext(ctx), l); err != nil {
			return false, err
		}
	}
	g.update(ctx, []Loss{l}, nil)
	return false, ErrSetBack
}

// Refresh reads the losses, which other processes record and accept, too. It deletes those that the database has again, because they were
// replayed.
func (g *Guard) Refresh(ctx context.Context) error {
	g.refreshing.Lock()
	defer g.refreshing.Unlock()
	known := g.lacking()
	all, err := Losses(g.db.WithContext(ctx))
	if err != nil {
		return err
	}
	for _, l := range known {
		if !slices.ContainsFunc(all, l.Is) { // another process deleted it
			all = append(all, l)
		}
	}
	var open, decided []Loss
	for _, l := range all {
		has := false
		if l.Open() {
			has, err = g.owner.Has(ctx, l)
		}
		if err == nil && has {
			err = deleteLoss(g.db.WithContext(ctx), l)
		}
		if err != nil {
			return err
		}
		if has || !l.Open() {
			decided = append(decided, l)
		} else {
			open = append(open, l)
		}
	}
	g.update(ctx, open, decided)
	return nil
}

// update adds what the database lacks and removes what it has again or an operator has accepted, and logs the transitions. Only a decided
// loss is removed: one that is missing in the rows that Refresh read may have been found since.
func (g *Guard) update(ctx context.Context, open, decided []Loss) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.open)
	now := slices.DeleteFunc(slices.Clone(g.open), func(l Loss) bool { return slices.ContainsFunc(decided, l.Is) })
	for _, l := range open {
		if !slices.ContainsFunc(now, l.Is) {
			now = append(now, l)
		}
	}
	g.open = now
	switch {
	case before == 0 && len(now) > 0:
		g.log.ErrorContext(ctx, "database set back: it lacks what another service has seen; accept the loss or replay an export",
			"lacks", Describe(now))
	case before > 0 && len(now) == 0:
		g.log.InfoContext(ctx, "database no longer set back")
	}
}

// exchangeAttempts bounds the retries of Exchange, whose keeper other replicas use, too.
const exchangeAttempts = 10

// Exchange verifies the marks of a keeper and gives it the newest one. It returns ErrSetBack if the database lacks any of them, and
// problem.Unavailable if the keeper or the database cannot be reached.
func (g *Guard) Exchange(ctx context.Context, keeper Keeper) error {
	for range exchangeAttempts {
		seen, err := keeper.Marks(ctx)
		if err != nil {
			return err
		}
		newest, err := g.Newest(ctx) // before Verify: the database may be replaced in between
		if err != nil {
			return err
		}
		lost, err := g.Verify(ctx, seen...)
		err = errors.Join(err, g.Refresh(ctx))
		if g.Err() != nil {
			return g.Available()
		}
		if err != nil || newest == "" {
			return err
		}
		replaced := !lost && len(seen) == 1 && seen[0] == newest
		if !replaced {
			if replaced, err = keeper.Replace(ctx, seen, newest, lost); err != nil {
				return err
			}
		}
		if replaced {
			g.exchanged.Store(&newest)
			return nil
		}
	}
	return problem.Unavailable(errReplaced)
}

// Report is Exchange, unless the newest mark is that of the last one.
func (g *Guard) Report(ctx context.Context, keeper Keeper) error {
	if err := g.Available(); err != nil {
		return err
	}
	newest, err := g.Newest(ctx)
	if last := g.exchanged.Load(); err != nil || newest == "" || last != nil && *last == newest {
		return err
	}
	return g.Exchange(ctx, keeper)
}

// reportWait is the time for which AfterReport waits: gateways present their marks every second.
const reportWait = 5 * time.Second

// AfterReport returns do, which waits until a gateway has presented its marks. Without gateways, it waits only once.
func (g *Guard) AfterReport(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-g.reported:
		case <-time.After(reportWait):
			g.once.Do(func() { close(g.reported) })
		case <-ctx.Done():
			return ctx.Err()
		}
		return do(ctx)
	}
}

// UnlessSetBack returns do for a loop that does nothing while the database is set back.
func (g *Guard) UnlessSetBack(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if g.Err() != nil {
			return nil
		}
		return do(ctx)
	}
}

// Check verifies the marks and those of Owner.Always. It returns an error (503) while the database is set back, and during an outage.
func (g *Guard) Check(ctx context.Context, marks ...string) (lost bool, err error) {
	var always []string
	var failed error
	if g.owner.Always != nil {
		always, failed = g.owner.Always(ctx)
	}
	lost, err = g.Verify(ctx, append(always, marks...)...)
	if g.Err() != nil {
		return lost, g.Available()
	}
	return lost, errors.Join(failed, err)
}
