package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
)

// ErrSetBack is the error of a service whose database lacks changes that another service has seen: it was set back, for example restored
// from a backup, and no operator has decided what to do.
var ErrSetBack = errors.New("the database was set back")

const (
	guardInterval   = time.Second      // between reads of the decisions, which any process may make
	compareInterval = 10 * time.Second // between comparisons with the peer
	compareTimeout  = 5 * time.Second
)

// Guard stops a service whose database was set back. The service must verify with it the marks of all pulls from its feed. The guard
// also compares the database with what the peer has seen, at the start and every ten seconds: a service that is not ready gets no pulls.
type Guard struct {
	r    *Runtime
	has  func(context.Context, database.SetBack) (bool, error)
	seen func(context.Context) (api.Seen, error)

	refreshing sync.Mutex // held by refresh, so that none of them uses rows that are older than those of another
	mu         sync.Mutex
	open       []database.SetBack // empty: not set back

	once     sync.Once
	reported chan struct{} // closed after the first report of a gateway
}

// Guard adds a guard to the service name. has reports whether the database has a change or a checkpoint. seen requests what the peer has
// seen.
func (r *Runtime) Guard(name string, has func(context.Context, database.SetBack) (bool, error), seen func(context.Context) (api.Seen, error)) *Guard {
	g := &Guard{r: r, has: has, seen: seen, reported: make(chan struct{})}
	r.Ready.Add(api.SetBackCondition, func(context.Context) error { return g.Err() })
	r.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "store_set_back", ConstLabels: prometheus.Labels{"store": name},
		Help: "1 while the database lacks changes that another service has seen and no operator has decided what to do, otherwise 0.",
	}, func() float64 {
		if g.Err() != nil {
			return 1
		}
		return 0
	}))
	r.Every(Loop{Name: "set back", Interval: guardInterval, Timeout: compareTimeout, Do: g.refresh})
	r.Every(Loop{Name: "comparison with peer", Interval: compareInterval, Timeout: compareTimeout, Do: func(ctx context.Context) error {
		err := g.Compare(ctx)
		if e := new(problem.Error); errors.Is(err, ErrSetBack) || errors.As(err, &e) && e.Code == problem.ServiceUnavailable {
			return nil // reported once by set; or an outage, which the feed reports
		}
		return err
	}})
	return g
}

// Err returns ErrSetBack while the database is set back.
func (g *Guard) Err() error {
	if len(g.lacking()) > 0 {
		return ErrSetBack
	}
	return nil
}

