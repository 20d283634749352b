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
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/services/gateway/internal/docsite"
)

// Intervals of refreshing the front page and the status page. Browsers' requests never wait for
// another service.
const (
	catalogRefresh = 10 * time.Second
	catalogTimeout = 2 * time.Second
	healthRefresh  = 15 * time.Second
	servedRefresh  = time.Minute
	servedTimeout  = 5 * time.Second
)

func refreshPages(r *service.Runtime, cfg Config, pages *docsite.Site, ready *server.Ready, authquota *peer.Client) {
	catalog, started := r.Peer(peer.Catalog, cfg.CatalogURL, cfg.Tokens), r.Now()
	r.Every(service.Loop{Name: "front page", Interval: catalogRefresh, Timeout: catalogTimeout,
		Do: func(ctx context.Context) error {
			overview := new(api.CatalogOverview)
			err := catalog.Get(ctx, "/internal/v1/overview", overview)
			if err != nil {
				overview = nil
			}
			return errors.Join(service.UnlessReported(err), pages.ShowCatalog(overview, r.Now()))
		}})
	r.Every(service.Loop{Name: "status page", Interval: healthRefresh, Do: func(ctx context.Context) error {
		return pages.ShowHealth(docsite.Health{At: r.Now(), Since: started, Missing: ready.Missing(ctx)})
	}})
	r.Every(service.Loop{Name: "days on the status page", Interval: servedRefresh, Retry: sharedRetry,
		Timeout: servedTimeout, Do: func(ctx context.Context) error {
			var days []api.DayServed
			if err := authquota.Get(ctx, "/internal/v1/served", &days); err != nil {
				return service.UnlessReported(err) // the page keeps the last ones
			}
			return pages.ShowServed(days)
		}})
}

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
