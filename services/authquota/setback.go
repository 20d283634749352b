package authquota

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/breaker"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/epoch"
	"opportunity.internal/services/authquota/internal/journal"
)

// witness compares the database with the newest change that is known outside it: in Redis, in this process's journal, and to the gateways,
// which store it in history as well.
type witness struct {
	redis *redis.Client
	db    *dbtx.DB
	guard *service.Guard
	log   *slog.Logger
	ping  func(context.Context) error // the database
	pages *breaker.Breaker
	last  func() journal.Line // the newest line of the journal; nil if the journal cannot be read

	behind atomic.Bool                  // Redis may lack the newest change
	newest atomic.Pointer[api.FeedMark] // that this process knows, with those of the requests from gateways
}

func newWitness(cfg Config, r *service.Runtime, client *redis.Client, db *dbtx.DB) (*witness, error) {
	w := &witness{redis: client, db: db, log: r.Log, ping: r.DB.Ping, pages: breaker.New()}
	w.newest.Store(new(api.FeedMark))
	if cfg.JournalFile == "" {
		r.Log.Warn("journal on standard output: OPPORTUNITY_JOURNAL_FILE is not set, so a restore of database, Redis and history together is not noticed")
		db.Journal = journal.NewStream(cmp.Or[io.Writer](cfg.JournalOutput, os.Stdout))
	} else {
		file, err := journal.OpenFile(cfg.JournalFile)
		if err != nil {
			return nil, fmt.Errorf("OPPORTUNITY_JOURNAL_FILE: %w", err)
		}
		db.Journal, w.last = file, file.Last
	}
	db.Committed = w.committed
	w.guard = r.Guard("authquota", db.HasChange, w.seen)
	return w, nil
}

// unlessSetBack returns do for a loop that does nothing while the database is set back.
func (w *witness) unlessSetBack(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if w.guard.Err() != nil {
			return nil
		}
		return do(ctx)
	}
}

//go:embed newest.lua
var newestSource string

var newest = redis.NewScript(newestSource)

// report stores a change as the newest in Redis, unless Redis has a newer one. It returns the newest.
func (w *witness) report(ctx context.Context, change api.FeedMark) (api.FeedMark, error) {
	text, err := newest.Run(ctx, w.redis, []string{counter.NewestChange}, change.Sequence, change.ID, int(counter.NewestChangeTTL.Seconds())).Text()
	return parseMark(text, err)
}

func parseMark(text string, err error) (api.FeedMark, error) {
	if errors.Is(err, redis.Nil) || err == nil && text == "" {
		return api.FeedMark{}, nil
	}
	if err != nil {
		return api.FeedMark{}, problem.Unavailable(err)
	}
	return api.ParseFeedMark(text)
}

// seen returns the newest change that is known outside the database, or one that the database lacks.
func (w *witness) seen(ctx context.Context) (api.Seen, error) {
	if written := w.written(); written.Sequence > 0 {
		has, err := w.db.HasChange(ctx, database.SetBack{Number: written.Sequence, ID: written.ID})
		if err != nil || !has {
			return api.Seen{Mark: written}, err
		}
	}
	mark, err := w.reportNewest(ctx)
	return api.Seen{Mark: mark}, err
}

// written returns the newest change in the journal, or the zero mark if the journal cannot be read.
func (w *witness) written() api.FeedMark {
	if w.last == nil {
		return api.FeedMark{}
	}
	l := w.last()
	return api.FeedMark{Sequence: l.Sequence, ID: l.ID}
}

// reportNewest reports the newest change of the database to Redis, and returns the newest known one.
func (w *witness) reportNewest(ctx context.Context) (api.FeedMark, error) {
	own, err := w.db.NewestChange(ctx)
	if err != nil {
		return own, err
	}
	known, err := w.report(ctx, own)
	if err == nil {
		w.behind.Store(false)
	}
	return w.see(known), err
}

// see returns the newest change that this process knows, which is change unless it knows a newer one.
func (w *witness) see(change api.FeedMark) api.FeedMark {
	for {
		newest := w.newest.Load()
		if change.Sequence <= newest.Sequence {
			return *newest
		}
		if w.newest.CompareAndSwap(newest, &change) {
			return change
		}
	}
}

// committed reports a change to Redis.
func (w *witness) committed(ctx context.Context, change api.FeedMark) {
	w.see(change)
	known, err := w.report(ctx, change)
	if err == nil && known != change {
		_, err = w.guard.Verify(ctx, known)
	}
	if err != nil && !errors.Is(err, service.ErrSetBack) {
		w.behind.Store(true)
		w.log.WarnContext(ctx, "newest change not reported to Redis", "sequence", change.Sequence, "error", err.Error())
	}
}

// verify returns an error (503) if the database lacks the newest change in Redis, in the journal or known to this process, or if Redis or the
// database is unavailable.
func (w *witness) verify(ctx context.Context) error {
	known, err := parseMark(w.redis.Get(ctx, counter.NewestChange).Result())
	marks := []api.FeedMark{w.written(), known, w.see(known)}
	for i, mark := range marks {
		if slices.Contains(marks[:i], mark) {
			continue
		}
		if _, wrong := w.guard.Verify(ctx, mark); wrong != nil {
			return wrong
		}
	}
	return err
}

// effects are the epochs, with the report to Redis: a change of what an account may do is acknowledged after both.
type effects struct {
	*epoch.Epochs

	witness *witness
}

// Deliver makes committed changes of an account take effect, on gateways and for a restored database.
func (e effects) Deliver(ctx context.Context, account string) (left int, err error) {
	if left, err = e.Epochs.Deliver(ctx, account); err == nil && e.witness.behind.Load() {
		_, err = e.witness.reportNewest(ctx)
	}
	return left, err
}

// available returns an error (503) if the database does not respond or is set back. Pages call it before any other query. During an outage of
// Redis they are served; no key is resolved.
func (w *witness) available(ctx context.Context) error {
	if err := w.pages.Run(ctx, func(ctx context.Context) error { return database.Outage(w.ping(ctx)) }); err != nil {
		return err
	}
	_ = w.verify(ctx)
	return w.guard.Available()
}

// handler returns a handler that rejects requests while the database is set back. It verifies the database on each of them, so that nothing
// is served from a restored one.
func (w *witness) handler(next http.Handler, problems problem.Writer) http.Handler {
	guarded := w.guard.Handler(next, problems, "/readyz")
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if seen, err := api.ParseFeedMark(r.Header.Get(api.SeenChangeHeader)); err == nil && w.see(seen) != seen {
			_, _ = w.guard.Verify(r.Context(), seen) // a restored database may have numbered newer changes since
		}
		_ = w.verify(r.Context()) // an outage of Redis stops only what needs Redis
		guarded.ServeHTTP(rw, r)
	})
}
