package gateway

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
)

const (
	marksInterval = time.Second
	marksTimeout  = 2 * time.Second
)

// rememberMarks remembers the newest mark of each service's database in memory, and presents it to
// the service every second, which notices by it that its database was set back. Redis keeps a copy
// for replicas that start later.
func rememberMarks(r *service.Runtime, cfg Config, counters *redis.Client) {
	var all []*setback.Memory
	var stores []string
	for store, base := range cfg.services() {
		owner := r.Peer(store, base, cfg.Tokens)
		stores = append(stores, store)
		all = append(all, &setback.Memory{Store: store, Redis: counters,
			Verify: func(ctx context.Context, seen []string) (newest string, err error) {
				err = owner.Get(ctx, api.MarkPath+"?"+url.Values{"seen": seen}.Encode(), &newest)
				return newest, err
			}})
	}
	r.Every(service.Loop{Name: "marks", Interval: marksInterval, Timeout: marksTimeout,
		Do: func(ctx context.Context) error {
			stored := make([]any, len(all))
			reply, lost := counters.HMGet(ctx, counter.Marks, stores...).Result()
			copy(stored, reply)
			errs := make([]error, len(all))
			var wait sync.WaitGroup
			for i, m := range all {
				text, _ := stored[i].(string) // "" if Redis has none
				// an outage, or set back: the memory stays
				wait.Go(func() { errs[i] = service.UnlessReported(m.Exchange(ctx, text, lost == nil)) })
			}
			wait.Wait()
			return errors.Join(errs...)
		}})
}
