// Package authn turns the Authorization header of a request into a Principal: its key, account and limits.
//
// A malformed key is rejected at once. A well-formed one, in our form or in that of older keys (apikey.OlderForm), is resolved by
// authquota under its keyed hash; the key itself never leaves this process and is not stored. Principals are cached: after a minute
// one is refreshed in the background, and without a successful refresh it serves for at most five minutes, so a shorter outage of
// authquota goes unnoticed. The admission script detects a principal that is out of date before that (a revocation, another tier);
// see Forget. A change known in advance, the end of a paid period, is applied on its second by this process's clock.
//
// Guesses do not reach authquota. The gateway knows the digests of all keys (keySet) and rejects any other key from memory. Only
// while it cannot follow authquota's list are unknown keys looked up, at most thirty at once and then one a second for each
// network; beyond that the response is 503. A network has at most thirty lookups of any kind in flight; further ones wait.
package authn

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

const (
	refreshAfter = time.Minute
	usableFor    = 5 * time.Minute
	askTimeout   = 2 * time.Second

	guessBurst = 30
	guessRate  = 1 // a second

	// Bounds of the caches: keys in use, networks that had keys looked up.
	maxKeys, maxAddresses = 100_000, 50_000
)

// Authenticator resolves keys. It is safe for concurrent use.
type Authenticator struct {
	peppers [][]byte
	resolve func(context.Context, api.PrincipalQuery) (api.Principal, error)
	now     func() time.Time

	exist  *keySet
	known  *otter.Cache[fingerprint, *Principal]
	askers *otter.Cache[netip.Addr, *asker]

	asked    *stats.Counter // of known
	lookups  *prometheus.CounterVec
	rejected prometheus.Counter
}

// asker is a network that has keys looked up.
type asker struct {
	guesses *rate.Limiter       // lookups of unknown keys
	asking  *semaphore.Weighted // lookups in flight
}

// Principal is a resolved key. It is shared between requests and never written to.
type Principal struct {
	api.Principal
	Caller string // what services are told of it: the value of api.CallerHeader

	key   fingerprint
	after *Principal // what it becomes at Next.At; nil where nothing changes by itself
}

// at is the principal as it is at an instant.
func (p *Principal) at(now time.Time) *Principal {
	if p.after != nil && !now.Before(p.Next.At) {
		return p.after
	}
	return p
}

// made prepares what is known of a key for every call that it will make.
func made(p api.Principal, of fingerprint) (*Principal, error) {
	caller, err := json.Marshal(p.Caller())
	if err != nil {
		return nil, err
	}
	first := &Principal{Principal: p, Caller: string(caller), key: of}
	if change := p.Next; change != nil {
		p.Tier, p.Limits, p.Next = change.Tier, change.Limits, nil
		first.after, err = made(p, of)
	}
	return first, err
}

// fingerprint stands for a key in the caches, so that these do not hold keys. It needs no pepper: it never leaves the process,
// and a key is too random to be guessed from it.
type fingerprint [sha256.Size]byte

// Authority is authquota as the authenticator calls it.
type Authority struct {
	// Resolve returns the principal of a key. A *peer.StatusError with 404 means that no account holds the key.
	Resolve func(context.Context, api.PrincipalQuery) (api.Principal, error)
	// KeyDigests returns the digests of keys added after the position.
	KeyDigests func(context.Context, api.KeyPosition) (api.KeyDigests, error)
}

// New makes an authenticator. peppers are the keys of the digests, newest first. Run must be called for unknown keys to be rejected
// from memory.
func New(peppers [][]byte, authority Authority, now func() time.Time, log *slog.Logger) *Authenticator {
	clock, asked := clock{now}, stats.NewCounter()
	return &Authenticator{
		peppers: peppers, resolve: authority.Resolve, now: now, asked: asked, lookups: newLookups(), rejected: newRejected(),
		exist: newKeySet(authority.KeyDigests),
		known: otter.Must(&otter.Options[fingerprint, *Principal]{
			MaximumSize: maxKeys, Clock: clock, Logger: logger{log}, StatsRecorder: asked,
			ExpiryCalculator:  otter.ExpiryWriting[fingerprint, *Principal](usableFor),
			RefreshCalculator: otter.RefreshWriting[fingerprint, *Principal](refreshAfter),
		}),
		askers: otter.Must(&otter.Options[netip.Addr, *asker]{
			MaximumSize: maxAddresses, Clock: clock,
			ExpiryCalculator: otter.ExpiryAccessing[netip.Addr, *asker](guessBurst / guessRate * time.Second), // full again by then
		}),
	}
}

// Run follows authquota's list of keys until ctx ends.
func (a *Authenticator) Run(ctx context.Context, tel *telemetry.Telemetry) error {
	watch := feed.NewWatch(tel.Registry, "keys")
	a.exist.run(ctx, tel.Log, func(err error) { watch.Pulled(0, err) })
	return nil
}

// Close ends the clean-up of the caches.
func (a *Authenticator) Close() {
	a.known.StopAllGoroutines()
	a.askers.StopAllGoroutines()
}

