package catalog

import (
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/services/catalog/internal/store"
)

// summaries returns the copy of history's summaries in listings. Its position is stored with the
// summaries, so it resumes where it stopped after an outage of either side.
func summaries(history *peer.Client, listings *store.Store) feed.Copy[api.EncodedSummary] {
	return feed.Copy[api.EncodedSummary]{
		Name:     "summaries",
		Get:      history.Get,
		Path:     "/internal/v1/summaries",
		Sequence: func(s api.EncodedSummary) int64 { return s.Sequence },
		Store:    listings,
	}
}
