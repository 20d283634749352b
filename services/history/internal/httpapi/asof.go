package httpapi

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

const asOfTimeout = 10 * time.Second

// asOf returns what was known about a listing at the time of the parameter at, by default now.
func (a API) asOf(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "at")
	if err != nil {
		return web.Reply{}, err
	}
	at, err := parseAt(values, a.Now())
	if err != nil {
		return web.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), asOfTimeout)
	defer cancel()
	slug := g.Param("id")
	records, sum, err := a.Store.AsOf(ctx, slug, at)
	if err != nil {
		return web.Reply{}, err
	}
	if len(records) == 0 {
		unknown, err := a.Store.UnknownListings(ctx, []string{slug})
		if err != nil {
			return web.Reply{}, err
		}
		if unknown[slug] {
			return web.Reply{}, problem.NoSuch("listing")
		}
	}
	then := api.HistorySnapshot{Slug: slug, At: at, Verification: sum.VerificationAt(nil, at), Facts: sum.Facts}
	if then.Events, err = forOperators(records); err != nil {
		return web.Reply{}, err
	}
	return web.Reply{JSON: then}, nil
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
