package httpapi

import (
	"context"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/review"
)

// historyTimeout limits each request for what the history adds to the queue. The queue does not
// wait longer for it.
const historyTimeout = time.Second

// queue returns a page of the review queue.
func (a API) queue(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	values, err := params.Read(g.Request.URL.RawQuery, "scope", "within", "why", "status", "category", "host", "text",
		"holder", "available",
		"skipped", "after", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	filter, err := a.queueFilter(values)
	if err != nil {
		return web.Reply{}, err
	}
	filter.Operator = actor
	a.rank(g.Request.Context(), &filter)
	queue, err := a.Desk.Queue(g.Request.Context(), filter)
	if err != nil {
		return web.Reply{}, err
	}
	queue.Today.DoneBy = a.doneSince(g.Request.Context(), queue.GeneratedAt.Truncate(24*time.Hour))
	return web.Reply{JSON: queue}, nil
}

// rank adds the findings for the quotes of records, which order the queue. While the history
// service is unavailable the due time alone does; the rest of the page before may then be repeated.
func (a API) rank(ctx context.Context, f *review.QueueFilter) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if err := a.History.Get(ctx, "/internal/v1/readings", &f.Readings); err != nil {
		f.Readings = api.ReadingMarks{}
		f.After.Rank = min(f.After.Rank, review.QuotesOther)
	}
}

// freshness returns the published records by status now, on past days and ahead.
func (a API) freshness(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	f, err := a.Desk.Freshness(g.Request.Context())
	return web.Reply{JSON: f}, err
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
	if f.Limit, err = values.Integer("limit", 1, api.MaxOperatorPageSize, listLimit); err != nil {
		return f, err
	}
	scope, err := oneOf(values, "scope", "today", "all")
	if err != nil {
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
	for name, flag := range map[string]*bool{"available": &f.Available, "skipped": &f.Skipped} {
		value, err := values.Bool(name)
		if err != nil {
			return f, err
		}
		*flag = value != nil && *value
	}
	if f.Why, err = oneOf(values, "why", review.Whys...); err != nil {
		return f, err
	}
	if f.Status, err = oneOf(values, "status", api.Verified, api.Unverified, api.Stale, api.NeedsReview); err != nil {
		return f, err
	}
	if f.Category, err = oneOf(values, "category", api.Categories...); err != nil {
		return f, err
	}
	for name, text := range map[string]*string{"host": &f.Host, "text": &f.Text, "holder": &f.Holder} {
		if *text, err = searchText(values, name); err != nil {
			return f, err
		}
	}
	f.Host = strings.ToLower(f.Host)
	return f, nil
}

// searchText reads a text parameter. It returns "" if the request does not have it.
func searchText(values params.Values, name string) (string, error) {
	text := values[name]
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || utf8.RuneCountInString(text) > maxText {
		return "", problem.Invalid(name, "must have at most 200 characters")
	}
	return text, nil
}
