package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
)

var notFound = problem.New(problem.NotFound, "There is no public record with this id.")

// history serves a page of a listing's events. It checks the plan before it looks up the listing,
// so that a tier without history cannot learn which IDs exist.
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
			"The %s tier does not include the verification history. Get the %s plan at %s/account/plan, or ask the operator "+
				"if this service sells no plans.",
			caller.Tier, api.HistoryPlan().Name, a.PublicURL)
	}
	slug := g.Param("id")
	if !api.ValidSlug(slug) {
		return web.Reply{}, notFound
	}
	var events event.Page
	if err := a.queries.Run(g.Request.Context(), func(ctx context.Context) error {
		var published bool
		events, published, err = a.Store.History(ctx, slug, page.Offset(), page.Limit)
		if err == nil && !published {
			err = notFound
		}
		return err
	}); err != nil {
		return web.Reply{}, err
	}
	now := a.Now().UTC()
	for i := range events.Events { // the clock of the recording host may be ahead of this one
		if e := &events.Events[i]; e.CheckedAt.After(now) {
			e.CheckedAt = now
		}
	}
	query := params.Encode(page.Append(nil))
	return web.Reply{
		ETag: etag(api.ContractVersion, a.PublicURL, slug, strconv.FormatInt(events.Sequence, 10), string(caller.Tier),
			query),
		JSON: api.EventList{
			Data:       events.Events,
			Pagination: page.Pagination(a.PublicURL, "/api/v1/opportunities/"+slug+"/history", nil, events.Total),
			Meta:       api.NewMeta(caller.Tier, now),
		},
	}, nil
}

func (a API) latest(g *gin.Context) (web.Reply, error) {
	var page event.Page
	err := a.queries.Run(g.Request.Context(), func(ctx context.Context) (err error) {
		page, _, err = a.Store.History(ctx, g.Param("id"), 0, api.PermalinkEvents)
		return err
	})
	return web.Reply{JSON: page.Events}, err
}

// etag returns a tag of everything a response depends on except its time.
func etag(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}

// unpublished names the listings that the copy of the catalog knows as not public. A catalog that
// was set back asks for them.
func (a API) unpublished(g *gin.Context) (web.Reply, error) {
	ids, err := a.Store.Unpublished(g.Request.Context())
	return web.Reply{JSON: api.UnpublishedListings{Listings: ids}}, err
}

// summaries serves the summaries after a sequence. It waits if there are none yet.
func (a API) summaries(g *gin.Context) (web.Reply, error) {
	page, err := a.Summaries.Serve(g.Request, server.Draining(g.Request))
	return web.Reply{JSON: page}, err
}
