package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

// issue creates a key. Only its response contains the key.
func (a API) issue(c call, order keys.Order) (any, error) {
	order, life, err := order.Checked()
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
