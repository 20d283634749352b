package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/store"
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
	var events store.Page
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

// etag returns a tag of everything a response depends on except its time.
func etag(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}

func (a API) latest(c call) (any, error) {
	var page store.Page
	err := a.Query(c.ctx, func(ctx context.Context) (err error) {
		page, _, err = a.Store.History(ctx, c.id, 0, api.PermalinkEvents)
		return err
	})
	return page.Events, err
}

const asOfTimeout = 10 * time.Second

// asOf returns what was known about a listing at the time of the parameter at, by default now.
func (a API) asOf(c call) (any, error) {
	at, err := parseAt(c.params, a.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, asOfTimeout)
	defer cancel()
	records, sum, err := a.Store.AsOf(ctx, c.id, at)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		if err := a.known(ctx, c.id); err != nil {
			return nil, err
		}
	}
	then := api.HistorySnapshot{Slug: c.id, At: at, Verification: sum.VerificationAt(nil, at), Facts: sum.Facts}
	then.Events, err = forOperators(records)
	return then, err
}

// parseAt reads the parameter at. A day stands for its end, or for now if it is not over.
func parseAt(values params.Values, now time.Time) (time.Time, error) {
	text, given := values["at"]
	if !given {
		return now.UTC(), nil
	}
	invalid := problem.Invalid("at",
		"must be a UTC day such as 2026-11-20 or an instant such as 2026-11-20T09:30:00Z, not in the future")
	day, err := time.Parse(time.DateOnly, text)
	if err == nil {
		if day.After(now) {
			return time.Time{}, invalid
		}
		if end := day.Add(24*time.Hour - time.Microsecond); end.Before(now) {
			return end, nil
		}
		return now.UTC(), nil
	}
	at, err := api.ParseTimestamp(text)
	if err != nil || at.After(now) {
		return time.Time{}, invalid
	}
	return at, nil
}

// known returns an error (404) if there is no listing with the id.
func (a API) known(ctx context.Context, id string) error {
	unknown, err := a.Store.UnknownListings(ctx, []string{id})
	if err == nil && unknown[id] {
		err = problem.NoSuch("listing")
	}
	return err
}

// Sizes of a page of recorded events.
const (
	actLimit    = 100
	maxActLimit = 1000
)

func (a API) acts(c call) (any, error) {
	f, err := actFilter(c.params)
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit++ // shows whether there is another page
	records, err := a.Store.Acts(c.ctx, f)
	if err != nil {
		return nil, err
	}
	list := api.EventActList{Events: []api.PlacedEvent{}}
	if len(records) > limit {
		records = records[:limit]
		list.Next = records[limit-1].Sequence
	}
	events, err := forOperators(records)
	for i, e := range events {
		list.Events = append(list.Events, api.PlacedEvent{Position: records[i].Sequence, RecordedEvent: e})
	}
	return list, err
}

func actFilter(values params.Values) (f store.ActFilter, err error) {
	f.Actor, f.Slug, f.CheckType = values["actor"], values["listing"], api.CheckType(values["checkType"])
	if !utf8.ValidString(f.Actor) || strings.ContainsRune(f.Actor, 0) {
		return f, problem.Invalid("actor", "must be the name of an operator")
	}
	if f.Slug != "" && !api.ValidSlug(f.Slug) {
		return f, problem.Invalid("listing", "must be the id of a listing")
	}
	if f.CheckType != "" && api.Outcomes[f.CheckType] == nil {
		return f, problem.Invalid("checkType", "must be review or application-link")
	}
	if f.Since, err = values.Time("since"); err != nil {
		return f, err
	}
	if f.Until, err = values.Time("until"); err != nil {
		return f, err
	}
	before, err := values.Integer("before", 1, math.MaxInt, 0)
	if err != nil {
		return f, err
	}
	f.Before = int64(before)
	f.Limit, err = values.Integer("limit", 1, maxActLimit, actLimit)
	return f, err
}

func (a API) reviewsDone(c call) (any, error) {
	since, err := c.params.Time("since")
	if err != nil {
		return nil, err
	}
	return a.Store.ReviewsSince(c.ctx, since)
}
