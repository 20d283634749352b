package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// restore restores the counters of a day that Redis has lost. It takes seconds for hundreds of
// thousands of accounts.
func (a API) restore(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	day := g.Param("day")
	if !keyusage.ValidDay(day) {
		return web.Reply{}, problem.Invalid("day", "must be a day such as 2026-11-20")
	}
	return web.Reply{Status: http.StatusNoContent}, a.Restore(g.Request.Context(), day)
}

// reportDays is the default number of days of a report.
const reportDays = 30

// report returns the usage of all accounts on the latest days.
func (a API) report(g *gin.Context) (web.Reply, error) {
	query, err := params.Read(g.Request.URL.RawQuery, "days")
	if err != nil {
		return web.Reply{}, err
	}
	days, err := query.Integer("days", 1, keyusage.RetentionDays, reportDays)
	if err != nil {
		return web.Reply{}, err
	}
	counts, err := a.Usage.ByTier(g.Request.Context(), keyusage.Last(a.Now(), days))
	return web.Reply{JSON: keyusage.Report(counts)}, err
}
