package api

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
)

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// resolve returns the principal of a key. Expired and revoked keys are included; the gateway reports which of the two applies.
//
// It looks up the key's account first, because the epoch must be read before the account (see epochs in the root package). If the key is
// connected to another account in the meantime, which happens once at most, it repeats the lookup.
func (a API) resolve(g *gin.Context) (web.Reply, error) {
	var query api.PrincipalQuery
	if err := Decode(g, &query); err != nil {
		return web.Reply{}, err
	}
	if n := len(query.Digests); n < 1 || n > apikey.MaxPeppers {
		return web.Reply{}, account.Invalid("digests", fmt.Sprintf("must have 1 to %d entries", apikey.MaxPeppers))
	}
	for _, d := range query.Digests {
		if !digest.MatchString(d) {
			return web.Reply{}, account.Invalid("digests", "must be SHA-256 digests in lower-case hexadecimal")
		}
	}
	key, suspended, epoch, err := a.lookup(g.Request.Context(), query.Digests)
	if problem.Of(err).Code == problem.NotFound {
		if down := a.RedisReachable(g.Request.Context()); down != nil {
			return web.Reply{}, down // while Redis is unavailable, no key is reported as invalid
		}
	}
	if err != nil {
		return web.Reply{}, err
	}
	principal, err := key.Principal(a.Now(), a.Tiers, suspended, epoch)
	return web.Reply{JSON: principal}, err
}

// lookup returns a key with the epoch of its account.
func (a API) lookup(ctx context.Context, digests []string) (key keys.Key, suspended bool, epoch int64, err error) {
	for range 2 {
		var owner string
		if owner, err = a.Keys.Owner(ctx, digests); err != nil {
			break
		}
		if epoch, err = a.Epoch(ctx, owner); err != nil {
			break
		}
		if key, suspended, err = a.Keys.Resolve(ctx, digests); err != nil || key.Account == owner {
			break
		}
		err = problem.Unavailable(errors.New("key moved to another account during the lookup"))
	}
	return key, suspended, epoch, err
}
