package catalog

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/services/catalog/internal/store"
)

// summaries returns the copy of history's summaries in listings. Its position is stored with the
// summaries, so it resumes where it stopped after an outage of either side.
func summaries(history *peer.Client, listings *store.Store) feed.Copy[api.EncodedSummary] {
	return feed.Copy[api.EncodedSummary]{
		Name:      "summaries",
		Sequence:  func(s api.EncodedSummary) int64 { return s.Sequence },
		Cursor:    listings.Cursor,
		Save:      listings.SaveSummaries,
		StartOver: listings.StartOver,
		Prune:     listings.Prune,
		Fetch: func(ctx context.Context, query string) (p feed.Page[api.EncodedSummary], err error) {
			var page api.SummaryFeed
			if err := history.Get(ctx, "/internal/v1/summaries"+query, &page); err != nil {
				return p, err
			}
			return feed.Page[api.EncodedSummary]{Changes: page.Summaries, Mark: page.Mark, StartOver: page.StartOver},
				nil
		},
	}
}
