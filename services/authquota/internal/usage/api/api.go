// Package api serves the gateways' requests about usage.
package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/usage"
)

// Ledger reads the usage ledger.
type Ledger interface {
	Day(ctx context.Context, day string) (api.DayUsage, error)
}

// Batches stores the outcomes of requests by key.
type Batches interface {
	// Count adds a usage batch once, even if it is sent again, and returns the number of unknown keys.
	Count(ctx context.Context, b usage.Batch) (unknown int, err error)
}

// API serves the requests.
type API struct {
	Ledger  Ledger
	Batches Batches
	Log     *slog.Logger
	Now     func() time.Time
}

// Routes returns the routes.
func (a API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.Get("/internal/v1/usage/:day", a.day),
		httpapi.Post("/internal/v1/tallies", a.addBatch),
	}
}

// day returns the ledger's counts of a day, from which a gateway restores a day missing in Redis.
func (a API) day(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	day := g.Param("day")
	if !usage.ValidDay(day) {
		return web.Reply{}, params.Invalid("day", "must be a day such as 2026-11-20")
	}
	counts, err := a.Ledger.Day(g.Request.Context(), day)
	return web.Reply{JSON: counts}, err
}
