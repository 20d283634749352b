package gateway

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
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

func newFrontPage(pages *docsite.Site, catalog *peer.Client, now func() time.Time) *docsite.FrontPage {
	return &docsite.FrontPage{Site: pages, Now: now,
		Fetch: func(ctx context.Context) (overview api.CatalogOverview, err error) {
			err = catalog.Get(ctx, "/internal/v1/overview", &overview)
			return overview, err
		}}
}

// refreshServed returns the refresh of the days on the status page. While authquota is unavailable,
// the page keeps the last ones.
func refreshServed(pages *docsite.Site, authquota *peer.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		var days []api.DayServed
		if err := authquota.Get(ctx, "/internal/v1/served", &days); err != nil {
			return service.UnlessReported(err)
		}
		return pages.ShowServed(days)
	}
}
