package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/plan"
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

// maxBatchBytes is far above the size of the largest usage batch, in bytes.
const maxBatchBytes = 4 << 20

// addBatch adds a usage batch of a gateway to the counts and to the request logs. It accepts a
// batch that was added before and changes nothing.
func (a API) addBatch(g *gin.Context) (web.Reply, error) {
	var sent api.UsageBatch
	if err := DecodeUpTo(g, &sent, maxBatchBytes); err != nil {
		return web.Reply{}, err
	}
	batch, err := keyusage.Check(sent, a.Now())
	if err != nil {
		return web.Reply{}, err
	}
	requests, err := keyusage.CheckRequests(sent.Requests, a.Now())
	if err != nil {
		return web.Reply{}, err
	}
	unknown, err := a.Usage.Count(g.Request.Context(), batch)
	if unknown > 0 {
		a.Errors.Log.WarnContext(g.Request.Context(), "usage batch: unknown keys skipped", "keys", unknown)
	}
	if err == nil {
		err = a.RequestLog.Add(g.Request.Context(), requests)
	}
	return web.Reply{Status: http.StatusNoContent}, err
}

// settings returns the settings that the gateway shares or follows.
func (a API) settings(g *gin.Context) (web.Reply, error) {
	_, err := params.Read(g.Request.URL.RawQuery)
	return web.Reply{JSON: a.Shared}, err
}

// served returns how many calls failed on each day, for the status page of the gateway.
func (a API) served(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	days, err := a.Usage.Served(g.Request.Context(), keyusage.Last(a.Now(), api.ServedDays))
	return web.Reply{JSON: days}, err
}

// entitle stores an entitlement from billing. 204 means that this version, or a newer one, is in
// effect on every gateway. After any other status billing retries, even if the 503 came after the
// entitlement was stored.
func (a API) entitle(g *gin.Context) (web.Reply, error) {
	var entitlement api.Entitlement
	if err := Decode(g, &entitlement); err != nil {
		return web.Reply{}, err
	}
	entitlement, err := plan.Entitled(entitlement)
	if err != nil {
		return web.Reply{}, err
	}
	if err := account.CheckID(g.Param("account")); err != nil {
		return web.Reply{}, err
	}
	return web.Reply{Status: http.StatusNoContent}, a.Plans.Entitle(g.Request.Context(), g.Param("account"), entitlement)
}
