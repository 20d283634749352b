package httpapi

import (
	"strconv"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

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
