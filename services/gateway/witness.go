package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// witness sends authquota the newest change of its database that this replica has seen, so that authquota notices if its database and Redis
// were set back together. It stores the change in history as well, for the time when no replica runs.
type witness struct {
	next      http.RoundTripper
	authquota string // its URL: only requests to it are changed
	history   *peer.Client

	read sync.Once // of the change in history, before the first request

	mu           sync.Mutex
	seen, stored api.FeedMark // stored in history
}

const (
	witnessInterval = time.Second
	witnessTimeout  = time.Second
)

// RoundTrip implements http.RoundTripper. The first request to authquota waits for history, for at most witnessTimeout: if it is unavailable, requests
// continue without what it has seen.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	_, authquota, _ := strings.Cut(w.authquota, "://")
	if authquota, _, _ = strings.Cut(authquota, "/"); r.URL.Host != authquota {
		return w.next.RoundTrip(r)
	}
	w.read.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), witnessTimeout)
		defer cancel()
		_ = w.store(ctx, api.FeedMark{}) // retried by update
	})
	if seen, _ := w.marks(); seen.Sequence > 0 {
		r = r.Clone(r.Context())
		r.Header.Set(api.SeenChangeHeader, seen.String())
	}
	return w.next.RoundTrip(r)
}

func (w *witness) marks() (seen, stored api.FeedMark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen, w.stored
}

// update returns a function that reads the newest change from Redis, where authquota stores it, and stores it in history.
func (w *witness) update(counters *redis.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		text, err := counters.Get(ctx, counter.NewestChange).Result()
		if err != nil {
			return nil // none yet, or an outage, which requests report
		}
		newest, err := api.ParseFeedMark(text)
		if err != nil {
			return err
		}
		w.see(newest)
		if seen, stored := w.marks(); seen != stored {
			err = w.store(ctx, seen)
		}
		failed, e := new(peer.StatusError), new(problem.Error)
		if errors.As(err, &failed) && failed.Status == http.StatusNotFound || errors.As(err, &e) && e.Code == problem.ServiceUnavailable {
			return nil // an older release, or an outage, which requests report
		}
		return err
	}
}

// store stores a change in history, which returns the newest that it has.
func (w *witness) store(ctx context.Context, change api.FeedMark) error {
	var newest api.FeedMark
	err := w.history.Post(ctx, api.SeenChangePath, change, &newest)
	if err == nil {
		w.see(newest)
		w.mu.Lock()
		w.stored = newest
		w.mu.Unlock()
	}
	return err
}

func (w *witness) see(change api.FeedMark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if change.Sequence > w.seen.Sequence {
		w.seen = change
	}
}
