package httpapi

import (
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/web"
)

const (
	feedLimit = 1000             // listings in one answer of the feed
	maxWait   = 30 * time.Second // for which the feed holds a request open
)

// listings answers with the listings that changed after a position of the change sequence. Where there is none yet it waits
// for one, as long as the caller asks.
func (a API) listings(g *gin.Context) (web.Reply, error) {
	v, err := params.Read(g.Request.URL.RawQuery, "after", "wait")
	if err != nil {
		return web.Reply{}, err
	}
	after, err := strconv.ParseInt(v["after"], 10, 64)
	if err != nil || after < 0 {
		return web.Reply{}, params.Invalid("after", "must be a position of the feed: 0, or the sequence of the last listing read")
	}
	wait := time.Duration(0)
	if s, ok := v["wait"]; ok {
		if wait, err = time.ParseDuration(s); err != nil || wait < 0 {
			return web.Reply{}, params.Invalid("wait", "must be a duration, such as 25s")
		}
	}
	deadline := time.NewTimer(min(wait, maxWait))
	defer deadline.Stop()
	for {
		changed := a.Catalog.Changed() // before reading, so that no change falls between
		states, err := a.Listings.Listings(g.Request.Context(), after, feedLimit)
		if err != nil {
			return web.Reply{}, err
		}
		answer := web.Reply{JSON: api.ListingFeed{Listings: states}}
		if len(states) > 0 {
			return answer, nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			return answer, nil
		case <-server.Draining(g.Request):
			return answer, nil
		case <-g.Request.Context().Done():
			return web.Reply{}, g.Request.Context().Err()
		}
	}
}
