package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
)

// fakeAuthquota is an authquota in memory. It follows the epoch protocol: a principal carries the
// epoch that was read before it.
type fakeAuthquota struct {
	*httptest.Server
	t        testing.TB
	counters *redis.Client

	mu       sync.Mutex
	byDigest map[string]*api.Principal
	digests  []string       // keys of byDigest in the order of addition
	ledger   map[string]any // by account
	lookups  int
	usage    map[usageKey]int // received calls
	shared   api.SharedSettings
	down     bool
}

type usageKey struct {
	day, key string
	outcome  api.CallOutcome
}

func newAuthquota(t testing.TB, counters *redis.Client) *fakeAuthquota {
	a := &fakeAuthquota{t: t, counters: counters, byDigest: map[string]*api.Principal{}, usage: map[usageKey]int{},
		ledger: map[string]any{counter.ServiceField: 0},
		shared: api.SharedSettings{Tiers: api.DefaultLimits(), Peppers: apikey.Fingerprints([][]byte{pepper})},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /internal/v1/principals", a.principal)
	mux.HandleFunc("GET /internal/v1/key-digests", a.keyDigests)
	mux.HandleFunc("POST /internal/v1/usage/{day}/restore", a.restore)
	mux.HandleFunc("GET /internal/v1/settings", a.settings)
	mux.HandleFunc("GET /internal/v1/served", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode([]api.DayServed{{Day: counter.DayOf(time.Now()), Calls: 4, Failed: 1}})
	})
	mux.HandleFunc("POST /internal/v1/usage-batches", a.acceptUsage)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/operator/v1/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "uri": r.RequestURI, "header": r.Header,
			"body": string(body)})
	})
	a.Server = servicetest.NewPeer(mux)
	t.Cleanup(a.Close)
	return a
}

// reads decodes the body of a request. It responds with 401 and reports false if the request lacks
// the gateway's token.
func (a *fakeAuthquota) reads(w http.ResponseWriter, r *http.Request, body any) bool {
	if r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.Gateway) ||
		json.NewDecoder(r.Body).Decode(body) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	return true
}

func (a *fakeAuthquota) principal(w http.ResponseWriter, r *http.Request) {
	var q api.PrincipalQuery
	if !a.reads(w, r, &q) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lookups++
	if a.down {
		panic(http.ErrAbortHandler)
	}
	for _, digest := range q.Digests {
		if p, ok := a.byDigest[digest]; ok {
			ctx := context.Background()
			a.counters.HSetNX(ctx, counter.Epochs, p.Account, time.Now().UnixMicro())
			epoch, err := a.counters.HGet(ctx, counter.Epochs, p.Account).Int64()
			if err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			a.counters.Expire(ctx, counter.Epochs, counter.EpochsTTL)
			found := *p
			found.Epoch = epoch
			_ = json.NewEncoder(w).Encode(found)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (a *fakeAuthquota) keyDigests(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	digests := a.digests[after:]
	page := api.KeyDigests{After: api.KeyPosition{Sequence: int64(after), Digest: r.URL.Query().Get("digest")},
		Digests: digests}
	page.Last = page.After
	if len(digests) > 0 {
		page.Last = api.KeyPosition{Sequence: int64(len(a.digests)), Digest: digests[len(digests)-1]}
	}
	_ = json.NewEncoder(w).Encode(page)
}

func (a *fakeAuthquota) restore(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		panic(http.ErrAbortHandler)
	}
	day := counter.Day(r.PathValue("day"))
	if a.counters.Exists(r.Context(), day).Val() == 0 {
		a.counters.HSet(r.Context(), day, a.ledger)
	}
	a.counters.Expire(r.Context(), day, counter.DayTTL)
	w.WriteHeader(http.StatusNoContent)
}

func (a *fakeAuthquota) settings(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down || r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.Gateway) {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(a.shared)
}

func (a *fakeAuthquota) acceptUsage(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		panic(http.ErrAbortHandler)
	}
	var batch api.UsageBatch
	if !a.reads(w, r, &batch) {
		return
	}
	for _, t := range batch.Counts {
		a.usage[usageKey{t.Day, t.Key, t.Outcome}] += t.Calls
	}
	w.WriteHeader(http.StatusNoContent)
}

// usageOf returns the received calls of a key by outcome, over all days.
func (a *fakeAuthquota) usageOf(key string) map[api.CallOutcome]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[api.CallOutcome]int{}
	for k, calls := range a.usage {
		if k.key == key {
			out[k.outcome] += calls
		}
	}
	return out
}

// issue creates a key of an account with limits.
func (a *fakeAuthquota) issue(account string, limits api.Limits, adjust ...func(*api.Principal)) apikey.Key {
	key := apikey.Generate(apikey.Test)
	p := &api.Principal{
		Key: "key_" + account, Account: account, Tier: api.Developer, Limits: limits,
		ExpiresAt: time.Now().Add(24 * time.Hour),
	}
	for _, f := range adjust {
		f(p)
	}
	a.add(key.Digests([][]byte{pepper})[0], p)
	return key
}

func (a *fakeAuthquota) add(digest string, p *api.Principal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byDigest[digest] = p
	a.digests = append(a.digests, digest[:api.KeyDigestLength])
}

// change changes the principal of a key and increments the epoch of its account.
func (a *fakeAuthquota) change(key apikey.Key, f func(*api.Principal)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byDigest[key.Digests([][]byte{pepper})[0]]
	f(p)
	require.NoError(a.t, a.counters.HIncrBy(context.Background(), counter.Epochs, p.Account, 1).Err())
}

func (a *fakeAuthquota) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *fakeAuthquota) lookupCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lookups
}
