package billing

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/billing/internal/store"
)

// witness compares the database with the newest change that authquota has seen, and reports newer ones to it.
type witness struct {
	authquota *peer.Client
	store     *store.Store
	guard     *service.Guard

	reported atomic.Pointer[api.FeedMark] // the newest change that authquota has; nil if unknown
	tried    atomic.Bool                  // the database was compared, or authquota is unavailable
}

var errNotCompared = errors.New("database not compared with authquota yet")

// reportTimeout limits one report, in which authquota may be unresponsive.
const reportTimeout = 5 * time.Second

func newWitness(r *service.Runtime, changes *store.Store, authquota *peer.Client) *witness {
	w := &witness{authquota: authquota, store: changes}
	w.guard = r.Guard("billing", changes.HasChange, w.seen)
	r.Ready.Add("comparison", func(context.Context) error {
		if !w.tried.Load() {
			return errNotCompared
		}
		return nil
	})
	r.Every(service.Loop{Name: "change report", Interval: time.Second, Timeout: reportTimeout, Do: func(ctx context.Context) error {
		err := w.report(ctx)
		w.tried.Store(true)
		if e := new(problem.Error); errors.Is(err, service.ErrSetBack) || errors.As(err, &e) && e.Code == problem.ServiceUnavailable {
			return nil // logged by the guard; or an outage, which the pushes report
		}
		return err
	}})
	return w
}

// seen returns the newest change that authquota has seen. It is the zero value for a release without that endpoint.
func (w *witness) seen(ctx context.Context) (seen api.Seen, err error) {
	err = ignoreNotFound(w.authquota.Get(ctx, api.SeenPath, &seen))
	if err == nil {
		w.reported.Store(&seen.Mark)
	}
	return seen, err
}

// report reports the newest change to authquota, unless authquota has it. Before that it compares the database with what authquota has seen,
// because the report replaces that.
func (w *witness) report(ctx context.Context) error {
	if err := w.guard.Err(); err != nil {
		return err
	}
	newest, err := w.store.NewestChange(ctx)
	if err != nil || w.has(newest) {
		return err
	}
	if err := w.guard.Compare(ctx); err != nil || newest.Sequence == 0 || w.has(newest) {
		return err
	}
	err = ignoreNotFound(w.authquota.Post(ctx, api.SeenPath, newest, nil))
	if err == nil {
		w.reported.Store(&newest)
	}
	return err
}

// has reports whether authquota has a change as the newest.
func (w *witness) has(change api.FeedMark) bool {
	reported := w.reported.Load()
	return reported != nil && *reported == change
}

func ignoreNotFound(err error) error {
	if failed := new(peer.StatusError); errors.As(err, &failed) && failed.Status == http.StatusNotFound {
		return nil
	}
	return err
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

// handler returns a handler that rejects requests while the database is set back. It compares the database before each request of an account,
// so that nothing is sold or cancelled by what a restored one says.
func (w *witness) handler(next http.Handler, problems problem.Writer) http.Handler {
	guarded := w.guard.Handler(next, problems, "/readyz")
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/internal/v1/") && w.guard.Err() == nil {
			if err := w.guard.Compare(r.Context()); err != nil && !errors.Is(err, service.ErrSetBack) {
				problems.Write(rw, r, err)
				return
			}
		}
		guarded.ServeHTTP(rw, r)
	})
}

// held reports whether the database is set back, so that nothing may be pushed. During an outage of authquota it is not: put fails then.
func (w *witness) held(ctx context.Context) bool { return errors.Is(w.report(ctx), service.ErrSetBack) }

// put sends an entitlement to authquota, which has seen the newest change before. It fails unless authquota has the newest change: the
// database may have been set back.
func (w *witness) put(ctx context.Context, path string, in, out any) error {
	if err := w.report(ctx); errors.Is(err, service.ErrSetBack) {
		return problem.Unavailable(err)
	} else if err != nil {
		return err
	}
	return w.authquota.Put(ctx, path, in, out)
}
