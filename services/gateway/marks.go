package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
)

const (
	marksInterval = time.Second
	marksTimeout  = 2 * time.Second
	firstTimeout  = time.Second // for the first request to authquota to wait for what others have kept
)

// marks keeps the high-water marks of one store in memory, for the owner, which forgets them if its database is restored. Redis keeps the
// newest one as well, and history that of authquota, for replicas that start later.
type marks struct {
	owner   *peer.Client // presents the marks
	redis   highwater.Keeper
	history highwater.Keeper // nil: not kept there
	stored  string           // in history

	first sync.Once // reads what others have kept

	mu       sync.Mutex
	seen     []string
	verified []string // by the latest response of the owner, and the mark in it
}

// newMarks returns the marks of each store, by its owner. A request through the transport of owner's marks presents them.
func newMarks(r *service.Runtime, cfg Config, counters *redis.Client, transport http.RoundTripper) map[string]*marks {
	all := map[string]*marks{}
	for store, base := range cfg.services() {
		m := &marks{redis: highwater.Redis{Store: store, Client: counters}}
		if store == peer.Authquota {
			m.history = highwater.Peer{Store: store, Client: r.Peer(peer.History, cfg.HistoryURL, cfg.Tokens)}
		}
		m.owner = peer.New(base, cfg.Tokens.For(store), r.Transport(m.transport(transport), store))
		all[store] = m
	}
	r.Every(service.Loop{Name: "exchange of marks", Interval: marksInterval, Timeout: marksTimeout, Do: func(ctx context.Context) error {
		var wait sync.WaitGroup
		errs := make(chan error, len(all))
		for _, m := range all {
			wait.Go(func() { errs <- m.exchange(ctx) })
		}
		wait.Wait()
		close(errs)
		var failed []error
		for err := range errs {
			failed = append(failed, err)
		}
		return errors.Join(failed...)
	}})
	return all
}

// transport returns a transport of requests to the owner, which presents the marks.
func (m *marks) transport(next http.RoundTripper) http.RoundTripper {
	return highwater.Transport{Next: next, Keeper: m}
}

// Marks implements highwater.Keeper. The first call waits for history and Redis: if they are unavailable, requests continue without what they
// keep. Nothing waits for a store that is kept only in Redis, which is read before each exchange.
func (m *marks) Marks(ctx context.Context) ([]string, error) {
	if m.history != nil {
		m.first.Do(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstTimeout)
			defer cancel()
			for _, k := range []highwater.Keeper{m.redis, m.history} {
				kept, _ := k.Marks(ctx) // repeated by exchange
				m.add(kept)
			}
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen), nil
}

func (m *marks) add(marks []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mark := range marks {
		if !slices.Contains(m.seen, mark) {
			m.seen = append(m.seen, mark)
		}
	}
}

// Replace implements highwater.Keeper. It replaces only the marks that the owner has verified: others may have been added since.
func (m *marks) Replace(_ context.Context, seen []string, newest string, _ bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = slices.DeleteFunc(m.seen, func(mark string) bool { return slices.Contains(seen, mark) || mark == newest })
	m.seen = append(m.seen, newest)
	m.verified = append(slices.Clone(seen), newest)
	return true, nil
}

// exchange presents to the owner what this replica, Redis and history have seen, and gives them the newest mark.
func (m *marks) exchange(ctx context.Context) error {
	inRedis, redisErr := m.redis.Marks(ctx)
	m.add(inRedis)
	err := m.owner.Get(ctx, api.MarkPath, nil)
	if failed := new(peer.StatusError); errors.As(err, &failed) && failed.Status == http.StatusNotFound {
		return nil // an older release
	}
	if err != nil {
		return service.UnlessReported(err) // an outage, or set back: this replica remembers the marks
	}
	m.mu.Lock()
	seen, verified := slices.Clone(m.seen), m.verified
	m.mu.Unlock()
	if len(seen) != 1 || !slices.Contains(verified, seen[0]) {
		return nil // none yet, or added since
	}
	newest := seen[0]
	if redisErr == nil && !slices.Equal(inRedis, seen) {
		_, _ = m.redis.Replace(ctx, inRedis, newest, false) // requests report an outage
	}
	if m.history == nil || m.stored == newest {
		return nil
	}
	kept, err := m.history.Marks(ctx)
	if err != nil {
		return service.UnlessReported(err)
	}
	if slices.ContainsFunc(kept, func(mark string) bool { return !slices.Contains(verified, mark) }) {
		m.add(kept) // to be verified by the next exchange
		return nil
	}
	replaced, err := m.history.Replace(ctx, kept, newest, false)
	if replaced && err == nil {
		m.stored = newest
	}
	return service.UnlessReported(err)
}
