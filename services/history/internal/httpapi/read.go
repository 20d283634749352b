package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

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
func (a API) history(c call) (any, error) {
	caller, err := web.Caller(c.Context)
	if err != nil {
		return nil, err
	}
	page, err := c.params.Page(caller.PageSize)
	if err != nil {
		return nil, err
	}
	if !caller.History {
		return nil, problem.New(problem.SubscriptionRequired,
			"The %s tier does not include the verification history. Get the %s plan at %s/account/plan, or ask the operator "+
				"if this service sells no plans.",
			caller.Tier, api.HistoryPlan().Name, a.PublicURL)
	}
	if !api.ValidSlug(c.id) {
		return nil, notFound
	}
	var events event.Page
	if err := a.Query(c.ctx, func(ctx context.Context) error {
		var published bool
		events, published, err = a.Store.History(ctx, c.id, page.Offset(), page.Limit)
		if err == nil && !published {
			err = notFound
		}
		return err
	}); err != nil {
		return nil, err
	}
	now := a.Now().UTC()
	for i := range events.Events { // the clock of the recording host may be ahead of this one
		if e := &events.Events[i]; e.CheckedAt.After(now) {
			e.CheckedAt = now
		}
	}
	query := params.Encode(page.Append(nil))
	return web.Reply{
		ETag: etag(api.ContractVersion, a.PublicURL, c.id, strconv.FormatInt(events.Sequence, 10), string(caller.Tier),
			query),
		JSON: api.EventList{
			Data:       events.Events,
			Pagination: page.Pagination(a.PublicURL, "/api/v1/opportunities/"+c.id+"/history", nil, events.Total),
			Meta:       api.NewMeta(caller.Tier, now),
		},
	}, nil
}

func (a API) latest(c call) (any, error) {
	var page event.Page
	err := a.Query(c.ctx, func(ctx context.Context) (err error) {
		page, _, err = a.Store.History(ctx, c.id, 0, api.PermalinkEvents)
		return err
	})
	return page.Events, err
}

// etag returns a tag of everything a response depends on except its time.
func etag(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}

// unpublished names the listings that the copy of the catalog knows as not public. A catalog that
// was set back asks for them.
func (a API) unpublished(c call) (any, error) {
	ids, err := a.Store.Unpublished(c.ctx)
	return api.UnpublishedListings{Listings: ids}, err
}

// summaries serves the summaries after a sequence. It waits if there are none yet.
func (a API) summaries(c call) (any, error) {
	return a.Summaries.Serve(c.Request, server.Draining(c.Request))
}
