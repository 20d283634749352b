package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/edge"
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

// healthPage keeps the status page at the state of the dependencies and at the requests that this
// process has served.
type healthPage struct {
	pages   *docsite.Site
	ready   *server.Ready
	metrics prometheus.Gatherer
	now     func() time.Time
	since   time.Time // start of the process
}

func (h *healthPage) refresh(ctx context.Context) error {
	health := docsite.Health{At: h.now(), Since: h.since, Missing: h.ready.Missing(ctx)}
	var err error
	if health.Measured, err = edge.Measure(h.metrics); err != nil {
		return fmt.Errorf("measuring the objectives: %w", err)
	}
	return h.pages.ShowHealth(health)
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
