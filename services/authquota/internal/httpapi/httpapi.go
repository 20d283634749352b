// Package httpapi serves the internal HTTP API of authquota: principals and usage for the gateway,
// entitlements for billing, and keys and accounts for operators (through the gateway).
//
// API.routes is the table of all operations with the query parameters that each accepts. A handler
// gets a call, whose query, operator and IDs were checked, and perhaps its decoded body. It returns
// the JSON of the response, nil for 204, or an error.
package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/epochs"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/plan"
)

// API serves the requests.
type API struct {
	People  *people.Store
	Keys    *keys.Store
	Plans   *plan.Store
	Usage   *keyusage.Store
	Notices *notices.Store

	Epochs   *epochs.Epochs
	Counters *keyusage.Counters

	Tiers     account.TierTable
	Peppers   [][]byte // newest first
	OlderKeys apikey.OlderForm
	Shared    api.SharedSettings
	Errors    problem.Writer
	Now       func() time.Time
}

type route struct {
	method, path string
	handle       func(call) (any, error)
	query        []string // accepted parameters
}

func (a API) routes() []route {
	return []route{
		{http.MethodPost, "/internal/v1/principals", body(a.resolve), nil},
		{http.MethodGet, "/internal/v1/key-digests", a.keyDigests, []string{"after", "digest"}},
		{http.MethodPut, "/internal/v1/entitlements/:account", body(a.entitle), nil},
		{http.MethodGet, "/internal/v1/settings", a.settings, nil},
		{http.MethodGet, "/internal/v1/served", a.served, nil},
		{http.MethodPost, "/internal/v1/usage/:day/restore", a.restore, nil},
		{http.MethodPost, "/internal/v1/usage-batches", a.addBatch, nil},

		{http.MethodGet, "/operator/v1/accounts", a.listAccounts, []string{"email", "after", "limit"}},
		{http.MethodGet, "/operator/v1/accounts/:account", a.showAccount, nil},
		{http.MethodPost, "/operator/v1/accounts/:account/suspend", body(a.suspend), nil},
		{http.MethodPost, "/operator/v1/accounts/:account/resume", body(a.resume), nil},
		{http.MethodPost, "/operator/v1/accounts/:account/grant", body(a.grant), nil},
		{http.MethodPost, "/operator/v1/accounts/:account/reset-authenticator", body(a.resetAuthenticator), nil},
		{http.MethodGet, "/operator/v1/audit", a.listAudit,
			[]string{"account", "action", "actor", "since", "until", "before", "limit"}},
		{http.MethodPost, "/operator/v1/keys", body(a.issue), nil},
		{http.MethodGet, "/operator/v1/keys", a.listKeys, []string{"account", "useCase", "after", "limit"}},
		{http.MethodPost, "/operator/v1/keys/:key/revoke", body(a.revoke), nil},
		{http.MethodPost, "/operator/v1/keys/import", a.importKeys, nil},
		{http.MethodGet, "/operator/v1/keys/requests", a.listRequests, []string{"all", "after", "limit"}},
		{http.MethodPost, "/operator/v1/keys/requests/:request/approve", body(a.approve), nil},
		{http.MethodPost, "/operator/v1/keys/requests/:request/decline", body(a.decline), nil},
		{http.MethodGet, "/operator/v1/usage", a.report, []string{"days"}},
		{http.MethodPost, "/operator/v1/announcements", body(a.announce), nil},
	}
}

// Handler serves the routes and /readyz. peer.Rules has the services that may call them.
func (a API) Handler(ready http.Handler) http.Handler {
	e := web.New(a.Errors)
	e.GET("/readyz", gin.WrapH(ready))
	for _, r := range a.routes() {
		e.Handle(r.method, r.path, web.Handler(a.Errors, r.serve))
	}
	return e
}

// call is a request whose query has only parameters of its route.
type call struct {
	*gin.Context

	ctx   context.Context
	query params.Values
	actor string // the operator who changes something
}

func (r route) serve(g *gin.Context) (_ web.Reply, err error) {
	c := call{Context: g, ctx: g.Request.Context()}
	if r.method != http.MethodGet && strings.HasPrefix(r.path, "/operator/") {
		if c.actor, err = web.Actor(g); err != nil {
			return web.Reply{}, err
		}
	}
	if c.query, err = params.Read(g.Request.URL.RawQuery, r.query...); err != nil {
		return web.Reply{}, err
	}
	for _, p := range g.Params {
		if err := accountdb.CheckID(p.Key, p.Value); err != nil {
			return web.Reply{}, err
		}
	}
	switch v, err := r.handle(c); v := v.(type) {
	case nil:
		return web.Reply{Status: http.StatusNoContent}, err
	case web.Reply:
		return v, err
	default:
		return web.Reply{JSON: v}, err
	}
}

// body returns the handler of a call with a JSON body. Fields that are absent, or all if the body
// is, are zero.
func body[In any](handle func(call, In) (any, error)) func(call) (any, error) {
	return func(c call) (any, error) {
		var in In
		if err := web.Decode(c.Context, &in, maxBody); err != nil {
			return nil, err
		}
		return handle(c, in)
	}
}

// page returns the page of a list of accounts, keys or requests.
func (c call) page(kind string) (account.Page, error) {
	limit, err := c.query.Integer("limit", 1, api.MaxOperatorPageSize, api.MaxOperatorPageSize)
	after, given := c.query["after"]
	if err == nil && given && accountdb.CheckID(kind, after) != nil {
		err = problem.Invalid("after", "must be the ID of the last entry of the previous page")
	}
	return account.Page{After: after, Limit: limit}, err
}

// maxFragment limits a part of an address or a name, in bytes.
const maxFragment = 254

// maxBody is far above the size of these requests, except usage batches.
const maxBody = 64 << 10
