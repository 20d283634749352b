package httpapi

import (
	"io"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/keys"
)

func listedRequest(r keys.Request) api.KeyRequest {
	return api.KeyRequest{
		ID: r.ID, Account: r.Account, Name: r.Name, UseCase: r.UseCase, State: string(r.State), Reason: r.Reason,
		AskedAt: r.RequestedAt, DecidedAt: r.DecidedAt, DecidedBy: r.DecidedBy,
	}
}

func (a API) listRequests(g *gin.Context) (web.Reply, error) {
	query, err := params.Read(g.Request.URL.RawQuery, "all", "after", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	page, err := Page(query, keys.CheckRequestID)
	if err != nil {
		return web.Reply{}, err
	}
	all := query["all"]
	if all != "" && all != "true" && all != "false" {
		return web.Reply{}, problem.Invalid("all", "must be true or false")
	}
	requests, more, err := a.Keys.Requests(g.Request.Context(), all == "true", page)
	list := api.KeyRequestList{Requests: make([]api.KeyRequest, len(requests))}
	for i, r := range requests {
		list.Requests[i] = listedRequest(r)
		if more {
			list.Next = r.ID
		}
	}
	return web.Reply{JSON: list}, err
}

func (a API) approve(g *gin.Context) (web.Reply, error) {
	return a.decide(g, &struct{}{}, func() (keys.Decide, error) { return keys.Approve(), nil })
}

func (a API) decline(g *gin.Context) (web.Reply, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	return a.decide(g, &body, func() (keys.Decide, error) { return keys.Decline(body.Reason) })
}

func (a API) decide(g *gin.Context, body any, decision func() (keys.Decide, error)) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	if err := Decode(g, body); err != nil {
		return web.Reply{}, err
	}
	decided, err := decision()
	if err != nil {
		return web.Reply{}, err
	}
	if err := keys.CheckRequestID(g.Param("id")); err != nil {
		return web.Reply{}, err
	}
	r, err := a.Keys.Decide(g.Request.Context(), actor, g.Param("id"), decided)
	return web.Reply{JSON: listedRequest(r)}, err
}

// importKeys imports keys issued elsewhere, by their hashes.
func (a API) importKeys(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	var lines []keys.Older
	var report api.ImportReport
	err = web.File(g, api.MaxFile, func(in io.Reader) (err error) {
		lines, report, err = keys.ReadOlder(in)
		return err
	})
	if err != nil {
		return web.Reply{}, err
	}
	if len(report.Rejected) > 0 {
		return web.Reply{JSON: report}, nil
	}
	report, err = a.Keys.ImportKeys(g.Request.Context(), actor, lines, a.Peppers)
	if report.Applied {
		report.Warnings = keys.OlderWarnings(lines, a.OlderKeys)
	}
	return web.Reply{JSON: report}, err
}
