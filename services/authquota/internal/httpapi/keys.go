package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

func listedKey(k keys.Key, now time.Time) api.ListedKey {
	return api.ListedKey{
		ID: k.ID, Account: k.Account, Tier: k.TierAt(now), Prefix: k.Prefix, LastFour: k.LastFour, UseCase: k.UseCase,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, Status: string(k.StatusAt(now)),
		Name: k.Name, ReplacedAt: k.ReplacedAt, Successor: k.Successor, LastUsedAt: k.LastUsedAt,
	}
}

// issue creates a key. Only its response contains the key.
func (a API) issue(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	var order keys.Order
	if err := Decode(g, &order); err != nil {
		return web.Reply{}, err
	}
	order, life, err := order.Checked()
	if err != nil {
		return web.Reply{}, err
	}
	secret := apikey.Generate(order.Prefix())
	key, err := a.Keys.Issue(g.Request.Context(), actor, order, life, keys.NewRecord(secret, a.Peppers))
	if err != nil {
		return web.Reply{}, err
	}
	return web.Reply{
		Status: http.StatusCreated,
		Header: http.Header{"Cache-Control": {"no-store"}},
		JSON:   api.IssuedKey{ID: key.ID, Key: secret.Reveal(), Account: key.Account, Tier: key.TierAt(a.Now()), ExpiresAt: key.ExpiresAt},
	}, nil
}

func (a API) listKeys(g *gin.Context) (web.Reply, error) {
	query, err := params.Read(g.Request.URL.RawQuery, "account", "useCase", "after", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	page, err := Page(query, keys.CheckID)
	if err != nil {
		return web.Reply{}, err
	}
	id, given := query["account"]
	if given {
		if err := account.CheckID(id); err != nil {
			return web.Reply{}, err
		}
	}
	found, more, err := a.Keys.Keys(g.Request.Context(), keys.Filter{Account: id, UseCase: query["useCase"]}, page)
	list := api.KeyList{Keys: make([]api.ListedKey, len(found))}
	for i, k := range found {
		list.Keys[i] = listedKey(k, a.Now())
		if more {
			list.Next = k.ID
		}
	}
	return web.Reply{JSON: list}, err
}

func (a API) revoke(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	var body struct {
		Leaked bool `json:"leaked"`
	}
	if err := Decode(g, &body); err != nil {
		return web.Reply{}, err
	}
	if err := keys.CheckID(g.Param("id")); err != nil {
		return web.Reply{}, err
	}
	key, err := a.Keys.Revoke(g.Request.Context(), actor, g.Param("id"), body.Leaked)
	if err != nil {
		return web.Reply{}, err
	}
	return web.Reply{JSON: listedKey(key, a.Now())}, nil
}

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// resolve returns the principal of a key. Expired and revoked keys are included; the gateway
// reports which of the two applies.
func (a API) resolve(g *gin.Context) (web.Reply, error) {
	var query api.PrincipalQuery
	if err := Decode(g, &query); err != nil {
		return web.Reply{}, err
	}
	if n := len(query.Digests); n < 1 || n > apikey.MaxPeppers {
		return web.Reply{}, problem.Invalid("digests", fmt.Sprintf("must have 1 to %d entries", apikey.MaxPeppers))
	}
	for _, d := range query.Digests {
		if !digest.MatchString(d) {
			return web.Reply{}, problem.Invalid("digests", "must be SHA-256 digests in lower-case hexadecimal")
		}
	}
	var key keys.Resolved
	err := a.InEffect(g.Request.Context(), func(ctx context.Context) (_ accountdb.Epoch, err error) {
		key, err = a.Keys.Resolve(ctx, query.Digests)
		return key.Epoch, err
	})
	if problem.Of(err).Code == problem.NotFound {
		if down := a.RedisReachable(g.Request.Context()); down != nil {
			return web.Reply{}, down // while Redis is unavailable, no key is reported as invalid
		}
	}
	if err != nil {
		return web.Reply{}, err
	}
	principal, err := key.Principal(a.Now(), a.Tiers)
	return web.Reply{JSON: principal}, err
}

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

// digestPage is the maximum number of digests on a page, about 200 kB.
const digestPage = 10_000

// keyDigests returns the digests of existing keys, so that gateways reject other keys without a
// lookup. It returns 503 while Redis is unavailable, because no key may be reported as invalid
// then; see resolve.
func (a API) keyDigests(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "after", "digest")
	if err != nil {
		return web.Reply{}, err
	}
	after := api.KeyPosition{Digest: values["digest"]}
	if s, ok := values["after"]; ok {
		if after.Sequence, err = strconv.ParseInt(s, 10, 64); err != nil || after.Sequence < 0 {
			return web.Reply{}, problem.Invalid("after", "must be a sequence: an integer from 0")
		}
	}
	if err := a.RedisReachable(g.Request.Context()); err != nil {
		return web.Reply{}, err
	}
	page, err := a.Keys.KeyDigests(g.Request.Context(), after, digestPage)
	return web.Reply{JSON: page}, err
}
