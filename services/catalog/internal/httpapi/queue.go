package httpapi

import (
	"context"
	"net/url"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/review"
)

// historyTimeout limits each request for what the history adds to the queue. The queue does not
// wait longer for it.
const historyTimeout = time.Second

func (a API) queue(r request) (web.Reply, error) {
	filter, err := a.queueFilter(r.values)
	if err != nil {
		return web.Reply{}, err
	}
	filter.Operator = r.actor
	a.rank(r.context(), &filter)
	queue, err := a.Curation.Queue(r.context(), filter)
	if err != nil {
		return web.Reply{}, err
	}
	queue.Today.DoneBy = a.doneSince(r.context(), queue.GeneratedAt.Truncate(24*time.Hour))
	return web.Reply{JSON: queue}, nil
}

// rank adds the findings for the quotes of records, which order the queue. While the history
// service is unavailable the due time alone does; the rest of the page before may then be repeated.
func (a API) rank(ctx context.Context, f *review.QueueFilter) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if err := a.History.Get(ctx, "/internal/v1/readings", &f.Findings); err != nil {
		f.Findings = api.ListingFindings{}
		f.After.Rank = min(f.After.Rank, review.QuotesOther)
	}
}

func (a API) freshness(r request) (web.Reply, error) {
	return web.JSON(a.Curation.Freshness(r.context()))
}

// doneSince returns the number of reviews that each operator recorded since then. It is empty while
// the history service is unavailable.
func (a API) doneSince(ctx context.Context, since time.Time) map[string]int {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	done := map[string]int{}
	if err := a.History.Get(ctx, "/internal/v1/reviews/done?since="+url.QueryEscape(since.Format(time.RFC3339)),
		&done); err != nil {
		return map[string]int{}
	}
	return done
}

func (a API) queueFilter(values params.Values) (f review.QueueFilter, err error) {
	var errs [6]error
	f.Filter, errs[0] = listingFilter(values)
	f.Limit, errs[1] = values.Integer("limit", 1, api.MaxOperatorPageSize, listLimit)
	f.Why, errs[2] = params.OneOf(values, "why", review.Whys...)
	f.Available, errs[3] = values.Flag("available")
	f.Skipped, errs[4] = values.Flag("skipped")
	scope, err := params.OneOf(values, "scope", "today", "all")
	errs[5] = err
	if err := params.Join(errs[:]...); err != nil {
		return f, err
	}
	if _, given := values["within"]; given {
		if scope != "" {
			return f, problem.Invalid("within", "cannot be combined with scope")
		}
		within, err := within(values)
		if err != nil {
			return f, err
		}
		f.Until = a.Now().Add(within)
	} else {
		f.Today = scope != "all"
	}
	if text, given := values["after"]; given {
		position, ok := review.ParseCursor(text)
		if !ok {
			return f, problem.Invalid("after", "must be next of the page before")
		}
		f.After = position
	}
	return f, nil
}

func (a API) due(r request) (web.Reply, error) {
	within, err := within(r.values)
	if err != nil {
		return web.Reply{}, err
	}
	web.Extend(r.Context, workTime)
	return web.JSON(a.Curation.Due(r.context(), a.Now().Add(within)))
}

// within reads the parameter within, a duration such as 7d or 36h. It returns 0 if the request does
// not have it.
func within(values params.Values) (time.Duration, error) {
	text, given := values["within"]
	if !given {
		return 0, nil
	}
	d, err := api.ParseDuration(text)
	if err != nil || d > 365*24*time.Hour {
		return 0, problem.Invalid("within", "must be a duration such as 7d or 36h, at most 365d")
	}
	return d, nil
}
