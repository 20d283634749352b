// Package feed copies verification summaries from the history service into the catalog's database. The feed position is stored with the
// summaries, so the copy resumes where it stopped after an outage of either side.
package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/catalog/internal/store"
)

// Summaries copies the summaries of history's events into Store.
type Summaries struct {
	History *peer.Client
	Store   *store.Store
	Tel     *telemetry.Telemetry
}

// Run copies until ctx ends. It retries after errors.
func (s Summaries) Run(ctx context.Context) error {
	return feed.Follow(ctx, s.Tel, "summaries", s.pull)
}

func (s Summaries) pull(ctx context.Context, wait time.Duration) (int, error) {
	after, err := s.Store.Cursor(ctx)
	if err != nil {
		return 0, err
	}
	var page api.SummaryFeed
	if err := s.History.Get(ctx, "/internal/v1/summaries"+feed.Query(after, wait), &page); err != nil {
		return 0, err
	}
	if page.Rules < api.SummaryRules {
		return 0, errors.New("history sent summaries of older rules: upgrade history")
	}
	n := len(page.Summaries)
	if n == 0 {
		return 0, nil
	}
	if last := page.Summaries[n-1].Sequence; last <= after { // the same request would be repeated forever
		return 0, fmt.Errorf("history sent a page that ends at sequence %d: want above %d", last, after)
	}
	return n, s.Store.SaveSummaries(ctx, page.Summaries)
}
