// Package authn turns the Authorization header of a request into a Principal: its key, account and
// limits.
//
// A malformed key is rejected at once. A well-formed one, in our form or in that of older keys
// (apikey.OlderForm), is resolved by authquota under its keyed hash; the key itself never leaves
// this process and is not stored. Principals are cached: after a minute one is refreshed in the
// background, and without a successful refresh it serves for at most five minutes, so a shorter
// outage of authquota goes unnoticed; it gets one refresh a second meanwhile (refreshes). The
// admission script detects a principal that is out of date before that (a revocation, another
// tier); see Forget. A scheduled change, the end of a paid period, applies on time by this
// process's clock.
//
// Guesses do not reach authquota. The gateway knows the digests of all keys (keySet) and rejects
// any other key from memory. While it cannot sync the digests, a key that is not among them gets
// 503, because nothing is known about it.
package authn

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

const (
	refreshAfter  = time.Minute
	usableFor     = 5 * time.Minute
	lookupTimeout = 2 * time.Second // with the wait for a sync of the key set
	maxKeys       = 100_000         // in the cache
)

// Authenticator resolves keys. It is safe for concurrent use.
type Authenticator struct {
	peppers [][]byte
	resolve func(context.Context, api.PrincipalQuery) (api.Principal, error)
	now     func() time.Time
	term    atomic.Int64 // see NewTerm

	keys      *keySet
	refreshes *refreshes
	cache     *otter.Cache[fingerprint, *Principal]

	cacheStats *stats.Counter
	lookups    *prometheus.CounterVec
	rejected   prometheus.Counter
}

// Principal is a resolved key. It is shared between requests and immutable.
type Principal struct {
	api.Principal
	Caller string // value of api.CallerHeader

	key   fingerprint
	term  int64      // of Redis when the lookup began
	after *Principal // in effect from Next.At; nil without a scheduled change
}

func (p *Principal) at(now time.Time) *Principal {
	if p.after != nil && !now.Before(p.Next.At) {
		return p.after
	}
	return p
}

func newPrincipal(p api.Principal, of fingerprint, term int64) (*Principal, error) {
	caller, err := json.Marshal(p.Caller())
	if err != nil {
		return nil, err
	}
	first := &Principal{Principal: p, Caller: string(caller), key: of, term: term}
	if change := p.Next; change != nil {
		p.Tier, p.Limits, p.Next = change.Tier, change.Limits, nil
		first.after, err = newPrincipal(p, of, term)
	}
	return first, err
}

// fingerprint is the SHA-256 of a key. The cache uses it so that it holds no keys. It needs no
// pepper: it never leaves the process, and keys are too random to be guessed from it.
type fingerprint [sha256.Size]byte

// Key is an API key as the client sent it, in our form or in that of older keys. It is a secret;
// see apikey.Key.
type Key struct {
	of       fingerprint
	ours     apikey.Key
	resolved *Principal // nil for a key that a client sent
}

// KeyOf returns the Key of a key in our form.
func KeyOf(key apikey.Key) Key {
	return Key{of: sha256.Sum256([]byte(key.Reveal())), ours: key}
}

// Resolved stands for the key of a principal that authquota returned for this request only. Resolve
// checks it without a lookup.
func Resolved(p api.Principal) (Key, error) {
	resolved, err := newPrincipal(p, fingerprint{}, 0)
	return Key{resolved: resolved}, err
}

// Format never shows the key.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.ours.String())) }

func (k Key) digests(peppers [][]byte) []string {
	if k.ours == "" {
		return apikey.OlderSum(k.of).Digests(peppers)
	}
	return k.ours.Digests(peppers)
}

// Read returns the API key of a request from its Authorization headers. older is the accepted form
// of older keys.
func Read(headers []string, older apikey.OlderForm) (Key, error) {
	if len(headers) > 1 {
		return Key{}, problem.New(problem.MissingAPIKey, "Send exactly one Authorization header.")
	}
	if len(headers) == 0 {
		return Key{}, missing()
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Key{}, missing()
	}
	if key, ok := apikey.Parse(token); ok {
		return KeyOf(key), nil
	}
	if older.Matches(token) {
		return Key{of: sha256.Sum256([]byte(token))}, nil
	}
	return Key{}, problem.New(problem.InvalidAPIKey, "This API key is malformed. Check that it was copied completely.")
}

func missing() error {
	return problem.New(problem.MissingAPIKey, "Missing API key. Send it in the header Authorization: Bearer <API_KEY>.")
}

// Authority holds the calls of an Authenticator to authquota.
type Authority struct {
	// Resolve returns the principal of a key. A *peer.StatusError with 404 means that the key is
	// unknown.
	Resolve func(context.Context, api.PrincipalQuery) (api.Principal, error)
	// KeyDigests returns the digests of keys added after the position.
	KeyDigests func(context.Context, api.KeyPosition) (api.KeyDigests, error)
}

// New returns an authenticator. peppers are the secrets of the key digests, newest first. It
// resolves keys that are not cached only while Run is running.
func New(peppers [][]byte, authority Authority, now func() time.Time, log *slog.Logger) *Authenticator {
	cacheStats := stats.NewCounter()
	return &Authenticator{
		peppers: peppers, resolve: authority.Resolve, now: now, cacheStats: cacheStats, lookups: newLookups(),
		rejected: newRejected(),
		keys:     newKeySet(authority.KeyDigests), refreshes: newRefreshes(log),
		cache: otter.Must(&otter.Options[fingerprint, *Principal]{
			MaximumSize: maxKeys, Clock: clock{now, now()}, Logger: cacheLogger{log}, StatsRecorder: cacheStats,
			ExpiryCalculator:  otter.ExpiryWriting[fingerprint, *Principal](usableFor),
			RefreshCalculator: newRefreshTimes(),
		}),
	}
}

