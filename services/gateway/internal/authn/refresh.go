package authn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	refreshRetry  = 10 * time.Second // mean time until the refresh of a principal is retried
	refreshProbes = 1                // refreshes a second, of all keys together, while authquota fails
	maxRefreshes  = 16               // refreshes in flight
)

// errNotRefreshed marks the error of a refresh that failed, or was not tried because too many are
// in flight or authquota is failing.
var errNotRefreshed = errors.New("key not refreshed")

// refreshes limits the refreshes of all keys, so that an authquota that fails or is slow gets no
// more calls than it takes to notice its recovery. It logs the first failure of an outage and the
// recovery.
type refreshes struct {
	log      *slog.Logger
	inFlight *semaphore.Weighted

	mu      sync.Mutex
	failing bool
	probes  *rate.Limiter
}

func newRefreshes(log *slog.Logger) *refreshes {
	return &refreshes{log: log, inFlight: semaphore.NewWeighted(maxRefreshes), probes: rate.NewLimiter(refreshProbes, 1)}
}

// do calls refresh unless it must wait. Every error except otter.ErrNotFound, an unknown key, is
// marked with errNotRefreshed.
func (r *refreshes) do(ctx context.Context, now time.Time, refresh func() (*Principal, error)) (*Principal, error) {
	if !r.allowed(now) || !r.inFlight.TryAcquire(1) {
		return nil, errNotRefreshed
	}
	defer r.inFlight.Release(1)
	p, err := refresh()
	if err != nil && !errors.Is(err, otter.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errNotRefreshed, err)
	}
	r.report(ctx, err)
	return p, err
}

func (r *refreshes) allowed(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.failing || r.probes.AllowN(now, 1)
}

func (r *refreshes) report(ctx context.Context, err error) {
	failing := errors.Is(err, errNotRefreshed)
	r.mu.Lock()
	changed := failing != r.failing
	r.failing = failing
	r.mu.Unlock()
	switch {
	case changed && failing:
		r.log.WarnContext(ctx, "key refresh failing, cached keys stay usable for five minutes", "error", err.Error())
	case changed:
		r.log.InfoContext(ctx, "key refresh recovered")
	}
}

// refreshTimes holds the time until the next refresh of a principal: refreshAfter, and after a
// failure half to one and a half times refreshRetry, so that the keys of an outage do not all come
// back at once. The time depends on the key and the clock, not on chance, so that a simulated
// outage can be repeated.
type refreshTimes struct {
	otter.RefreshCalculator[fingerprint, *Principal]
}

func newRefreshTimes() refreshTimes {
	return refreshTimes{otter.RefreshWriting[fingerprint, *Principal](refreshAfter)}
}

// RefreshAfterReloadFailure returns the time until the next attempt.
func (refreshTimes) RefreshAfterReloadFailure(e otter.Entry[fingerprint, *Principal], _ error) time.Duration {
	random := rand.New(rand.NewPCG(binary.BigEndian.Uint64(e.Key[:]),
		uint64(e.SnapshotAtNano))) //nolint:gosec // any bits do
	return refreshRetry/2 + time.Duration(random.Int64N(int64(refreshRetry)))
}

// cacheLogger logs what the cache reports, except failed refreshes: those are reported once per
// outage.
type cacheLogger struct{ log *slog.Logger }

// Warn logs a warning of the cache.
func (l cacheLogger) Warn(ctx context.Context, msg string, err error) {
	l.log.WarnContext(ctx, "key cache: "+msg, "error", err)
}

// Error logs an error of the cache.
func (l cacheLogger) Error(ctx context.Context, msg string, err error) {
	if !errors.Is(err, errNotRefreshed) {
		l.log.ErrorContext(ctx, "key cache: "+msg, "error", err)
	}
}
