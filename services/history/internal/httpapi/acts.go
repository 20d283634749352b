package httpapi

import (
	"math"
	"strings"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/history/internal/event"
)

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

func actFilter(values params.Values) (f event.ActFilter, err error) {
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
