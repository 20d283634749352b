package gateway_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
	counters *redis.Client

	mu       sync.Mutex
	byDigest map[string]*api.Principal
	digests  []string // keys of byDigest in the order of addition
	lookups  int
	usage    map[string]map[api.CallOutcome]int // received calls by key
	shared   api.SharedSettings
	down     bool
}

func newAuthquota(t testing.TB, counters *redis.Client) *fakeAuthquota {
	a := &fakeAuthquota{counters: counters, byDigest: map[string]*api.Principal{},
		usage:  map[string]map[api.CallOutcome]int{},
		shared: api.SharedSettings{Tiers: api.DefaultLimits(), Peppers: apikey.Fingerprints([][]byte{pepper})},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /internal/v1/principals", a.principal)
	mux.HandleFunc("GET /internal/v1/key-digests", a.keyDigests)
	mux.HandleFunc("POST /internal/v1/usage/{day}/restore", a.restore)
	mux.HandleFunc("GET /internal/v1/settings", func(w http.ResponseWriter, _ *http.Request) { encode(w, a.shared) })
	mux.HandleFunc("GET /internal/v1/served", func(w http.ResponseWriter, _ *http.Request) {
		encode(w, []api.DayServed{{Day: counter.DayOf(time.Now()), Calls: 4, Failed: 1}})
	})
	mux.HandleFunc("POST /internal/v1/usage-batches", a.acceptUsage)
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/operator/v1/", func(w http.ResponseWriter, r *http.Request) { encode(w, r.Header) })
	a.Server = servicetest.NewPeer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.down || r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.Gateway) {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func encode(w http.ResponseWriter, body any) { _ = json.NewEncoder(w).Encode(body) }

func (a *fakeAuthquota) principal(w http.ResponseWriter, r *http.Request) {
	var q api.PrincipalQuery
	_ = json.NewDecoder(r.Body).Decode(&q)
	a.lookups++
	for _, digest := range q.Digests {
		if p, ok := a.byDigest[digest]; ok {
			a.counters.HSetNX(r.Context(), counter.Epochs, p.Account, time.Now().UnixMicro())
			found := *p
			found.Epoch, _ = a.counters.HGet(r.Context(), counter.Epochs, p.Account).Int64()
			a.counters.Expire(r.Context(), counter.Epochs, counter.EpochsTTL)
			encode(w, found)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (a *fakeAuthquota) keyDigests(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	page := api.KeyDigests{After: api.KeyPosition{Sequence: int64(after), Digest: r.URL.Query().Get("digest")},
		Digests: a.digests[after:]}
	page.Last = page.After
	if n := len(a.digests); n > after {
		page.Last = api.KeyPosition{Sequence: int64(n), Digest: a.digests[n-1]}
	}
	encode(w, page)
}

func (a *fakeAuthquota) restore(w http.ResponseWriter, r *http.Request) {
	day := counter.Day(r.PathValue("day"))
	a.counters.HSetNX(r.Context(), day, counter.ServiceField, 0)
	a.counters.Expire(r.Context(), day, counter.DayTTL)
	w.WriteHeader(http.StatusNoContent)
}

func (a *fakeAuthquota) acceptUsage(w http.ResponseWriter, r *http.Request) {
	var batch api.UsageBatch
	_ = json.NewDecoder(r.Body).Decode(&batch)
	for _, t := range batch.Counts {
		if a.usage[t.Key] == nil {
			a.usage[t.Key] = map[api.CallOutcome]int{}
		}
		a.usage[t.Key][t.Outcome] += t.Calls
	}
	w.WriteHeader(http.StatusNoContent)
}

// usageOf returns the received calls of a key by outcome.
func (a *fakeAuthquota) usageOf(key string) map[api.CallOutcome]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.usage[key])
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