// lacking returns what the database is known to lack.
func (g *Guard) lacking() []database.SetBack {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// Verify implements feed.Source.
func (g *Guard) Verify(ctx context.Context, seen api.FeedMark) (startOver bool, err error) {
	startOver, err = g.verify(ctx, database.SetBack{Kind: database.Change, Number: seen.Sequence, ID: seen.ID})
	if err == nil {
		err = g.Err()
	}
	if errors.Is(err, ErrSetBack) {
		err = rejected(err)
	}
	return startOver, err
}

// rejected returns the error of a request while the database is set back, which set has logged.
func rejected(cause error) *problem.Error {
	e := problem.Unavailable(cause)
	e.Reported = true
	return e
}

// Available returns an error (503) while the database is set back.
func (g *Guard) Available() error {
	if err := g.Err(); err != nil {
		return rejected(err)
	}
	return nil
}

// Compare compares the database with what the peer has seen. It returns ErrSetBack if the database lacks any of it, and
// problem.Unavailable if the peer or the database cannot be reached.
func (g *Guard) Compare(ctx context.Context) error {
	seen, err := g.seen(ctx)
	if err != nil {
		return err
	}
	return g.compare(ctx, seen)
}

// Witness compares the database with what gateways have seen of it, and returns its newest. So a restore of catalog and history to the same
// point is recognized, which their feeds do not show. It returns an error (503) while the database is set back.
func (g *Guard) Witness(newest func(context.Context) (api.Seen, error)) func(context.Context, api.Seen) (api.Seen, error) {
	return func(ctx context.Context, seen api.Seen) (api.Seen, error) {
		err := g.compare(ctx, seen)
		if errors.Is(err, ErrSetBack) {
			return api.Seen{}, rejected(err)
		}
		if err != nil {
			return api.Seen{}, err
		}
		g.once.Do(func() { close(g.reported) })
		return newest(ctx)
	}
}

// reportWait is the time for which AfterReport waits: gateways report every second.
const reportWait = 5 * time.Second

// AfterReport returns do, which waits until a gateway has reported. Without gateways, it waits only once.
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

func (g *Guard) compare(ctx context.Context, seen api.Seen) error {
	c := seen.Checkpoint
	sum := sha256.Sum256([]byte(c.Note))
	_, err1 := g.verify(ctx, database.SetBack{Kind: database.Change, Number: seen.Mark.Sequence, ID: seen.Mark.ID})
	_, err2 := g.verify(ctx, database.SetBack{Kind: database.Checkpoint, Number: c.Number, ID: hex.EncodeToString(sum[:]), Note: c.Note})
	return errors.Join(err1, err2, g.refresh(ctx), g.Err())
}

// verify returns ErrSetBack if the database lacks s. accepted reports that it does, and that an operator has accepted that.
func (g *Guard) verify(ctx context.Context, s database.SetBack) (accepted bool, err error) {
	if s.Number == 0 {
		return false, nil
	}
	if has, err := g.has(ctx, s); err != nil || has {
		return false, err
	}
	all, err := g.r.DB.SetBacks(ctx)
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(all, s.Is)
	switch {
	case at >= 0 && !all[at].Open():
		return true, nil
	case at < 0:
		s.FoundAt = g.r.Now().UnixMicro()
		if err := g.r.DB.AddSetBack(ctx, s); err != nil {
			return false, err
		}
	}
	g.update(ctx, []database.SetBack{s}, nil)
	return false, ErrSetBack
}

// refresh reads the SetBacks, which other processes change, too. It deletes those that the database has again, because the missing events
// were replayed.
func (g *Guard) refresh(ctx context.Context) error {
	g.refreshing.Lock()
	defer g.refreshing.Unlock()
	known := g.lacking()
	all, err := g.r.DB.SetBacks(ctx)
	if err != nil {
		return err
	}
	for _, s := range known {
		if !slices.ContainsFunc(all, s.Is) { // another process deleted it
			all = append(all, s)
		}
	}
	var open, decided []database.SetBack
	for _, s := range all {
		has := false
		if s.Open() {
			has, err = g.has(ctx, s)
		}
		if err == nil && has {
			err = g.r.DB.DeleteSetBack(ctx, s)
		}
		if err != nil {
			return err
		}
		if has || !s.Open() {
			decided = append(decided, s)
		} else {
			open = append(open, s)
		}
	}
	g.update(ctx, open, decided)
	return nil
}

// update adds what the database lacks and removes what it has again or an operator has accepted, and logs the transitions. Only a decided
// SetBack is removed: one that is missing in the rows that refresh read may have been found since.
func (g *Guard) update(ctx context.Context, open, decided []database.SetBack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.open)
	now := slices.DeleteFunc(slices.Clone(g.open), func(s database.SetBack) bool { return slices.ContainsFunc(decided, s.Is) })
	for _, s := range open {
		if !slices.ContainsFunc(now, s.Is) {
			now = append(now, s)
		}
	}
	g.open = now
	switch {
	case before == 0 && len(now) > 0:
		g.r.Log.ErrorContext(ctx, "database set back: it lacks what another service has seen; accept the loss or replay an export",
			"lacks", describe(now))
	case before > 0 && len(now) == 0:
		g.r.Log.InfoContext(ctx, "database no longer set back")
	}
}

func describe(all []database.SetBack) string {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", s.Kind, s.Number)
		if s.ID != "" {
			b.WriteString(" " + s.ID)
		}
	}
	return b.String()
}

// Handler returns a handler that rejects requests while the database is set back, except those to the paths in except.
func (g *Guard) Handler(next http.Handler, problems problem.Writer, except ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.Err(); err != nil && !slices.Contains(except, r.URL.Path) {
			failed := rejected(err)
			if strings.HasPrefix(r.URL.Path, "/operator/") {
				failed.Message = "The database of this service was set back. Nothing is served or changed until you accept the loss or replay an export: see the runbook OpportunityStoreSetBack."
			}
			problems.Write(w, r, failed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// NotSetBack returns ErrSetBack if a process of the service has found the database set back. It is for verbs, which have no guard.
func (r *Runtime) NotSetBack(ctx context.Context) error {
	all, err := r.DB.SetBacks(ctx)
	if err == nil && slices.ContainsFunc(all, database.SetBack.Open) {
		err = ErrSetBack
	}
	return err
}

// Accept accepts that the database lacks what another service has seen of it, and writes to out what it accepted. The consumers of the
// service's feed then copy everything again.
func (d Definition[C]) Accept(ctx context.Context, cfg C, operator string, out io.Writer) error {
	return d.Do(ctx, cfg, func(r *Runtime) error {
		accepted, err := r.DB.AcceptSetBacks(ctx, r.Now(), operator)
		if err != nil {
			return err
		}
		if len(accepted) == 0 {
			return fmt.Errorf("the database of %s is not set back: nothing to accept. A service compares it with its peer when it runs", d.Name)
		}
		_, err = fmt.Fprintf(out, "accepted that %s lacks %s: generation %d begins\n", d.Name, describe(accepted), accepted[0].Generation)
		return err
	})
}