// Resolve returns the principal of a key; from is the caller's address. An unknown, expired or revoked key is an error; for the
// latter two the principal is returned as well. A suspended account is no error here, because the suspension may have ended
// since: the admission script tells by the epoch.
func (a *Authenticator) Resolve(ctx context.Context, key Key, from netip.Addr) (*Principal, error) {
	p, err := a.known.Get(context.WithoutCancel(ctx), key.of, lookup{a, key, from})
	switch {
	case errors.Is(err, otter.ErrNotFound):
		return nil, problem.New(problem.InvalidAPIKey, "This API key is not valid.")
	case err != nil:
		return nil, err
	}
	p = p.at(a.now())
	switch {
	case p.RevokedAt != nil:
		return p, problem.New(problem.RevokedAPIKey, "This API key was revoked.")
	case !a.now().Before(p.ExpiresAt):
		return p, problem.New(problem.ExpiredAPIKey, "This API key expired at %s.", p.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return p, nil
}

// Forget drops a principal that turned out to be out of date, so that the next Resolve asks anew. One that has been replaced
// meanwhile stays.
func (a *Authenticator) Forget(p *Principal) {
	a.known.ComputeIfPresent(p.key, func(cached *Principal) (*Principal, otter.ComputeOp) {
		if cached == p || cached.after == p {
			return nil, otter.InvalidateOp
		}
		return cached, otter.CancelOp
	})
}

// lookup asks authquota for one key, once for all requests that wait for it.
type lookup struct {
	*Authenticator
	key  Key
	from netip.Addr
}

// Load is called for a key that is not cached.
func (l lookup) Load(ctx context.Context, of fingerprint) (*Principal, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout) // for waiting and asking together
	defer cancel()
	digests := l.key.digests(l.peppers)
	from := l.asker(l.from)
	exists, guess, err := l.exists(ctx, digests, from)
	if err != nil || !exists {
		return nil, l.rejection(err)
	}
	if err := from.asking.Acquire(ctx, 1); err != nil {
		return nil, problem.Unavailable(err)
	}
	defer from.asking.Release(1)
	if guess { // the lookups that this one waited for may have been guesses
		if exists, _, err := l.exists(ctx, digests, from); err != nil || !exists {
			return nil, l.rejection(err)
		}
	}
	p, err := l.ask(ctx, of, digests, missed)
	if errors.Is(err, otter.ErrNotFound) {
		from.guesses.AllowN(l.now(), 1)
	}
	return p, err
}

// exists reports whether a key exists. If that cannot be known in time, guess is true and the key may be looked up; beyond the limit
// on guesses it waits longer, and returns an error only if that is in vain.
func (l lookup) exists(ctx context.Context, digests []string, from *asker) (exists, guess bool, err error) {
	if exists, err = l.exist.has(ctx, digests, syncWait); err == nil {
		return exists, false, nil
	}
	refusal := l.mayGuess(from)
	if refusal == nil {
		return true, true, nil
	}
	if exists, err = l.exist.has(ctx, digests, askTimeout); err == nil {
		return exists, false, nil
	}
	return false, false, refusal
}

// rejection is err, or that of a key that does not exist.
func (l lookup) rejection(err error) error {
	if err != nil {
		return err
	}
	l.rejected.Inc()
	return otter.ErrNotFound
}

// Reload is called in the background for a key that has been cached for a while.
func (l lookup) Reload(ctx context.Context, of fingerprint, _ *Principal) (*Principal, error) {
	return l.ask(ctx, of, l.key.digests(l.peppers), refreshed)
}

func (l lookup) ask(ctx context.Context, of fingerprint, digests []string, why string) (found *Principal, err error) {
	defer func() { l.lookups.WithLabelValues(why, outcome(err)).Inc() }()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p, err := l.resolve(ctx, api.PrincipalQuery{Digests: digests})
	if status := new(peer.StatusError); errors.As(err, &status) && status.Status == http.StatusNotFound {
		return nil, otter.ErrNotFound
	}
	if err != nil {
		return nil, problem.Unavailable(err)
	}
	return made(p, of)
}

// mayGuess rejects the lookup of a key that may be unknown, if its network has looked up too many unknown ones. Known keys cost a
// network nothing.
func (a *Authenticator) mayGuess(from *asker) error {
	lacking := 1 - from.guesses.TokensAt(a.now())
	if lacking <= 0 {
		return nil
	}
	return problem.New(problem.ServiceUnavailable, "API keys cannot be checked right now.").
		RetryIn(time.Duration(lacking * float64(time.Second) / guessRate)).Because(errNotSynced)
}

// asker returns the state of an address's network.
func (a *Authenticator) asker(from netip.Addr) *asker {
	known, _ := a.askers.ComputeIfAbsent(network(from), func() (*asker, bool) {
		return &asker{rate.NewLimiter(guessRate, guessBurst), semaphore.NewWeighted(guessBurst)}, false
	})
	return known
}

// network is what counts as one address: an IPv6 customer has at least a /64 to choose addresses from.
func network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is6() {
		prefix, _ := addr.WithZone("").Prefix(64)
		return prefix.Addr()
	}
	return addr
}

// clock makes a cache follow the authenticator's clock.
type clock struct{ now func() time.Time }

func (c clock) NowNano() int64                        { return c.now().UnixNano() }
func (c clock) Tick(d time.Duration) <-chan time.Time { return time.Tick(d) }

// logger reports refreshes that failed.
type logger struct{ log *slog.Logger }

func (l logger) Warn(ctx context.Context, msg string, err error) {
	l.log.WarnContext(ctx, "key cache: "+msg, "error", text(err))
}

func (l logger) Error(ctx context.Context, msg string, err error) {
	l.log.ErrorContext(ctx, "key cache: "+msg, "error", text(err))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
