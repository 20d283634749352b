package authquota

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
)

const (
	responseTimeout = 900 * time.Millisecond // of the first request that finds that the database does not respond
	recheckInterval = 200 * time.Millisecond
	recheckTimeout  = 500 * time.Millisecond
)

// responsiveness keeps requests of people and operators from waiting for a database that accepts
// connections but does not respond. Only the first of them waits.
type responsiveness struct {
	ping    func(context.Context) error // the database
	timeout time.Duration               // of ping; 0: responseTimeout
	hangs   atomic.Bool
}

var errHangs = errors.New("database does not respond")

// check returns an error (503) if the database does not respond. After the first error it returns
// at once until recheck has a response.
func (r *responsiveness) check(ctx context.Context) error {
	if r.hangs.Load() {
		return problem.Unavailable(errHangs)
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(r.timeout, responseTimeout))
	defer cancel()
	err := r.ping(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		r.hangs.Store(true)
		return problem.Unavailable(err)
	}
	return database.Outage(err)
}

// recheck ends the state in which check fails at once, if the database responds.
func (r *responsiveness) recheck(ctx context.Context) error {
	if !r.hangs.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	if r.ping(ctx) == nil {
		r.hangs.Store(false)
	}
	return nil
}

// operators returns a handler that rejects requests of operators while check fails. Requests of
// gateways and billing are not checked: each has a timeout of its own.
func (r *responsiveness) operators(next http.Handler, problems problem.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, "/operator/") {
			if err := r.check(req.Context()); err != nil {
				problems.Write(w, req, err)
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}
