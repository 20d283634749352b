// Package api serves the requests of gateways and operators about usage.
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

// Charts reads the outcomes of requests.
type Charts interface {
	ByTier(ctx context.Context, r usage.Range) ([]usage.TierCount, error)
}

// API serves the requests.
type API struct {
	Ledger  Ledger
	Batches Batches
	Charts  Charts
	Log     *slog.Logger
	Now     func() time.Time
}

// Routes returns the routes.
func (a API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.Get("/internal/v1/usage/:day", a.day),
		httpapi.Post("/internal/v1/tallies", a.addBatch),
		httpapi.Get("/operator/v1/usage", a.report),
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

// reportDays is the default number of days of a report.
const reportDays = 30

// report returns the usage of all accounts on the latest days.
func (a API) report(g *gin.Context) (web.Reply, error) {
	query, err := params.Read(g.Request.URL.RawQuery, "days")
	if err != nil {
		return web.Reply{}, err
	}
	days, err := query.Integer("days", 1, usage.RetentionDays, reportDays)
	if err != nil {
		return web.Reply{}, err
	}
	counts, err := a.Charts.ByTier(g.Request.Context(), usage.Last(a.Now(), days))
	return web.Reply{JSON: usage.Report(counts)}, err
}
