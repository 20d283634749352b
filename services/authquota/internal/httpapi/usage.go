package httpapi

import (
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/plan"
)

func (a API) settings(call) (any, error) { return a.Shared, nil }

// served returns how many calls failed on each day, for the status page of the gateway.
func (a API) served(c call) (any, error) {
	return a.Usage.Served(c.ctx, keyusage.Last(a.Now(), api.ServedDays))
}

// restore restores the counters of a day that Redis has lost. It takes seconds for hundreds of
// thousands of accounts.
func (a API) restore(c call) (any, error) {
	if !keyusage.ValidDay(c.Param("day")) {
		return nil, problem.Invalid("day", "must be a day such as 2026-11-20")
	}
	return nil, a.Counters.Restore(c.ctx, c.Param("day"))
}

// reportDays is the default number of days of a report.
const reportDays = 30

func (a API) report(c call) (any, error) {
	days, err := c.query.Integer("days", 1, keyusage.RetentionDays, reportDays)
	if err != nil {
		return nil, err
	}
	return a.Usage.Report(c.ctx, keyusage.Last(a.Now(), days))
}

// maxBatchBytes is far above the size of the largest usage batch, in bytes.
const maxBatchBytes = 4 << 20

// addBatch adds a usage batch of a gateway to the counts and to the request logs. It accepts a
// batch that was added before and changes nothing.
func (a API) addBatch(c call) (any, error) {
	var sent api.UsageBatch
	if err := web.Decode(c.Context, &sent, maxBatchBytes); err != nil {
		return nil, err
	}
	batch, err := keyusage.Check(sent, a.Now())
	if err != nil {
		return nil, err
	}
	requests, err := keyusage.CheckRequests(sent.Requests, a.Now())
	if err != nil {
		return nil, err
	}
	unknown, err := a.Usage.Count(c.ctx, batch)
	if unknown > 0 {
		a.Errors.Log.WarnContext(c.ctx, "usage batch: unknown keys skipped", "keys", unknown)
	}
	if err == nil {
		err = a.Usage.AddRequests(c.ctx, requests)
	}
	return nil, err
}

// entitle stores an entitlement from billing. 204 means that this version, or a newer one, is in
// effect on every gateway. After any other status billing retries, even if the 503 came after the
// entitlement was stored.
func (a API) entitle(c call, entitlement api.Entitlement) (any, error) {
	entitlement, err := plan.Entitled(entitlement)
	if err != nil {
		return nil, err
	}
	return nil, a.Plans.Entitle(c.ctx, c.Param("account"), entitlement)
}
