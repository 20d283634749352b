// Package feed pulls the summaries of the verification history into the catalog's own copy. The position reached is kept with
// the summaries, so what an outage of either side held back is made up for afterwards.
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

// Summaries pulls what history's events come to.
type Summaries struct {
	History *peer.Client
	Store   *store.Store
	Tel     *telemetry.Telemetry
}

// Run pulls until ctx ends. Whatever fails is tried again.
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
		return 0, errors.New("history answers with summaries of older rules; it is to be upgraded too")
	}
	n := len(page.Summaries)
	if n == 0 {
		return 0, nil
	}
	if last := page.Summaries[n-1].Sequence; last <= after { // would be asked for again without end
		return 0, fmt.Errorf("history answered sequence %d to a request for what is after %d", last, after)
	}
	return n, s.Store.SaveSummaries(ctx, page.Summaries)
}
