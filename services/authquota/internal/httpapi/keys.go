package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

func (a API) listedKey(k keys.Key) api.ListedKey {
	return api.ListedKey{
		ID: k.ID, Account: k.Account, Tier: k.TierAt(a.Now()), Prefix: k.Prefix, LastFour: k.LastFour, UseCase: k.UseCase,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, Status: string(k.StatusAt(a.Now())),
		Name: k.Name, ReplacedAt: k.ReplacedAt, Successor: k.Successor, LastUsedAt: k.LastUsedAt,
	}
}

// issue creates a key. Only its response contains the key.
func (a API) issue(c call) (web.Reply, error) {
	var order keys.Order
	if err := c.decode(&order, maxBody); err != nil {
		return web.Reply{}, err
	}
	order, life, err := order.Checked()
	if err != nil {
		return web.Reply{}, err
	}
	secret := apikey.Generate(keys.PrefixOf(order.Test))
	key, err := a.Keys.Issue(c.ctx, c.actor, order, life, keys.NewRecord(secret, a.Peppers))
	return web.Reply{
		Status: http.StatusCreated,
		Header: http.Header{"Cache-Control": {"no-store"}},
		JSON: api.IssuedKey{
			ID: key.ID, Key: secret.Reveal(), Account: key.Account, Tier: key.TierAt(a.Now()), ExpiresAt: key.ExpiresAt,
		},
	}, err
}

func (a API) listKeys(c call) (web.Reply, error) {
	page, err := c.page(keys.CheckID)
	id, given := c.query["account"]
	if err == nil && given {
		err = account.CheckID(id)
	}
	if err != nil {
		return web.Reply{}, err
	}
	found, more, err := a.Keys.Keys(c.ctx, keys.Filter{Account: id, UseCase: c.query["useCase"]}, page)
	list := api.KeyList{Keys: convert(found, a.listedKey)}
	if more {
		list.Next = found[len(found)-1].ID
	}
	return reply(list, err)
}

func (a API) revoke(c call) (web.Reply, error) {
	var body struct {
		Leaked bool `json:"leaked"`
	}
	if err := c.decode(&body, maxBody); err != nil {
		return web.Reply{}, err
	}
	if err := keys.CheckID(c.Param("id")); err != nil {
		return web.Reply{}, err
	}
	key, err := a.Keys.Revoke(c.ctx, c.actor, c.Param("id"), body.Leaked)
	return reply(a.listedKey(key), err)
}

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// resolve returns the principal of a key. Expired and revoked keys are included; the gateway
// reports which of the two applies.
func (a API) resolve(c call) (web.Reply, error) {
	var query api.PrincipalQuery
	if err := c.decode(&query, maxBody); err != nil {
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
	err := a.Epochs.InEffect(c.ctx, func(ctx context.Context) (_ accountdb.Epoch, err error) {
		key, err = a.Keys.Resolve(ctx, query.Digests)
		return key.Epoch, err
	})
	if problem.Of(err).Code == problem.NotFound {
		if down := a.Epochs.Reachable(c.ctx); down != nil {
			return web.Reply{}, down // while Redis is unavailable, no key is reported as invalid
		}
	}
	if err != nil {
		return web.Reply{}, err
	}
	return reply(key.Principal(a.Now(), a.Tiers))
}

// digestPage is the maximum number of digests on a page, about 200 kB.
const digestPage = 10_000

// keyDigests returns the digests of existing keys, so that gateways reject other keys without a
// lookup. It returns 503 while Redis is unavailable, because no key may be reported as invalid
// then; see resolve.
func (a API) keyDigests(c call) (web.Reply, error) {
	after := api.KeyPosition{Digest: c.query["digest"]}
	if s, given := c.query["after"]; given {
		var err error
		if after.Sequence, err = strconv.ParseInt(s, 10, 64); err != nil || after.Sequence < 0 {
			return web.Reply{}, problem.Invalid("after", "must be a sequence: an integer from 0")
		}
	}
	if err := a.Epochs.Reachable(c.ctx); err != nil {
		return web.Reply{}, err
	}
	return reply(a.Keys.KeyDigests(c.ctx, after, digestPage))
}

func listedRequest(r keys.Request) api.KeyRequest {
	return api.KeyRequest{
		ID: r.ID, Account: r.Account, Name: r.Name, UseCase: r.UseCase, State: string(r.State), Reason: r.Reason,
		AskedAt: r.RequestedAt, DecidedAt: r.DecidedAt, DecidedBy: r.DecidedBy,
	}
}

func (a API) listRequests(c call) (web.Reply, error) {
	page, err := c.page(keys.CheckRequestID)
	all := c.query["all"]
	if err == nil && all != "" && all != "true" && all != "false" {
		err = problem.Invalid("all", "must be true or false")
	}
	if err != nil {
		return web.Reply{}, err
	}
	requests, more, err := a.Keys.Requests(c.ctx, all == "true", page)
	list := api.KeyRequestList{Requests: convert(requests, listedRequest)}
	if more {
		list.Next = requests[len(requests)-1].ID
	}
	return reply(list, err)
}

func (a API) approve(c call) (web.Reply, error) {
	return a.decide(c, &struct{}{}, func() (keys.Decide, error) { return keys.Approve(), nil })
}

func (a API) decline(c call) (web.Reply, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	return a.decide(c, &body, func() (keys.Decide, error) { return keys.Decline(body.Reason) })
}

func (a API) decide(c call, body any, decision func() (keys.Decide, error)) (web.Reply, error) {
	if err := c.decode(body, maxBody); err != nil {
		return web.Reply{}, err
	}
	decided, err := decision()
	if err == nil {
		err = keys.CheckRequestID(c.Param("id"))
	}
	if err != nil {
		return web.Reply{}, err
	}
	r, err := a.Keys.Decide(c.ctx, c.actor, c.Param("id"), decided)
	return reply(listedRequest(r), err)
}

func (a API) importKeys(c call) (web.Reply, error) {
	var lines []keys.Older
	var report api.ImportReport
	err := web.File(c.Context, api.MaxFile, func(in io.Reader) (err error) {
		lines, report, err = keys.ReadOlder(in)
		return err
	})
	if err != nil || len(report.Rejected) > 0 {
		return reply(report, err)
	}
	report, err = a.Keys.ImportKeys(c.ctx, c.actor, lines, a.Peppers)
	if report.Applied {
		report.Warnings = keys.OlderWarnings(lines, a.OlderKeys)
	}
	return reply(report, err)
}
