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
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
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
		return web.Reply{}, problem.New(problem.SubscriptionRequired,
			"The %s tier does not include the verification history. Get the %s plan at %s/account/plan, or ask the operator if this service sells no plans.",
			caller.Tier, api.HistoryPlan().Name, a.PublicURL)
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
	now := a.Now().UTC()
	for i := range got.Events { // the clock of the host that recorded it may be ahead of ours
		if e := &got.Events[i]; e.CheckedAt.After(now) {
			e.CheckedAt = now
		}
	}
	query := params.Encode(page.Append(nil))
	return web.Reply{
		ETag: etag(api.ContractVersion, a.PublicURL, slug, strconv.FormatInt(got.Sequence, 10), string(caller.Tier), query),
		JSON: api.EventList{
			Data:       got.Events,
			Pagination: page.Pagination(a.PublicURL, "/api/v1/opportunities/"+slug+"/history", nil, got.Total),
			Meta:       api.NewMeta(caller.Tier, now),
		},
	}, nil
}

// etag stands for everything an answer depends on but the instant at which it was made.
func etag(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}

// summaries answers the summaries after a sequence. Where there are none yet it waits for them.
func (a API) summaries(g *gin.Context) (web.Reply, error) {
	found, err := feed.Serve(g.Request, a.Store.Summaries)
	return web.Reply{JSON: api.SummaryFeed{Rules: api.SummaryRules, Summaries: found}}, err
}