// Run follows authquota's list of keys until ctx ends.
func (a *Authenticator) Run(ctx context.Context, tel *telemetry.Telemetry) error {
	pulls := feed.NewMetrics(tel.Registry, "keys")
	a.keys.run(ctx, tel.Log, func(err error) { pulls.Observe(0, err) })
	return nil
}

// Close stops the background goroutines of the cache.
func (a *Authenticator) Close() { a.cache.StopAllGoroutines() }

// Resolve returns the principal of a key. An unknown, expired or revoked key is an error; for the
// latter two the principal is returned as well. A suspended account is no error here, because the
// cached suspension may be outdated: compare its epoch first.
func (a *Authenticator) Resolve(ctx context.Context, key Key) (*Principal, error) {
	p, err := key.resolved, error(nil)
	if p == nil {
		ctx, load := context.WithoutCancel(ctx), lookup{a, key}
		if p, err = a.cache.Get(ctx, key.of, load); err == nil && !a.InTerm(p) {
			a.Forget(p)
			p, err = a.cache.Get(ctx, key.of, load)
		}
	}
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

// NewTerm begins a new term of Redis: another primary has taken over, and its epochs may be from
// before the latest changes of accounts. Every principal from an earlier term is outdated, whatever
// its epoch is there.
func (a *Authenticator) NewTerm() { a.term.Add(1) }

// InTerm reports whether the lookup of p began in the current term.
func (a *Authenticator) InTerm(p *Principal) bool {
	return p.key == (fingerprint{}) || p.term == a.term.Load()
}

// Forget removes an outdated principal from the cache, so that the next Resolve looks it up. A
// newer one in the cache stays.
func (a *Authenticator) Forget(p *Principal) {
	a.cache.ComputeIfPresent(p.key, func(cached *Principal) (*Principal, otter.ComputeOp) {
		if cached == p || cached.after == p {
			return nil, otter.InvalidateOp
		}
		return cached, otter.CancelOp
	})
}

// lookup loads one key from authquota. Concurrent requests with the key share it.
type lookup struct {
	*Authenticator
	key Key
}

// Load looks up a key that is not cached.
func (l lookup) Load(ctx context.Context, of fingerprint) (*Principal, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	digests := l.key.digests(l.peppers)
	exists, err := l.keys.has(ctx, digests)
	switch {
	case err != nil:
		return nil, problem.Unavailable(err)
	case !exists:
		l.rejected.Inc()
		return nil, otter.ErrNotFound
	}
	return l.query(ctx, of, digests, missed)
}

// Reload refreshes a cached key in the background.
func (l lookup) Reload(ctx context.Context, of fingerprint, _ *Principal) (*Principal, error) {
	return l.refreshes.do(ctx, l.now(), func() (*Principal, error) {
		return l.query(ctx, of, l.key.digests(l.peppers), refreshed)
	})
}

func (l lookup) query(ctx context.Context, of fingerprint, digests []string, reason string) (found *Principal,
	err error) {
	defer func() { l.lookups.WithLabelValues(reason, outcome(err)).Inc() }()
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	term := l.term.Load()
	p, err := l.resolve(ctx, api.PrincipalQuery{Digests: digests})
	if status := new(peer.StatusError); errors.As(err, &status) && status.Status == http.StatusNotFound {
		return nil, otter.ErrNotFound
	}
	if err != nil {
		return nil, problem.Unavailable(err)
	}
	return newPrincipal(p, of, term)
}

// clock adapts the authenticator's clock to the cache. A step of the wall clock changes no age.
type clock struct {
	now     func() time.Time
	started time.Time
}

func (c clock) NowNano() int64                        { return c.started.UnixNano() + int64(c.now().Sub(c.started)) }
func (c clock) Tick(d time.Duration) <-chan time.Time { return time.Tick(d) }

// Values of the label reason.
const (
	missed    = "miss"
	refreshed = "refresh" // the cached principal stays usable meanwhile
)

// Values of the label outcome.
const (
	found   = "found"
	unknown = "unknown"
	failed  = "failed" // authquota unavailable or its response invalid
)

func newLookups() *prometheus.CounterVec {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_key_lookups_total",
		Help: "Key lookups at authquota by reason (miss: not in the cache; refresh: cached for a minute) " +
			"and outcome (found, unknown: no such key, failed).",
	}, []string{"reason", "outcome"})
	for _, reason := range []string{missed, refreshed} {
		for _, outcome := range []string{found, unknown, failed} {
			lookups.WithLabelValues(reason, outcome)
		}
	}
	return lookups
}

func newRejected() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_unknown_keys_rejected_total",
		Help: "Requests with an unknown key, rejected from memory without a lookup.",
	})
}

func outcome(err error) string {
	switch {
	case err == nil:
		return found
	case errors.Is(err, otter.ErrNotFound):
		return unknown
	}
	return failed
}

// Collectors returns the metrics of the authenticator.
func (a *Authenticator) Collectors() []prometheus.Collector {
	requests := func(result string, count func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "gateway_key_cache_requests_total", Help: "Key cache requests by result: hit, miss.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count()) })
	}
	return []prometheus.Collector{
		a.lookups, a.rejected,
		requests("hit", func() uint64 { return a.cacheStats.Snapshot().Hits }),
		requests("miss", func() uint64 { return a.cacheStats.Snapshot().Misses }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_key_cache_entries", Help: "Keys in the cache.",
		}, func() float64 { return float64(a.cache.EstimatedSize()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_known_keys", Help: "Existing keys known by their digests: active, expired and revoked ones.",
		}, func() float64 { return float64(a.keys.size()) }),
	}
}
