package api

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/usage"
)

// Counters are the counters in Redis.
type Counters interface {
	// Restore restores the counters of a day from the ledger if they are missing. It returns once the day has counters.
	Restore(ctx context.Context, day string) error
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

// restore restores the counters of a day that Redis has lost. It takes seconds for hundreds of thousands of accounts.
func (a API) restore(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	day := g.Param("day")
	if !usage.ValidDay(day) {
		return web.Reply{}, params.Invalid("day", "must be a day such as 2026-11-20")
	}
	return web.Reply{Status: http.StatusNoContent}, a.Counters.Restore(g.Request.Context(), day)
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
