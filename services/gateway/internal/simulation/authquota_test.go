package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
)

// authquota is a model of the service at its HTTP contract: Go allows imports of its internal
// packages only below its own folder. It runs the Lua script of the service in its order: a change
// is committed with the new epoch of its account, before the epoch is published. A lookup reads
// both from the database, and publishes the epoch if Redis has another.
type authquota struct {
	net   *network
	store *store
	bug   bug
	redis *redis.Client

	mu       sync.Mutex
	away     bool
	accounts map[string]*account
	keys     map[string]*key // by digest
	digests  []string
	batches  map[string]bool
	usage    map[calls]int
}

type account struct {
	epoch     int64
	tier      int
	suspended bool
}

type key struct {
	id, account string
	revoked     *time.Time
}

// calls are the calls of a key with an outcome.
type calls struct {
	key     string
	outcome api.CallOutcome
}

// tiers have limits that a run reaches. The first is the base tier.
var tiers = []api.Limits{{PerMinute: 3, PerDay: 6}, {PerMinute: 4, PerDay: 10}, {PerMinute: 6, PerDay: 16}}

const (
	capacity     = 16
	baseCapacity = 8
)

func tierName(i int) api.Tier {
	if i == 0 {
		return api.BaseTier
	}
	return api.Tier(fmt.Sprint(i))
}

var (
	peppers = [][]byte{make([]byte, 32)}
	errAway = errors.New("authquota is unavailable")
)

// tokenOf returns the secret of a key. It has the form of another system's key, so that it needs no
// random part.
func tokenOf(id string) string { return "key-" + id }

func digestOf(id string) string { return apikey.OlderOf(tokenOf(id)).Digests(peppers)[0] }

// issue adds a key, unless it exists. The caller holds a.mu, or nothing else runs.
func (a *authquota) issue(id, account string) {
	if digest := digestOf(id); a.keys[digest] == nil {
		a.keys[digest] = &key{id: id, account: account}
		a.digests = append(a.digests, digest[:api.KeyDigestLength])
	}
}

// handle handles a request unless authquota is unavailable.
func handle[T any](ctx context.Context, a *authquota, from, content string, do func() (T, error)) (T, error) {
	return request(ctx, a.net, from, content, func() (T, error) {
		a.mu.Lock()
		away := a.away
		a.mu.Unlock()
		if away {
			var none T
			return none, errAway
		}
		return do()
	})
}

func (a *authquota) resolve(ctx context.Context, from string, q api.PrincipalQuery) (api.Principal, error) {
	return handle(ctx, a, from, "principal "+q.Digests[0], func() (api.Principal, error) {
		a.mu.Lock()
		k := a.keys[q.Digests[0]]
		a.mu.Unlock()
		if k == nil {
			return api.Principal{}, &peer.StatusError{Status: http.StatusNotFound}
		}
		for {
			a.mu.Lock()
			of, revoked := *a.accounts[k.account], k.revoked
			a.mu.Unlock()
			current, err := a.published(k.account, of.epoch)
			if err == nil && !current {
				err = a.deliver(k.account)
			}
			if err == nil && !current {
				continue
			}
			return api.Principal{
				Key: k.id, Account: k.account, Tier: tierName(of.tier), Limits: tiers[of.tier], Epoch: of.epoch,
				ExpiresAt: time.Now().Add(365 * 24 * time.Hour), RevokedAt: revoked, Suspended: of.suspended,
			}, err
		}
	})
}

// published reports whether Redis has the epoch of an account.
func (a *authquota) published(account string, epoch int64) (bool, error) {
	stored, err := a.redis.HGet(context.Background(), counter.Epochs, account).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return stored == strconv.FormatInt(epoch, 10), err
}

func (a *authquota) keyDigests(ctx context.Context, from string, after api.KeyPosition) (api.KeyDigests, error) {
	return handle(ctx, a, from, "digests", func() (api.KeyDigests, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		last := api.KeyPosition{Sequence: int64(len(a.digests)), Digest: "last"}
		return api.KeyDigests{After: after, Digests: slices.Clone(a.digests[after.Sequence:]), Last: last}, nil
	})
}

// accept counts a batch once, by its id.
func (a *authquota) accept(ctx context.Context, from string, batch api.UsageBatch) error {
	_, err := handle(ctx, a, from, "usage", func() (any, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.batches[batch.ID] {
			a.batches[batch.ID] = true
			for _, c := range batch.Counts {
				a.usage[calls{c.Key, c.Outcome}] += c.Calls
			}
		}
		return nil, nil
	})
	return err
}

// restore creates the counters of a day, unless they exist. The ledger is empty: only a swap loses
// charges, and those stay lost.
func (a *authquota) restore(ctx context.Context, from, day string) error {
	_, err := handle(ctx, a, from, "restore "+day, func() (any, error) {
		a.store.mu.Lock()
		defer a.store.mu.Unlock()
		if to := a.store.primary; !to.Exists(counter.Day(day)) {
			to.HSet(counter.Day(day), counter.ServiceField, "0")
			to.SetTTL(counter.Day(day), counter.DayTTL)
		}
		return nil, nil
	})
	return err
}

// change commits a change of an account with a new epoch, and publishes it. On an error the change
// is not in effect yet.
func (a *authquota) change(account string, apply func()) error {
	a.mu.Lock()
	apply()
	of := a.accounts[account]
	of.epoch = max(of.epoch+1, time.Now().UnixMicro())
	a.mu.Unlock()
	if a.bug.repliesEarly {
		return nil
	}
	return a.deliver(account)
}

// deliver publishes the epoch of an account.
func (a *authquota) deliver(account string) error {
	a.mu.Lock()
	epoch := a.accounts[account].epoch
	a.mu.Unlock()
	return redis.NewScript(scripts["replace"]).Run(context.Background(), a.redis, []string{counter.Epochs},
		counter.EpochsMark, "", "", int(counter.EpochsTTL.Seconds()), "", account, epoch, counter.State(account), "").Err()
}

// work publishes what Redis lacks until ctx ends.
func (a *authquota) work(ctx context.Context) {
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
		for _, account := range slices.Sorted(maps.Keys(a.accounts)) {
			a.mu.Lock()
			epoch := a.accounts[account].epoch
			a.mu.Unlock()
			if current, err := a.published(account, epoch); err == nil && !current {
				_ = a.deliver(account) // retried
			}
		}
	}
}
