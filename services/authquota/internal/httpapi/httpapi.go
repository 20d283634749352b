// Package httpapi serves the internal HTTP API of authquota: principals and usage for the gateway,
// entitlements for billing, and keys and accounts for operators (through the gateway).
//
// API.routes is the table of all operations with the query parameters that each accepts. A handler
// gets a call, whose query, operator and IDs were checked, and perhaps its decoded body. It returns
// the JSON of the response, nil for 204, or an error.
package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
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

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// resolve returns the principal of a key. Expired and revoked keys are included; the gateway
// reports which of the two applies.
func (a API) resolve(c call, query api.PrincipalQuery) (any, error) {
	if n := len(query.Digests); n < 1 || n > apikey.MaxPeppers {
		return nil, problem.Invalid("digests", fmt.Sprintf("must have 1 to %d entries", apikey.MaxPeppers))
	}
	for _, d := range query.Digests {
		if !digest.MatchString(d) {
			return nil, problem.Invalid("digests", "must be SHA-256 digests in lower-case hexadecimal")
		}
	}
	var key keys.Resolved
	err := a.Epochs.InEffect(c.ctx, func(ctx context.Context) (_ accountdb.Epoch, err error) {
		key, err = a.Keys.Resolve(ctx, query.Digests)
		return key.Epoch, err
	})
	if problem.Of(err).Code == problem.NotFound {
		if down := a.Epochs.Reachable(c.ctx); down != nil {
			return nil, down // while Redis is unavailable, no key is reported as invalid
		}
	}
	if err != nil {
		return nil, err
	}
	return key.Principal(a.Now(), a.Tiers)
}

// digestPage is the maximum number of digests on a page, about 200 kB.
const digestPage = 10_000

