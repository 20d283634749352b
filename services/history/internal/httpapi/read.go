package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/web"
)

// queryTime is how long the database may take for a page before the answer is that it is unavailable.
const queryTime = 2 * time.Second

var notFound = problem.New(problem.NotFound, "There is no public record with this id.")

// history answers a page of a listing's events. The plan is judged before the record is looked up, so that a tier without
// history learns nothing about which ids exist.
func (a API) history(g *gin.Context) (web.Reply, error) {
	caller, err := web.Caller(g)
	if err != nil {
		return web.Reply{}, err
	}
	values, err := params.Read(g.Request.URL.RawQuery, "page", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	page, err := values.Page(caller.PageSize)
	if err != nil {
		return web.Reply{}, err
	}
	if !caller.History {
		return web.Reply{}, problem.New(problem.SubscriptionRequired, "The %s tier does not include the verification history.", caller.Tier)
	}
	slug := g.Param("id")
	if !api.ValidSlug(slug) {
		return web.Reply{}, notFound
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), queryTime)
	defer cancel()
	got, published, err := a.Store.History(ctx, slug, page.Offset(), page.Limit)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return web.Reply{}, problem.Unavailable(err)
	case err != nil:
		return web.Reply{}, err
	case !published:
		return web.Reply{}, notFound
	}
	query := params.Encode(page.Append(nil))
	return web.Reply{
		ETag: etag(api.ContractVersion, a.PublicURL, slug, strconv.FormatInt(got.Sequence, 10), string(caller.Tier), query),
		JSON: api.EventList{
			Data:       got.Events,
			Pagination: page.Pagination(a.PublicURL, "/api/v1/opportunities/"+slug+"/history", nil, got.Total),
			Meta:       api.NewMeta(caller.Tier, a.Now()),
		},
	}, nil
}

// etag stands for everything an answer depends on but the instant at which it was made.
func etag(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}

const (
	feedPage = 1000
	feedPoll = 200 * time.Millisecond // how often a waiting pull looks for what another replica has appended
	maxWait  = 25 * time.Second
)

// summaries answers the summaries after a sequence. Where there are none yet it waits for them, but not into a shutdown.
func (a API) summaries(g *gin.Context) (web.Reply, error) {
	after, wait, err := feedQuery(g.Request.URL.RawQuery)
	if err != nil {
		return web.Reply{}, err
	}
	ctx := g.Request.Context()
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	poll := time.NewTicker(feedPoll)
	defer poll.Stop()
	for waiting := wait > 0; ; {
		found, err := a.Store.Summaries(ctx, after, feedPage)
		if err != nil {
			return web.Reply{}, err
		}
		if len(found) > 0 || !waiting {
			return web.Reply{JSON: api.SummaryFeed{Summaries: found}}, nil
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			waiting = false
		case <-server.Draining(g.Request):
			waiting = false
		case <-ctx.Done():
			return web.Reply{}, ctx.Err()
		}
	}
}

func feedQuery(raw string) (after int64, wait time.Duration, err error) {
	values, err := params.Read(raw, "after", "wait")
	if err != nil {
		return 0, 0, err
	}
	if s, ok := values["after"]; ok {
		if after, err = strconv.ParseInt(s, 10, 64); err != nil || after < 0 {
			return 0, 0, params.Invalid("after", "must be a sequence: an integer from 0")
		}
	}
	if s, ok := values["wait"]; ok {
		if wait, err = time.ParseDuration(s); err != nil || wait < 0 || wait > maxWait {
			return 0, 0, params.Invalid("wait", "must be a duration from 0s to "+maxWait.String())
		}
	}
	return after, wait, nil
}
