package httpapi

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
)

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

// known returns an error (404) if there is no listing with the id.
func (a API) known(ctx context.Context, id string) error {
	unknown, err := a.Store.UnknownListings(ctx, []string{id})
	if err == nil && unknown[id] {
		err = problem.NoSuch("listing")
	}
	return err
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