// keyDigests returns the digests of existing keys, so that gateways reject other keys without a
// lookup. It returns 503 while Redis is unavailable, because no key may be reported as invalid
// then; see resolve.
func (a API) keyDigests(c call) (any, error) {
	after, err := c.query.Integer("after", 0, math.MaxInt, 0)
	if err == nil {
		err = a.Epochs.Reachable(c.ctx)
	}
	if err != nil {
		return nil, err
	}
	return a.Keys.KeyDigests(c.ctx, api.KeyPosition{Sequence: int64(after), Digest: c.query["digest"]}, digestPage)
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

func (a API) listAccounts(c call) (any, error) {
	page, err := c.page("account")
	if err == nil && len(c.query["email"]) > maxFragment {
		err = problem.Invalid("email", "is longer than an address")
	}
	if err != nil {
		return nil, err
	}
	return a.People.Accounts(c.ctx, c.query["email"], page)
}

func (a API) showAccount(c call) (any, error) {
	shown, err := a.People.Account(c.ctx, c.Param("account"))
	shown.PerDay = a.Tiers[shown.Tier].PerDay
	return shown, err
}

type reason struct {
	Reason string `json:"reason"`
}

func (a API) suspend(c call, in reason) (any, error) {
	change, err := account.Suspend(in.Reason)
	return a.change(c, change, err)
}

func (a API) resume(c call, in reason) (any, error) {
	change, err := account.Resume(in.Reason)
	return a.change(c, change, err)
}

func (a API) grant(c call, in struct {
	Tier api.Tier `json:"tier"`
}) (any, error) {
	change, err := account.Grant(in.Tier)
	return a.change(c, change, err)
}

// change applies the requested change, unless it is invalid, and returns the account once the
// change is in effect.
func (a API) change(c call, requested account.Change, invalid error) (any, error) {
	if invalid != nil {
		return nil, invalid
	}
	changed, err := a.People.ChangeAccount(c.ctx, c.actor, c.Param("account"), requested)
	return changed.Listed(a.Now()), err
}

func (a API) resetAuthenticator(c call, in reason) (any, error) {
	at, err := a.People.ScheduleReset(c.ctx, c.actor, c.Param("account"), in.Reason)
	return api.AuthenticatorReset{ResetAt: at}, err
}

// auditPage is the default length of a page of the audit log.
const auditPage = 50

// actionLike matches a prefix of an action.
var actionLike = regexp.MustCompile(`^[a-z_]{1,40}(\.[a-z_]{0,40})?$`)

// listAudit returns entries of the audit log. Reading the log is not recorded.
func (a API) listAudit(c call) (any, error) {
	search := people.AuditSearch{Account: c.query["account"], Action: c.query["action"], Actor: c.query["actor"]}
	var errs [4]error
	search.Limit, errs[0] = c.query.Integer("limit", 1, api.MaxOperatorPageSize, auditPage)
	search.Before, errs[1] = c.query.Integer("before", 1, math.MaxInt, 0)
	search.Since, errs[2] = c.query.Time("since")
	search.Until, errs[3] = c.query.Time("until")
	err := cmp.Or(errs[:]...)
	switch {
	case err != nil:
	case search.Account != "" && accountdb.CheckID("account", search.Account) != nil:
		err = problem.Invalid("account", "must be the id of an account")
	case search.Action != "" && !actionLike.MatchString(search.Action):
		err = problem.Invalid("action", "must be the prefix of an action, such as key. or person.sign_in")
	case len(search.Actor) > maxFragment:
		err = problem.Invalid("actor", "is longer than a name")
	}
	if err != nil {
		return nil, err
	}
	entries, more, err := a.People.Audit(c.ctx, search)
	list := api.AuditList{Entries: entries}
	if more {
		list.Next = entries[len(entries)-1].ID
	}
	return list, err
}

// issue creates a key. Only its response contains the key.
func (a API) issue(c call, order api.KeyOrder) (any, error) {
	order, life, err := keys.CheckOrder(order)
	if err != nil {
		return nil, err
	}
	secret, record := keys.Generate(order.Test, a.Peppers)
	key, err := a.Keys.Issue(c.ctx, c.actor, order, life, record)
	return web.Reply{
		Status: http.StatusCreated,
		Header: http.Header{"Cache-Control": {"no-store"}},
		JSON: api.IssuedKey{
			ID: key.ID, Key: secret.Reveal(), Account: key.Account, Tier: key.TierAt(a.Now()), ExpiresAt: key.ExpiresAt,
		},
	}, err
}

func (a API) listKeys(c call) (any, error) {
	page, err := c.page("key")
	id, given := c.query["account"]
	if err == nil && given {
		err = accountdb.CheckID("account", id)
	}
	if err != nil {
		return nil, err
	}
	found, more, err := a.Keys.Keys(c.ctx, keys.Filter{Account: id, UseCase: c.query["useCase"]}, page)
	list := api.KeyList{Keys: keys.Listed(found, a.Now())}
	if more {
		list.Next = found[len(found)-1].ID
	}
	return list, err
}

func (a API) revoke(c call, in struct {
	Leaked bool `json:"leaked"`
}) (any, error) {
	key, err := a.Keys.Revoke(c.ctx, c.actor, c.Param("key"), in.Leaked)
	return key.Listed(a.Now()), err
}

func (a API) importKeys(c call) (any, error) {
	var lines []keys.Older
	var report api.ImportReport
	err := web.File(c.Context, api.MaxFile, func(in io.Reader) (err error) {
		lines, report, err = keys.ReadOlder(in)
		return err
	})
	if err != nil || len(report.Rejected) > 0 {
		return report, err
	}
	report, err = a.Keys.ImportKeys(c.ctx, c.actor, lines, a.Peppers)
	if report.Applied {
		report.Warnings = keys.OlderWarnings(lines, a.OlderKeys)
	}
	return report, err
}

func (a API) listRequests(c call) (any, error) {
	page, err := c.page("request")
	all, err2 := c.query.Flag("all")
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	requests, more, err := a.Keys.Requests(c.ctx, all, page)
	list := api.KeyRequestList{Requests: keys.ListedRequests(requests)}
	if more {
		list.Next = requests[len(requests)-1].ID
	}
	return list, err
}

func (a API) approve(c call, _ struct{}) (any, error) {
	return a.decide(c, keys.Decide{State: keys.Approved})
}

func (a API) decline(c call, in reason) (any, error) {
	return a.decide(c, keys.Decide{State: keys.Declined, Reason: in.Reason})
}

func (a API) decide(c call, decision keys.Decide) (any, error) {
	decided, err := a.Keys.Decide(c.ctx, c.actor, c.Param("request"), decision)
	return decided.Listed(), err
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

// announce creates an announcement or, if it exists, returns its progress. With dryRun it creates
// nothing.
func (a API) announce(c call, in api.AnnouncementRequest) (any, error) {
	return a.Notices.Announce(c.ctx, c.actor, in)
}
