package gateway

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
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
