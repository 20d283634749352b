// Package authn turns the Authorization header of a request into a Principal: which key, of which account, with which limits.
//
// A malformed key is refused without asking anybody. A well-formed one, in our form or in that of older keys (OlderForm), is
// resolved by authquota, by its keyed hash: the key itself never leaves this process and is kept nowhere in it. Answers are
// cached: one is asked for again in the background after a minute, and serves for at most five minutes after authquota last
// gave it, so an outage of authquota is not felt for that long. That an answer is out of date before that (a revocation,
// another tier) the admission script finds out; see Forget. What is known in advance, the end of a paid period, is applied on its
// second by the clock of this process, whoever is away then.
//
// Guessing is kept away from authquota: keys that nobody holds are remembered for ten seconds, and each address may have
// thirty such keys looked up at once and one a second from then on. Whether a key is such a one shows only in the answer, so an
// address has no more than thirty look-ups of any kind under way; the next one waits.
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
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

const (
	refreshAfter = time.Minute
	usableFor    = 5 * time.Minute
	unknownFor   = 10 * time.Second
	askTimeout   = 2 * time.Second

	guessBurst = 30
	guessRate  = 1 // a second

	// Bounds of what is remembered: keys in use, keys that nobody holds, addresses that had keys looked up.
	maxKeys, maxUnknown, maxAddresses = 100_000, 20_000, 50_000
)

// Authenticator resolves keys. It is safe for concurrent use.
type Authenticator struct {
	peppers [][]byte
	resolve func(context.Context, api.PrincipalQuery) (api.Principal, error)
	now     func() time.Time

	known   *otter.Cache[fingerprint, *Principal]
	unknown *otter.Cache[fingerprint, struct{}]
	askers  *otter.Cache[netip.Addr, *asker]

	asked   *stats.Counter // of known
	lookups *prometheus.CounterVec
}

// asker is an address that has keys looked up.
type asker struct {
	guesses *rate.Limiter       // keys that nobody holds
	asking  *semaphore.Weighted // look-ups under way
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

// New makes an authenticator. peppers are the keys of the digests, newest first; resolve asks authquota, and a
// *peer.StatusError with 404 from it means that nobody holds the key.
func New(peppers [][]byte, resolve func(context.Context, api.PrincipalQuery) (api.Principal, error), now func() time.Time, log *slog.Logger) *Authenticator {
	clock, asked := clock{now}, stats.NewCounter()
	return &Authenticator{
		peppers: peppers, resolve: resolve, now: now, asked: asked, lookups: newLookups(),
		known: otter.Must(&otter.Options[fingerprint, *Principal]{
			MaximumSize: maxKeys, Clock: clock, Logger: logger{log}, StatsRecorder: asked,
			ExpiryCalculator:  otter.ExpiryWriting[fingerprint, *Principal](usableFor),
			RefreshCalculator: otter.RefreshWriting[fingerprint, *Principal](refreshAfter),
		}),
		unknown: otter.Must(&otter.Options[fingerprint, struct{}]{
			MaximumSize: maxUnknown, Clock: clock, ExpiryCalculator: otter.ExpiryWriting[fingerprint, struct{}](unknownFor),
		}),
		askers: otter.Must(&otter.Options[netip.Addr, *asker]{
			MaximumSize: maxAddresses, Clock: clock,
			ExpiryCalculator: otter.ExpiryAccessing[netip.Addr, *asker](guessBurst / guessRate * time.Second), // full again by then
		}),
	}
}

// Close ends the clean-up of the caches.
func (a *Authenticator) Close() {
	a.known.StopAllGoroutines()
	a.unknown.StopAllGoroutines()
	a.askers.StopAllGoroutines()
}

// Resolve finds the principal of a key; from is the caller's address. A key that nobody holds, that has expired or that was
// revoked is refused here. A suspended account is not: that may have changed meanwhile, which the caller can find out by the
// epoch.
//
// With a refusal of a key that somebody holds, expired or revoked, comes whose it is.
func (a *Authenticator) Resolve(ctx context.Context, key Key, from netip.Addr) (*Principal, error) {
	p, err := a.known.Get(context.WithoutCancel(ctx), key.of, lookup{a, key, from})
	switch {
	case errors.Is(err, otter.ErrNotFound):
		return nil, nobody()
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

func nobody() error {
	return problem.New(problem.InvalidAPIKey, "Nobody holds this API key.")
}

// lookup asks authquota for one key, once for all requests that wait for it.
type lookup struct {
	*Authenticator
	key  Key
	from netip.Addr
}

// Load is called for a key that is not known.
func (l lookup) Load(ctx context.Context, of fingerprint) (*Principal, error) {
	from := l.asker(l.from)
	if err := l.mayAsk(of, from); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout) // of waiting and asking together
	defer cancel()
	if err := from.asking.Acquire(ctx, 1); err != nil {
		return nil, problem.Unavailable(err)
	}
	defer from.asking.Release(1)
	if err := l.mayAsk(of, from); err != nil { // what those before it asked for may have been guesses
		return nil, err
	}
	p, err := l.ask(ctx, of, missed)
	if errors.Is(err, otter.ErrNotFound) {
		l.unknown.Set(of, struct{}{})
		from.guesses.AllowN(l.now(), 1)
	}
	return p, err
}

// Reload is called in the background for a key that has been known for a while.
func (l lookup) Reload(ctx context.Context, of fingerprint, _ *Principal) (*Principal, error) {
	return l.ask(ctx, of, refreshed)
}

func (l lookup) ask(ctx context.Context, of fingerprint, why string) (found *Principal, err error) {
	defer func() { l.lookups.WithLabelValues(why, outcome(err)).Inc() }()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p, err := l.resolve(ctx, api.PrincipalQuery{Digests: l.key.digests(l.peppers)})
	if status := new(peer.StatusError); errors.As(err, &status) && status.Status == http.StatusNotFound {
		return nil, otter.ErrNotFound
	}
	if err != nil {
		return nil, problem.Unavailable(err)
	}
	return made(p, of)
}

// mayAsk refuses what need not be asked: a key that was unknown a moment ago, or one more from an address that guesses. Known
// keys cost an address nothing.
func (a *Authenticator) mayAsk(of fingerprint, from *asker) error {
	if _, ok := a.unknown.GetIfPresent(of); ok {
		return nobody()
	}
	if lacking := 1 - from.guesses.TokensAt(a.now()); lacking > 0 {
		return problem.New(problem.MinuteLimitReached, "Too many unknown API keys were sent from this address.").
			Retry(time.Duration(lacking * float64(time.Second) / guessRate))
	}
	return nil
}

// asker is what is known of an address.
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
